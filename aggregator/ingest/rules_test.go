package ingest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/brokertest"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/ruleset"
)

// revise publishes a message that puts rules in force in a shard.
func (f *fixture) revise(shard int, number, rules, body string) {
	f.t.Helper()
	msg := nats.NewMsg(hit.Subject(shard, hit.RulesSender))
	msg.Header.Set(hit.HeaderRevision, number)
	msg.Header.Set(hit.HeaderRules, rules)
	msg.Data = []byte(body)
	if _, err := f.js.PublishMsg(f.t.Context(), msg); err != nil {
		f.t.Fatal(err)
	}
}

// inForce waits until all shards have rules in force.
func (f *fixture) inForce(want store.InForce) {
	f.t.Helper()
	brokertest.Eventually(f.t, func() string {
		all, err := f.store.InForce(f.t.Context())
		if err != nil {
			return err.Error()
		}
		for shard, got := range all {
			if got != want {
				return fmt.Sprintf("in force in shard %d is %+v, want %+v", shard, got, want)
			}
		}
		return ""
	})
}

// Messages that put rules in force come between others, some twice or malformed. The
// malformed ones are set aside, and nothing stops.
func TestRevisionsInTheLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.ensure()
	first, second := brokertest.Rules, hit.RulesIDOf([]byte("second"))
	bad := 0
	for shard := range testShards {
		f.send(5)
		f.revise(shard, "1", first.String(), "")
		f.revise(shard, "1", first.String(), "")
		for _, m := range [][3]string{
			{"0", second.String(), ""}, {"", "", ""}, {"9999999999", second.String(), ""}, {"8", "zz", ""}, {"8", second.String(), "surprise"},
		} {
			f.revise(shard, m[0], m[1], m[2])
			bad++
		}
		f.send(5)
		f.revise(shard, "3", second.String(), "")
		f.revise(shard, "2", first.String(), "")
		f.send(5)
	}
	fl, stop := f.start(f.store, "a")
	f.counted()
	f.inForce(store.InForce{Revision: 3, ID: second})
	f.faulty(fl, faults.Poisoned)
	poison, err := f.js.Stream(t.Context(), hit.PoisonStream)
	if err != nil {
		t.Fatal(err)
	}
	if n := poison.CachedInfo().State.Msgs; n != uint64(bad) {
		t.Errorf("%d messages were set aside, want %d", n, bad)
	}
	for _, x := range fl.Active() {
		if x.Kind != faults.Poisoned {
			t.Errorf("fault %+v", x)
		}
	}
	// Reading the log again changes nothing.
	stop()
	f.start(f.store, "b")
	f.send(5)
	f.counted()
	f.inForce(store.InForce{Revision: 3, ID: second})
}

// A shard waits for rules that the broker lacks, with a fault. Others go on.
func TestRulesMissing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.ensure()
	missing := hit.RulesIDOf([]byte("missing"))
	var found atomic.Bool
	fl, _ := f.startWith(f.store, "a", func(o *Options) {
		have := o.Rules
		o.Rules = func(ctx context.Context, id hit.RulesID) (*ruleset.Rules, error) {
			if id == missing && !found.Load() {
				return nil, errors.New("no such document")
			}
			return have(ctx, id)
		}
	})
	ahead := brokertest.NewEdge(t, f.js, "ahead", testShards)
	h := brokertest.View("articles", "x", 1, time.Now())
	shard := hit.Shard(h.Kind, h.List, h.Item, testShards)
	data, err := hit.Encode(&hit.Batch{Edge: ahead.ID, Shard: shard, Seq: 1, Rules: missing, Hits: []hit.Hit{h}})
	if err != nil {
		t.Fatal(err)
	}
	ahead.PublishRaw(shard, 1, data)
	f.faulty(fl, faults.RulesMissing)
	for _, x := range fl.Active() {
		if x.Kind == faults.RulesMissing {
			for _, want := range []string{missing.String(), "edge ahead", "no such document", "aggregator rules add"} {
				if !strings.Contains(x.Message, want) {
					t.Errorf("the fault %q lacks %q", x.Message, want)
				}
			}
		} else {
			t.Errorf("fault %+v", x)
		}
	}
	f.send(21) // of all shards
	for item := range 7 {
		h := brokertest.View("articles", fmt.Sprintf("item-%d", item), 1, time.Now())
		if hit.Shard(h.Kind, h.List, h.Item, testShards) == shard {
			f.sent -= 3
		}
	}
	f.counted()
	waiting := 21 - f.sent
	if waiting == 0 {
		t.Fatal("no hits are behind the missing rules")
	}
	f.faulty(fl, faults.RulesMissing)

	found.Store(true)
	f.sent = 22
	f.counted()
	brokertest.Eventually(t, func() string {
		if a := fl.Active(); len(a) != 0 {
			return fmt.Sprintf("faults: %+v", a)
		}
		return ""
	})
}
