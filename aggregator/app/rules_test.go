package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hotboard/hotboard/aggregator/board"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/brokertest"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/internal/revisions"
	"github.com/hotboard/hotboard/ruleset"
)

// halfLife is rules with the list articles, ranked by a half-life.
func halfLife(d time.Duration) *ruleset.Rules {
	return ruleset.MustCompile(ruleset.Config{Lists: []*ruleset.ListConfig{
		{Name: "articles", Score: ruleset.Score{Model: ruleset.HalfLife, HalfLife: ruleset.Duration(d)}},
	}})
}

// propose proposes rules like another process.
func (f *fixture) propose(r *ruleset.Rules, a revisions.Authority) revisions.Revision {
	f.t.Helper()
	b := revisions.New(func() *nats.Conn { return f.nc }, 0)
	now, _, err := b.Propose(f.t.Context(), r, revisions.Source{Authority: a, By: "a test"}, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	return now
}

// fault waits until a fault has all of texts, or is gone without any.
func (f *fixture) fault(kind faults.Kind, texts ...string) {
	f.t.Helper()
	brokertest.Eventually(f.t, func() string {
		got := message(f.faults, kind)
		if (got == "") != (len(texts) == 0) {
			return fmt.Sprintf("the fault is %q", got)
		}
		for _, text := range texts {
			if !strings.Contains(got, text) {
				return fmt.Sprintf("the fault is %q, without %q", got, text)
			}
		}
		return ""
	})
}

func TestFollow(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options) { o.Rules, o.RulesDifferAfter = nil, 100*time.Millisecond })
	if status, body := f.get("/hot"); status != 503 || !strings.Contains(body, "rules") {
		t.Errorf("without rules: %d %s", status, body)
	}
	f.fault(faults.RulesUnknown, "aggregator rules add")
	f.propose(lists("articles"), revisions.Caddyfile)
	f.edge.Send(brokertest.View("articles", "a", 1, time.Now()))
	f.counts("articles", 1)
	f.fault(faults.RulesUnknown)
	f.propose(lists("articles", "more"), revisions.Caddyfile)
	f.counts("more", 0)
	f.inForce(2)
	if found := f.Faults(t.Context()); len(found) > 0 {
		t.Errorf("faults: %+v", found)
	}
}

// Hits under rules that the broker lacks wait, and none is lost.
func TestHitsWaitForTheirRules(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.inForce(1)
	more := lists("articles", "more")
	f.edge.Rules = more.ID()
	f.edge.Send(brokertest.View("more", "x", 1, time.Now()))
	f.fault(faults.RulesMissing, more.ID().String(), "edge-1")
	f.propose(more, revisions.Aggregator) // an edge would do so before it sends
	f.counts("more", 1)
	f.fault(faults.RulesMissing)
}

// While a shard has not rebuilt its live list, answers go on by the old rules.
func TestTheLiveListIsNeverEmpty(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options) { o.Rules = halfLife(time.Hour) })
	f.inForce(1)
	f.edge.Rules = halfLife(time.Hour).ID()
	now := time.Now()
	for i := range 8 {
		f.edge.Send(brokertest.View("articles", fmt.Sprint("item-", i), 1, now))
	}
	f.counts("articles", 8)
	full := func() {
		t.Helper()
		var b board.Board
		if status, body := f.get("/hot?list=articles&limit=100"); status != 200 || json.Unmarshal([]byte(body), &b) != nil || len(b.Items) != 8 {
			t.Fatalf("%d %s", status, body)
		}
	}
	for i := range 3 {
		f.load = func() (*ruleset.Rules, error) { return halfLife(time.Duration(i+2) * time.Hour), nil }
		if err := f.ReloadRules(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := ruleset.Duration(time.Duration(i+2) * time.Hour)
		brokertest.Eventually(t, func() string {
			full()
			if got := f.Rules().List("articles").Score.HalfLife; got != want {
				return fmt.Sprintf("answers use the half-life %s, want %s", got, want)
			}
			return ""
		})
		full()
	}
}

// One shard waits while the rules change twice. The other one keeps what answers
// need, because it gets one new revision at a time.
func TestChangesWhileAShardWaits(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options) { o.Rules = halfLife(time.Hour) })
	f.inForce(1)
	f.edge.Rules = halfLife(time.Hour).ID()
	for i := range 8 {
		f.edge.Send(brokertest.View("articles", fmt.Sprint("item-", i), 1, time.Now()))
	}
	f.counts("articles", 8)
	missing := lists("articles", "more")
	f.edge.Rules = missing.ID()
	f.edge.Send(brokertest.View("articles", "item-0", 2, time.Now()))
	f.fault(faults.RulesMissing, missing.ID().String())
	for i := range 2 {
		f.load = func() (*ruleset.Rules, error) { return halfLife(time.Duration(i+2) * time.Hour), nil }
		if err := f.ReloadRules(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for began := time.Now(); time.Since(began) < 3*rulesEvery; {
		var b board.Board
		if status, body := f.get("/hot?list=articles&limit=100"); status != 200 || json.Unmarshal([]byte(body), &b) != nil || len(b.Items) != 8 {
			t.Fatalf("%d %s", status, body)
		}
	}
	if err := f.Book().PutDocument(t.Context(), missing.Document()); err != nil {
		t.Fatal(err)
	}
	f.inForce(3)
}

func TestReloadThatLoses(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options) { o.RulesDifferAfter = 100 * time.Millisecond })
	f.inForce(1)
	f.propose(lists("other"), revisions.Aggregator)
	f.fault(faults.RulesDiffer, "revision 2 (", "lists.articles", "aggregator rules use")
	reload := func() *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/-/reload", nil)
		r.RemoteAddr = "127.0.0.1:1234"
		w := httptest.NewRecorder()
		f.Handler().ServeHTTP(w, r)
		return w
	}
	f.load = func() (*ruleset.Rules, error) { return lists("articles"), nil }
	if w := reload(); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "revision 2 (") {
		t.Errorf("rules of before: %d %s", w.Code, w.Body)
	}
	f.load = func() (*ruleset.Rules, error) { return lists("new"), nil }
	if w := reload(); w.Code != http.StatusOK {
		t.Errorf("new rules: %d %s", w.Code, w.Body)
	}
	f.counts("new", 0)
	f.fault(faults.RulesDiffer)
	f.load = func() (*ruleset.Rules, error) { return nil, nil }
	f.propose(lists("newer"), revisions.Aggregator)
	if w := reload(); w.Code != http.StatusOK { // follows
		t.Errorf("no rules: %d %s", w.Code, w.Body)
	}
	f.counts("newer", 0)
	f.fault(faults.RulesDiffer)
}

func TestEdgesWithOtherRules(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options) { o.RulesDifferAfter = 200 * time.Millisecond })
	f.inForce(1)
	report := func(edge string, rules hit.RulesID) {
		t.Helper()
		body, err := json.Marshal(hit.Waiting{Edge: edge, Rules: rules})
		if err != nil {
			t.Fatal(err)
		}
		request[hit.Applied](f, hit.SubjectApplied, body)
	}
	other := lists("articles", "more")
	if err := f.Book().PutDocument(t.Context(), other.Document()); err != nil {
		t.Fatal(err)
	}
	// reported waits until the fault has text, while edges report the other rules.
	reported := func(text string, edges ...string) {
		t.Helper()
		brokertest.Eventually(t, func() string {
			for _, e := range edges {
				report(e, other.ID())
			}
			if got := message(f.faults, faults.RulesDiffer); !strings.Contains(got, text) {
				return fmt.Sprintf("the fault is %q, without %q", got, text)
			}
			return ""
		})
	}
	report("edge-1", lists("articles").ID())
	report("gone", other.ID()) // or mended since, and without hits
	reported("edge edge-2 accepts", "edge-2")
	f.fault(faults.RulesDiffer, other.ID().Short(), "lists.more added")
	reported("(and 1 other edges)", "edge-2", "edge-3")
	report("edge-2", lists("articles").ID())
	f.fault(faults.RulesDiffer, "edge edge-3 accepts")
	report("edge-3", lists("articles").ID())
	f.fault(faults.RulesDiffer)
}

// A broker that has lost the bucket and the numbers of the revisions gets rules
// into force again.
func TestLostRevisions(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.load = func() (*ruleset.Rules, error) { return lists("more"), nil }
	if err := f.ReloadRules(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.inForce(2)
	if err := f.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := f.server.JetStream().DeleteStream(t.Context(), "KV_"+hit.RulesBucket); err != nil {
		t.Fatal(err)
	}
	f.opts.Registry, f.opts.Rules = nil, lists("articles")
	a, err := New(f.opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Stop(context.WithoutCancel(t.Context())) })
	f.App = a
	f.fault(faults.RulesMissing, lists("more").ID().String()) // decided what is stored
	if err := a.Book().PutDocument(t.Context(), lists("more").Document()); err != nil {
		t.Fatal(err)
	}
	f.inForce(3)
	f.counts("articles", 0)
	f.fault(faults.RulesMissing)
}

// While no aggregator runs, the broker loses the bucket, and an edge adds a first
// revision again, with other rules than the first one before.
func TestNumbersThatBeginAnew(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.inForce(1)
	if err := f.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := f.server.JetStream().DeleteStream(t.Context(), "KV_"+hit.RulesBucket); err != nil {
		t.Fatal(err)
	}
	book := revisions.New(func() *nats.Conn { return f.nc }, 0)
	if err := book.PutDocument(t.Context(), lists("articles").Document()); err != nil { // from an edge's disk
		t.Fatal(err)
	}
	if now := f.propose(lists("articles", "more"), revisions.Caddyfile); now.Number != 1 {
		t.Fatal(now)
	}
	f.opts.Registry, f.opts.Rules = nil, nil
	a, err := New(f.opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Stop(context.WithoutCancel(t.Context())) })
	f.App = a
	f.counts("more", 0)
	f.inForce(3)
}
