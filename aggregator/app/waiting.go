package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/faults"
)

const (
	// waitingEdges bounds how many edges are remembered.
	waitingEdges = 1024
	// waitingForget is how long an edge is remembered after its last report.
	waitingForget = time.Hour
	// waitingFresh is how long an edge's report of a refusal holds. An edge reports
	// every second while anything waits.
	waitingFresh = 30 * time.Second
)

// waiting holds the reports of edges whose batches wait. Every aggregator hears all
// reports, also those that another one answers.
type waiting struct {
	faults *faults.Registry
	after  time.Duration // see [Options.BehindAfter]

	mu    sync.Mutex
	edges map[string]report
}

type report struct {
	hit.Waiting
	at time.Time
}

func newWaiting(f *faults.Registry, after time.Duration) *waiting {
	return &waiting{faults: f, after: after, edges: map[string]report{}}
}

// heard takes in a report.
func (w *waiting) heard(r hit.Waiting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, known := w.edges[r.Edge]
	switch {
	case r.Batches == 0 && known:
		delete(w.edges, r.Edge)
		w.judge()
	case r.Batches > 0 && (known || len(w.edges) < waitingEdges):
		w.edges[r.Edge] = report{r, time.Now()}
	}
}

// run raises and clears faults until ctx is done.
func (w *waiting) run(ctx context.Context) {
	tick := time.NewTicker(min(time.Second, w.after/4))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.mu.Lock()
			w.judge()
			w.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// judge turns the reports into faults. The caller holds mu.
func (w *waiting) judge() {
	var behind, refused struct {
		report
		wait   time.Duration
		others int
	}
	for edge, r := range w.edges {
		silent := time.Since(r.at)
		if silent >= waitingForget {
			delete(w.edges, edge)
			continue
		}
		wait := time.Duration(r.OldestMillis)*time.Millisecond + silent
		if wait >= w.after {
			if behind.others++; wait > behind.wait {
				behind.report, behind.wait = r, wait
			}
		}
		if r.Refused != "" && silent < waitingFresh {
			if refused.others++; wait > refused.wait {
				refused.report, refused.wait = r, wait
			}
		}
	}
	others := func(n int) string {
		if n < 2 {
			return ""
		}
		return fmt.Sprintf(" (and %d other edges)", n-1)
	}
	if behind.others > 0 {
		message := fmt.Sprintf("edge %s%s: %d batches wait to be counted, the oldest for %s", behind.Edge, others(behind.others), behind.Batches, behind.wait.Round(time.Second))
		if silent := time.Since(behind.at); silent >= waitingFresh {
			message += fmt.Sprintf("; it has not been heard of for %s: is it running, and does it reach NATS?", silent.Round(time.Second))
		}
		w.faults.Set(faults.Behind, faults.Whole, message)
	} else {
		w.faults.Clear(faults.Behind, faults.Whole)
	}
	if refused.others > 0 {
		w.faults.Set(faults.LogRefuses, faults.Whole, fmt.Sprintf("edge %s%s cannot store hits in the log: %.*s", refused.Edge, others(refused.others), hit.MaxRefused, refused.Refused))
	} else {
		w.faults.Clear(faults.LogRefuses, faults.Whole)
	}
}
