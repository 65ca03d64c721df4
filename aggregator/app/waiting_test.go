package app

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/brokertest"
	"github.com/hotboard/hotboard/internal/faults"
)

func message(r *faults.Registry, kind faults.Kind) string {
	for _, f := range r.Active() {
		if f.Kind == kind {
			return f.Message
		}
	}
	return ""
}

func TestWhatEdgesWaitForIsAFault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := faults.New(slog.New(slog.DiscardHandler), "hotboard", faults.Aggregator)
		w := newWaiting(r, time.Minute)
		go w.run(t.Context())
		after := func(d time.Duration, behind, refuses string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			for kind, want := range map[faults.Kind]string{faults.Behind: behind, faults.LogRefuses: refuses} {
				if got := message(r, kind); (want == "") != (got == "") || !strings.Contains(got, want) {
					t.Errorf("%s: %q, want %q", kind, got, want)
				}
			}
		}
		w.heard(hit.Waiting{Edge: "a", Batches: 5, OldestMillis: 30_000})
		w.heard(hit.Waiting{Edge: "b", Batches: 7, OldestMillis: 1000, Refused: "no space; restart nats-server"})
		after(2*time.Second, "", "edge b cannot store hits in the log: no space; restart nats-server")
		after(30*time.Second, "edge a: 5 batches wait to be counted, the oldest for 1m", "")
		after(40*time.Second, "edge a (and 1 other edges): 5 batches", "")
		w.heard(hit.Waiting{Edge: "a"})
		after(2*time.Second, "edge b: 7 batches", "")
		after(0, "has not been heard of for 1m", "")
		after(time.Hour, "", "")

		for i := range 2 * waitingEdges {
			w.heard(hit.Waiting{Edge: fmt.Sprint("edge-", i), Batches: 1})
		}
		if n := len(w.edges); n != waitingEdges {
			t.Errorf("%d edges are remembered", n)
		}
	})
}

// All aggregators hear an edge's report, also when another one answers.
func TestEveryAggregatorHearsWhatEdgesWaitFor(t *testing.T) {
	t.Parallel()
	first := start(t, func(o *Options) { o.BehindAfter = 200 * time.Millisecond })
	second, err := New(Options{Store: first.store, Conn: first.server.Connect(), Rules: lists("articles"), BehindAfter: 200 * time.Millisecond,
		Logger: brokertest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = second.Stop(t.Context()) })
	for _, batches := range []uint64{3, 0} {
		body, err := json.Marshal(hit.Waiting{Edge: "edge-1", Batches: batches, OldestMillis: 1000})
		if err != nil {
			t.Fatal(err)
		}
		request[hit.Applied](first, hit.SubjectApplied, body)
		brokertest.Eventually(t, func() string {
			for _, a := range []*App{first.App, second} {
				if got := message(a.faults, faults.Behind); (got != "") != (batches > 0) {
					return fmt.Sprintf("%d batches wait, and the fault is %q", batches, got)
				}
			}
			return ""
		})
	}
}
