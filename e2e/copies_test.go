package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hotboard/hotboard/e2e/stack"
)

// TestCopiedEdge starts an edge and a copy of it, both with the same unsent hits.
func TestCopiedEdge(t *testing.T) {
	t.Parallel()
	for name, answered := range map[string]bool{"aggregator answers": true, "no aggregator answers": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stack.Start(t, stack.Options{})
			st, edge, aggregator := s.Store(), s.Edges[0], s.Aggregators[0]
			l := startLoad(t, loadOptions{sites: []string{edge.URL}, beacons: 100, pages: 20, strict: true})
			enough(t, l, 100)
			s.NATS.Kill()
			enough(t, l, 100) // they wait on the disk

			l.pause()
			edge.Stop()
			twin := copied(t, edge.Data)
			s.NATS.Restart()
			if answered {
				eventually(t, func() string { return unready(s.Aggregators) })
			} else {
				aggregator.Kill()
			}
			edge.Restart()
			l.sites = append(l.sites, s.AddEdge(stack.EdgeOptions{Data: twin}).URL)
			l.resume()
			enough(t, l, 300)
			if !answered {
				aggregator.Restart()
			}
			enough(t, l, 100)
			ledger := l.stop()
			settle(t, s, st, ledger.exact)
		})
	}
}

// TestRestoredEdge replaces an edge's data with an older copy.
func TestRestoredEdge(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Options{})
	st, edge := s.Store(), s.Edges[0]
	l := startLoad(t, loadOptions{sites: []string{edge.URL}, beacons: 100, pages: 20, strict: true})
	enough(t, l, 100)
	s.NATS.Kill()
	enough(t, l, 100) // they wait on the disk, and are in the copy

	l.pause()
	edge.Stop() // page views wait in memory for a moment
	older := copied(t, edge.Data)
	s.NATS.Restart()
	edge.Restart()
	l.resume()
	enough(t, l, 200)

	l.pause()
	eventually(t, func() string { return unapplied(s.Edges) }) // hits only on that disk are lost with it
	edge.Kill()
	if err := os.RemoveAll(edge.Data); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(older, edge.Data); err != nil {
		t.Fatal(err)
	}
	edge.Restart()
	l.resume()
	enough(t, l, 200)
	ledger := l.stop()
	settle(t, s, st, ledger.exact)
}

// copied returns the path of a copy of a directory.
func copied(t *testing.T, dir string) string {
	t.Helper()
	twin := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(twin, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return twin
}
