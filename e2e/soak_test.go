package e2e

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/hotboard/hotboard/e2e/stack"
	"github.com/hotboard/hotboard/hit"
)

var soak = flag.Duration("soak", 20*time.Second, "how long TestSoak takes; see soak.sh")

// Intervals between TestSoak's actions.
const (
	soakReload = 2 * time.Second
	soakKill   = 5 * time.Second
)

// TestSoak runs a stack under load, with reloads and a kill now and then. One edge
// and one aggregator are never killed: these must not grow.
func TestSoak(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Options{Edges: 2, Aggregators: 2})
	st := s.Store()
	edge, aggregator := s.Edges[0], s.Aggregators[0]
	watched := []*watched{
		{name: "edge", pid: edge.PID(), metrics: edge.Metrics},
		{name: "aggregator", pid: aggregator.PID(), metrics: aggregator.Metrics},
	}
	victims := []*victim{
		{name: "edge 2", process: s.Edges[1]},
		{name: "nats-server", process: s.NATS},
		{name: "redis-server", process: s.Redis},
		{name: "aggregator 2", process: s.Aggregators[1]},
	}
	configs := []string{changedConfig(t, edge), edge.Config}
	l := startLoad(t, loadOptions{sites: []string{edge.URL, s.Edges[1].URL}, beacons: 100, pages: 50, redial: true})
	// A warm-up, for whatever is allocated only once.
	for i, v := range victims {
		edge.Reload(t, configs[i%2])
		v.Relaunch()
		enough(t, l, 50)
	}
	drain(t, s, l)
	for _, w := range watched {
		w.first = w.look(t)
	}

	var reloads, kills int
	reload, kill, end := time.NewTicker(soakReload), time.NewTicker(soakKill), time.NewTimer(*soak)
	defer reload.Stop()
	defer kill.Stop()
	defer end.Stop()
	for running := true; running; {
		select {
		case <-reload.C:
			edge.Reload(t, configs[reloads%2])
			reloads++
			for _, w := range watched {
				w.look(t)
			}
		case <-kill.C:
			victims[kills%len(victims)].Relaunch() // kills it first
			kills++
		case <-end.C:
			running = false
		case <-t.Context().Done():
			return
		}
	}
	ledger := l.stop()
	b := ledger.balance(settle(t, s, st, func(counts map[string]int) string { return ledger.balance(counts).wrong() }))
	// A repeated beacon may be a duplicate, but never a second view.
	_, views, err := storeHits(t.Context(), st, hit.View, stack.List)
	if err != nil {
		t.Fatal(err)
	}
	for id := range ledger.beacons {
		if views[id] > 1 {
			t.Errorf("%s has %d views of one visitor", id, views[id])
		}
	}

	// Closed connections end in their own time.
	eventually(t, func() string {
		for _, w := range watched {
			if wrong := w.grown(w.look(t)); wrong != "" {
				return wrong
			}
		}
		return ""
	})
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "process\tRSS MB first, most, last\tgoroutines\topen files")
	for _, p := range watched {
		fmt.Fprintf(w, "%s\t%d %d %d\t%d %d %d\t%d %d %d\n", p.name, p.first.rss>>20, p.most.rss>>20, p.last.rss>>20,
			p.first.goroutines, p.most.goroutines, p.last.goroutines, p.first.files, p.most.files, p.last.files)
	}
	_ = w.Flush() // a strings.Builder accepts everything
	t.Logf("%v with %d reloads and %d kills: acknowledged %d, lost %d, double %d, and %d pages\n%s",
		*soak, reloads, kills, b.acknowledged, b.lost, b.double, ledger.pageViews(), &table)
}

// watched is a process whose size is measured.
type watched struct {
	name              string
	pid               int
	metrics           func() (stack.Metrics, error)
	first, most, last usage
}

// usage is a process's use of resources.
type usage struct{ rss, goroutines, files int }

// look measures a process.
func (w *watched) look(t *testing.T) usage {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.pid))
	if err != nil {
		t.Skipf("what a process takes is only looked at on Linux: %v", err)
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", w.pid))
	if err != nil {
		t.Fatal(err)
	}
	// A reload replaces the admin endpoint, and resets connections that the old one
	// has not accepted yet.
	var m stack.Metrics
	eventually(t, func() string {
		if m, err = w.metrics(); err != nil {
			return err.Error()
		}
		return ""
	})
	goroutines := m.Sum("go_goroutines")
	if goroutines == 0 {
		t.Fatalf("the metrics of the %s have no go_goroutines", w.name)
	}
	w.last = usage{number(t, vmRSS, string(status)) << 10, int(goroutines), len(files)}
	w.most = usage{max(w.most.rss, w.last.rss), max(w.most.goroutines, w.last.goroutines), max(w.most.files, w.last.files)}
	return w.last
}

// Bounds of the growth of a process, however long the test runs. Connections of the
// load take files and goroutines, and the runtime returns memory late.
const (
	soakGoroutines = 2 * moreGoroutines
	soakFiles      = 20
	soakRSS        = 64 << 20
)

// grown describes a process's growth beyond the bounds, or is "".
func (w *watched) grown(now usage) string {
	if now.goroutines > w.first.goroutines+soakGoroutines || now.files > w.first.files+soakFiles || now.rss > w.first.rss+soakRSS {
		return fmt.Sprintf("the %s has grown from %+v to %+v", w.name, w.first, now)
	}
	return ""
}
