package ingest

import (
	"cmp"
	"fmt"
	"time"

	"github.com/hotboard/hotboard/aggregator/fold"
	"github.com/hotboard/hotboard/hit"
)

const (
	// gapGrace is how long a gap may last before it is a fault. An edge sends missing
	// batches again after some seconds.
	gapGrace = 20 * time.Second
	// gapForget is how long after the last batch of an edge its gap is forgotten: the
	// edge is gone. If it returns, the gap or the missing batches return with it.
	gapForget = time.Hour
	// maxGaps bounds how many edges are watched at once.
	maxGaps = 1024
)

// gap is a run of batches of an edge that cannot be counted yet, because earlier
// ones are missing or they have a newer version.
type gap struct {
	since, last time.Time
	to          uint64 // highest batch sequence received
	version     uint8  // as in [fold.Held]
}

// gaps holds the gaps of one shard, by edge.
type gaps map[string]gap

// update takes in the batches that a commit held back, and the last sequences of
// the edges after it.
func (g gaps) update(held []fold.Held, applied map[string]uint64, now time.Time) {
	for _, h := range held {
		old, known := g[h.Edge]
		if !known {
			if len(g) >= maxGaps {
				continue
			}
			old.since = now
		}
		g[h.Edge] = gap{since: old.since, last: now, to: max(old.to, h.Seq), version: max(old.version, h.Version)}
	}
	for edge, old := range g {
		if applied[edge] >= old.to {
			delete(g, edge)
		}
	}
}

// forget drops the gaps of edges that have not sent anything for gapForget, and
// returns those edges.
func (g gaps) forget(now time.Time) (edges []string) {
	for edge, old := range g {
		if now.Sub(old.last) >= gapForget {
			delete(g, edge)
			edges = append(edges, edge)
		}
	}
	return edges
}

// outstanding describes the oldest gap if it has lasted too long.
func (g gaps) outstanding(now time.Time) string {
	edge, _ := g.oldest(func(x gap) bool { return x.version == 0 })
	if edge == "" || now.Sub(g[edge].since) < gapGrace {
		return ""
	}
	return fmt.Sprintf("edge %s has not sent the batches before its batch %d again for %s",
		edge, g[edge].to, now.Sub(g[edge].since).Round(time.Second))
}

// newer describes the edges whose batches have a newer version.
func (g gaps) newer() string {
	edge, n := g.oldest(func(x gap) bool { return x.version != 0 })
	if n == 0 {
		return ""
	}
	who := fmt.Sprintf("edge %s writes", edge)
	if n > 1 {
		who = fmt.Sprintf("edge %s and %d more write", edge, n-1)
	}
	return fmt.Sprintf("%s batches of version %d, this aggregator reads %d: upgrade the aggregator; until then the edge keeps its hits",
		who, g[edge].version, hit.Version)
}

// oldest returns the edge with the oldest of some of the gaps, and their number.
func (g gaps) oldest(some func(gap) bool) (edge string, n int) {
	for e, x := range g {
		if some(x) {
			if n++; n == 1 || cmp.Or(x.since.Compare(g[edge].since), cmp.Compare(e, edge)) < 0 {
				edge = e
			}
		}
	}
	return edge, n
}
