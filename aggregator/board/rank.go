package board

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/hotboard/hotboard/aggregator/store"
)

// order is the one order of every board: the higher score first; of equal
// scores the higher id, as bytes, so that pages never overlap.
func order(a, b store.Entry) int {
	if c := cmp.Compare(b.Score, a.Score); c != 0 {
		return c
	}
	return strings.Compare(b.Item, a.Item)
}

// merge returns the n highest of the shards' entries. Each shard has to give
// its n highest; each item is in one shard.
func merge(shards [][]store.Entry, n int) []store.Entry {
	all := slices.Concat(shards...)
	slices.SortFunc(all, order)
	return all[:min(n, len(all))]
}

// top returns the n highest entries of a set whose shards have one scale.
func (b *Boards) top(ctx context.Context, set store.Set, n int) ([]store.Entry, error) {
	shards, err := b.store.Top(ctx, set, n)
	if err != nil {
		return nil, err
	}
	return merge(shards, n), nil
}

// rank numbers rows that are in order and begin at the top of a board.
func rank(rows []Row) {
	for i := range rows {
		rows[i].Rank = int64(i + 1)
		if i == 0 {
			continue
		}
		if rows[i].Score == rows[i-1].Score {
			rows[i].Rank = rows[i-1].Rank
		}
		gap := rows[i-1].Score - rows[i].Score
		rows[i].Gap = &gap
	}
}

// bounds is one score as a bound for every shard, on the scale of that shard.
func (b *Boards) bounds(score float64, sc *scale) []float64 {
	bounds := make([]float64, b.store.Shards())
	for i := range bounds {
		switch {
		case sc == nil:
			bounds[i] = score
		case sc.shard[i] == 0: // so long ago that nothing of the shard is above anything
			bounds[i] = math.Inf(1)
		default:
			bounds[i] = score / sc.shard[i]
		}
	}
	return bounds
}

// totals sums the totals of each set over the shards; Newest is the newest.
func (b *Boards) totals(ctx context.Context, sets ...store.Set) ([]store.Totals, error) {
	shards, err := b.store.Totals(ctx, sets)
	if err != nil {
		return nil, err
	}
	sums := make([]store.Totals, len(sets))
	for i := range sets {
		for _, t := range shards[i] {
			sums[i].Views += t.Views
			sums[i].Uniques += t.Uniques
			sums[i].Duplicates += t.Duplicates
			sums[i].Newest = max(sums[i].Newest, t.Newest)
		}
	}
	return sums, nil
}

// scale is what half-life sums have to be multiplied by. Landmarks differ by
// shard, because each moves when the shard's own hits need it.
type scale struct {
	// shard brings the sums of each shard to one scale, that of the newest
	// landmark, on which they are compared.
	shard []float64
	// shown brings that scale to the instant that was asked for. It may be 0 when
	// that is thousands of half-lives later, which must not change the order.
	shown float64
}

// newScale returns the scale for an instant, in milliseconds, and a half-life of
// h milliseconds. Sums cannot go back in time: an instant before the newest
// landmark counts as that landmark.
func newScale(landmarks []store.Totals, now, h int64) *scale {
	newest := int64(0)
	for _, t := range landmarks {
		newest = max(newest, t.Landmark)
	}
	sc := &scale{shard: make([]float64, len(landmarks)), shown: HalfLifeWeight(newest, max(now, newest), h)}
	for i, t := range landmarks {
		sc.shard[i] = HalfLifeWeight(t.Landmark, newest, h)
	}
	return sc
}

// show brings a row from the scale that it was compared on to the one that is
// shown.
func (sc *scale) show(r *Row) {
	r.Score *= sc.shown
	if r.Gap != nil {
		gap := *r.Gap * sc.shown
		r.Gap = &gap
	}
}
