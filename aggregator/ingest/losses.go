package ingest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/faults"
)

// begin records that the counts of a shard begin here, which tells it from a shard
// whose store is emptied later. If the log has lost its beginning by then, that is
// a loss: the counts lack its hits.
func (w *worker) begin(ctx context.Context, state *store.State) error {
	stream, err := w.in.js.Stream(ctx, hit.Stream)
	if err != nil {
		return w.logError(ctx, fmt.Errorf("looking at the stream %s: %w", hit.Stream, err))
	}
	c := &store.Commit{To: store.Position{Version: rand.Uint64()}}
	if first := stream.CachedInfo().State.FirstSeq; first > 1 {
		c.Losses = []store.Loss{{Shard: w.shard, From: 1, To: first - 1}}
	}
	if err := w.in.Store.Commit(ctx, w.shard, c); err != nil {
		return w.storeError(ctx, fmt.Errorf("committing: %w", err))
	}
	state.Position = c.To
	w.at(c.To)
	if len(c.Losses) > 0 {
		w.in.ShowLosses(ctx)
	}
	return nil
}

// ShowLosses raises Incomplete if the store has unacknowledged losses, and clears
// it if not. Run does so from time to time.
func (in *Ingest) ShowLosses(ctx context.Context) {
	in.showing.Lock() // an older answer could be shown last
	defer in.showing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	losses, err := in.Store.Losses(ctx)
	switch {
	case err != nil: // StoreAway gives the reason
	case len(losses) == 0:
		in.Faults.Clear(faults.Incomplete, faults.Whole)
	default:
		in.Faults.Set(faults.Incomplete, faults.Whole, describe(losses))
	}
}

// describedEdges bounds how many edges the message of a fault names.
const describedEdges = 5

// describe summarizes losses in one sentence.
func describe(losses []store.Loss) string {
	type sum struct {
		store.Loss
		shards int
	}
	var edges []string
	sums := map[string]*sum{}
	for _, l := range losses {
		s := sums[l.Edge]
		if s == nil {
			s = &sum{Loss: l}
			sums[l.Edge] = s
			edges = append(edges, l.Edge)
		} else {
			s.From, s.To, s.Batches = min(s.From, l.From), max(s.To, l.To), s.Batches+l.Batches
		}
		s.shards++
	}
	in := func(s *sum) string {
		if s.shards == 1 {
			return fmt.Sprintf("shard %d", s.Shard)
		}
		return fmt.Sprintf("%d shards", s.shards)
	}
	var lacks []string
	for i, edge := range edges {
		s := sums[edge]
		if i == describedEdges {
			lacks = append(lacks, fmt.Sprintf("batches of %d more edges", len(edges)-i))
			break
		}
		if edge == "" {
			lacks = append(lacks, fmt.Sprintf("all messages of the log before message %d (the store of %s was empty)", s.To+1, in(s)))
		} else {
			lacks = append(lacks, fmt.Sprintf("%d batches of edge %s (%d to %d of %s)", s.Batches, edge, s.From, s.To, in(s)))
		}
	}
	return "the counts lack " + strings.Join(lacks, ", ") +
		", which neither the log nor an edge has any more; restore a copy of the store that has them, or acknowledge it with POST /-/acknowledge"
}
