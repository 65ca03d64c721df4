package outcomes

import (
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/hotboard/hotboard/e2e/services"
	"github.com/hotboard/hotboard/hit"
)

// patience bounds every wait; nothing takes that long unless it fails.
const patience = 20 * time.Second

// The edge hears of votes over the connection of the configuration in force.
func TestFollow(t *testing.T) {
	t.Parallel()
	heard := make(chan hit.UsedQuota, 10)
	o := New(func(u hit.UsedQuota) { heard <- u }, zap.NewNop())
	publish := func(nc *nats.Conn, rule string) {
		t.Helper()
		data, _ := json.Marshal(hit.Outcomes{Used: []hit.UsedQuota{{Limit: rule}}})
		if err := errors.Join(nc.Flush(), nc.Publish(hit.SubjectOutcomes, data), nc.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	next := func(want string) {
		t.Helper()
		select {
		case u := <-heard:
			if u.Limit != want {
				t.Errorf("heard %q, want %q", u.Limit, want)
			}
		case <-time.After(patience):
			t.Fatalf("%q was not heard", want)
		}
	}
	var conns []*nats.Conn
	for range 2 {
		nc, err := nats.Connect(services.StartNATS(t).URL)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		conns = append(conns, nc)
	}
	o.Follow(conns[0])
	publish(conns[0], "one")
	next("one")
	o.Follow(conns[0])
	publish(conns[0], "once")
	next("once")
	if err := conns[0].Publish(hit.SubjectOutcomes, []byte("not JSON")); err != nil {
		t.Fatal(err)
	}
	o.Follow(conns[1])
	publish(conns[0], "nobody")
	publish(conns[1], "two")
	next("two")
	o.Follow(nil)
	publish(conns[1], "nobody")
	conns[1].Close()
	o.Follow(conns[1]) // closed: nothing to hear, and nothing that fails
	if len(heard) != 0 {
		t.Errorf("heard %+v", <-heard)
	}
}

// Every vote that waits hears of its own outcome, however many there are at once.
func TestAwait(t *testing.T) {
	t.Parallel()
	o := New(func(hit.UsedQuota) {}, zap.NewNop())
	var wg sync.WaitGroup
	for n := range 200 {
		wg.Go(func() {
			hits := make([]hit.Hit, 3)
			a := o.Await(hits)
			defer a.End()
			said := hit.Outcomes{Votes: []hit.VoteOutcome{{Confirm: 1}}} // somebody else's
			for i, h := range hits {
				v := hit.VoteOutcome{Confirm: h.Confirm, Rank: int64(n*10 + i)}
				said.Votes = append(said.Votes, v, v) // twice, as after a failure
			}
			data, _ := json.Marshal(said)
			o.receive(&nats.Msg{Data: data})
			known := a.Wait(t.Context(), patience)
			for i, h := range hits {
				if h.Confirm == 0 || known[h.Confirm].Rank != int64(n*10+i) {
					t.Errorf("vote %d of %d: %+v", i, n, known[h.Confirm])
				}
			}
		})
	}
	wg.Wait()
	if len(o.awaited) != 0 {
		t.Errorf("%d still wait", len(o.awaited))
	}
}
