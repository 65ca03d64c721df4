package ingest

import (
	"fmt"
	"time"

	"github.com/hotboard/hotboard/aggregator/fold"
	"github.com/hotboard/hotboard/hit"
)

const (
	// gapGrace is how long a gap may last before it is a fault. An edge sends what
	// is missing after some seconds.
	gapGrace = 20 * time.Second
	// gapForget is how long after the last batch of an edge its gap is given up.
	// The edge is gone then; should it come back, so does the gap, or what is
	// missing.
	gapForget = time.Hour
	// maxGaps bounds how many edges are watched at once.
	maxGaps = 1024
)

// gap is that batches of an edge came which cannot be counted yet: earlier ones are
// missing, or they are of a newer version.
type gap struct {
	since, last time.Time
	to          uint64 // highest batch sequence that came
	version     uint8  // as in [fold.Held]
}

// gaps are those of one shard, by edge.
type gaps map[string]gap

// update takes in what a commit held back, and where the edges stand after it.
func (g gaps) update(held []fold.Held, producers map[string]uint64, now time.Time) {
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
		if producers[edge] >= old.to {
			delete(g, edge)
		}
	}
}

// forget gives up the gaps of edges that have not sent anything for long, and
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

// outstanding describes the gap that has lasted longest, if that is too long.
func (g gaps) outstanding(now time.Time) string {
	edge, _ := g.oldest(func(x gap) bool { return x.version == 0 })
	if edge == "" || now.Sub(g[edge].since) < gapGrace {
		return ""
	}
	return fmt.Sprintf("edge %s has not sent again what comes before its batch %d, for %s",
		edge, g[edge].to, now.Sub(g[edge].since).Round(time.Second))
}

// newer describes the edges whose batches are of a newer version.
func (g gaps) newer() string {
	edge, n := g.oldest(func(x gap) bool { return x.version != 0 })
	if n == 0 {
		return ""
	}
	who := fmt.Sprintf("edge %s writes", edge)
	if n > 1 {
		who = fmt.Sprintf("edge %s and %d more write", edge, n-1)
	}
	return fmt.Sprintf("%s batches of version %d, this aggregator reads %d: upgrade the aggregator; until then the edge keeps what it has",
		who, g[edge].version, hit.Version)
}

// oldest returns the edge with the oldest of some of the gaps, and how many those are.
func (g gaps) oldest(some func(gap) bool) (edge string, n int) {
	for e, x := range g {
		if some(x) {
			if n++; n == 1 || x.since.Before(g[edge].since) {
				edge = e
			}
		}
	}
	return edge, n
}
