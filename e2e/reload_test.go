package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/hotboard/hotboard/e2e/stack"
)

var reloads = flag.Int("reloads", 50, "how often TestReload reloads")

// TestReload reloads Caddy again and again under load.
//
// When the kernel has given a new connection to the listener of the old
// configuration, and that listener closes before it accepts the connection or reads
// a request from it, the connection is closed without an answer. Caddy without
// Hotboard does the same on Linux, since it opens listeners with SO_REUSEPORT. The
// load sends such a request again, like browsers; no part of Caddy has seen it.
func TestReload(t *testing.T) {
	if testing.Short() {
		t.Skip("reloads for half a minute, which -short is too short for")
	}
	t.Parallel()
	t.Run("NATS and Redis", func(t *testing.T) {
		t.Parallel()
		s := stack.Start(t, stack.Options{})
		ledger := reload(t, s.Edges[0])
		settle(t, s, s.Store(), ledger.exact)
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		edge := stack.StartEdge(t, stack.EdgeOptions{Broker: "embedded", Rules: stack.WriteRules(t, "")})
		ledger := reload(t, edge)
		eventually(t, func() string {
			if wrong := unapplied([]*stack.Edge{edge}); wrong != "" {
				return wrong
			}
			counts, err := boardCounts(edge.URL)
			if err != nil {
				return err.Error()
			}
			return ledger.exact(counts)
		})
	})
}

// reload reloads an edge under load, alternating between two configurations, and
// looks for growth. No request may fail.
func reload(t *testing.T, edge *stack.Edge) *ledger {
	t.Helper()
	configs := []string{changedConfig(t, edge), edge.Config}

	l := startLoad(t, loadOptions{sites: []string{edge.URL}, beacons: 100, pages: 100, strict: true, redial: true})
	enough(t, l, 100)
	for i := range 6 { // a warm-up, for whatever is allocated only once
		edge.Reload(t, configs[i%2])
	}
	before := sizeOf(t, edge)
	counted := 0.0
	for i := range *reloads {
		edge.Reload(t, configs[i%2])
		m, err := edge.Metrics()
		if err != nil {
			t.Fatal(err)
		}
		now := m.Sum("hotboard_edge_requests_total", "reason", "counted")
		if now < counted || i > 0 && now == 0 {
			t.Errorf("after reload %d the metrics have counted %v requests, and %v before", i+1, now, counted)
		}
		counted = now
	}
	ledger := l.stop()

	// Old configurations end in their own time.
	eventually(t, func() string {
		after := sizeOf(t, edge)
		wrong := after.grownFrom(before)
		if wrong == "" {
			t.Logf("before %d reloads: %+v; after them: %+v", *reloads, before, after)
		}
		return wrong
	})
	m, err := edge.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	want := float64(ledger.acknowledged() + ledger.pageViews())
	if got := m.Sum("hotboard_edge_requests_total", "reason", "counted"); got != want {
		t.Errorf("the metrics have counted %v requests, and %v were answered", got, want)
	}
	// A panic in a handler closes the connection too.
	if strings.Contains(edge.Printed(), "panic") {
		t.Error("the edge has panicked")
	}
	t.Logf("%d reloads: %d pages served, %d beacons acknowledged, none failed; %d connections were closed unanswered",
		*reloads, ledger.pageViews(), ledger.acknowledged(), l.redialled.Load())
	return ledger
}

// changedConfig writes a configuration that differs from the edge's in the rules
// and in the handler, and returns its path.
func changedConfig(t *testing.T, edge *stack.Edge) string {
	t.Helper()
	text, err := os.ReadFile(edge.Config)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "\trules_file", "\tlist others {\n\t\t\tpage /others/{id}\n\t\t}\n\t\trules_file", 1)
	changed = strings.Replace(changed, "\n\thotboard\n", "\n\thotboard {\n\t\tlists articles\n\t\tdebug_header\n\t}\n", 1)
	if strings.Count(changed, "\n") < strings.Count(string(text), "\n")+6 {
		t.Fatalf("the configuration is not what it was made from:\n%s", changed)
	}
	file := filepath.Join(t.TempDir(), "Caddyfile")
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// size is a process's use of resources.
type size struct {
	Goroutines int
	HeapBytes  int // after a garbage collection
	RSSBytes   int
}

// Bounds of the growth of a process in all reloads together. Each is below one
// goroutine or 100 kB for each of 50 reloads. Requests in progress take goroutines,
// and the runtime returns memory late.
const (
	moreGoroutines = 15
	moreHeapBytes  = 5 << 20
	moreRSSBytes   = 32 << 20
)

func (s size) grownFrom(before size) string {
	if s.Goroutines > before.Goroutines+moreGoroutines || s.HeapBytes > before.HeapBytes+moreHeapBytes || s.RSSBytes > before.RSSBytes+moreRSSBytes {
		return fmt.Sprintf("the edge has grown from %+v to %+v", before, s)
	}
	return ""
}

var (
	goroutines = regexp.MustCompile(`^goroutine profile: total (\d+)`)
	heapAlloc  = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)`)
	vmRSS      = regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB`)
)

func sizeOf(t *testing.T, edge *stack.Edge) size {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", edge.PID()))
	if err != nil {
		t.Skipf("what a process takes is only looked at on Linux: %v", err)
	}
	return size{
		HeapBytes:  number(t, heapAlloc, string(get(t, edge.Admin+"/debug/pprof/heap?debug=1&gc=1"))),
		Goroutines: number(t, goroutines, string(get(t, edge.Admin+"/debug/pprof/goroutine?debug=1"))),
		RSSBytes:   number(t, vmRSS, string(status)) << 10,
	}
}

func number(t *testing.T, in *regexp.Regexp, text string) int {
	t.Helper()
	m := in.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("there is no %s in %.500s", in, text)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
