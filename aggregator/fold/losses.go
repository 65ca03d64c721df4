package fold

import (
	"context"

	"github.com/hotboard/hotboard/aggregator/store"
)

// losses returns the new losses records of edges that lost batches. It reads the
// old ones from the store, not the state: an operator may have acknowledged them.
func (f *Folder) losses(ctx context.Context, shard int, lost []Gap) ([]store.Loss, error) {
	if len(lost) == 0 {
		return nil, nil
	}
	known, err := f.Store.Losses(ctx)
	if err != nil {
		return nil, err
	}
	sums := map[string]store.Loss{}
	for _, l := range known {
		if l.Shard == shard {
			sums[l.Edge] = l
		}
	}
	touched := map[string]store.Loss{}
	for _, g := range lost {
		l, ok := sums[g.Edge]
		if !ok {
			l = store.Loss{Shard: shard, Edge: g.Edge, From: g.From, To: g.To}
		}
		l.From, l.To = min(l.From, g.From), max(l.To, g.To)
		l.Batches += g.To - g.From + 1
		sums[g.Edge], touched[g.Edge] = l, l
	}
	losses := make([]store.Loss, 0, len(touched))
	for _, l := range touched {
		losses = append(losses, l)
	}
	return losses, nil
}
