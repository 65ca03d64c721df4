package board

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/hotboard/hotboard/aggregator/scoring"
	"github.com/hotboard/hotboard/aggregator/store"
)

// order is the order of every board: by descending score, then by descending id as
// bytes, so that pages never overlap.
func order(a, b store.Entry) int {
	if c := cmp.Compare(b.Value(), a.Value()); c != 0 {
		return c
	}
	return strings.Compare(b.Item, a.Item)
}

// merge returns the n highest of the shards' entries. Each shard must supply its n
// highest; each item is in one shard.
func merge(shards [][]store.Entry, n int) []store.Entry {
	all := slices.Concat(shards...)
	slices.SortFunc(all, order)
	return all[:min(n, len(all))]
}

// top returns the n highest entries of a set whose shards share one scale.
func (b *Boards) top(ctx context.Context, set store.Set, n int) ([]store.Entry, error) {
	shards, err := b.store.Top(ctx, set, n)
	if err != nil {
		return nil, err
	}
	return merge(shards, n), nil
}

// rank numbers ordered rows that begin at the top of a board.
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

// bounds turns one score into a bound for every shard, on that shard's scale.
func (b *Boards) bounds(score float64, sc *scale) []float64 {
	bounds := make([]float64, b.store.Shards())
	for i := range bounds {
		switch {
		case sc == nil:
			bounds[i] = score
		case sc.shard[i] == 0: // so long ago that the shard has nothing above it
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

// scale holds the factors for half-life sums. Landmarks differ by shard, because
// each moves when the shard's own hits need it.
type scale struct {
	// shard brings the sums of each shard to the scale of the newest landmark, for
	// comparison.
	shard []float64
	// shown brings that scale to the requested instant. Thousands of half-lives later
	// it may be 0, which must not change the order.
	shown float64
}

// newScale returns the scale for an instant, in milliseconds, and a half-life of h
// milliseconds. Sums cannot go back in time: an instant before the newest landmark
// counts as that landmark.
func newScale(landmarks []store.Totals, now, h int64) *scale {
	newest := int64(0)
	for _, t := range landmarks {
		newest = max(newest, t.Landmark)
	}
	sc := &scale{shard: make([]float64, len(landmarks)), shown: scoring.HalfLifeWeight(newest, max(now, newest), h)}
	for i, t := range landmarks {
		sc.shard[i] = scoring.HalfLifeWeight(t.Landmark, newest, h)
	}
	return sc
}

// show brings a row from the scale of the comparison to the requested instant.
func (sc *scale) show(r *Row) {
	r.Score *= sc.shown
	if r.Gap != nil {
		gap := *r.Gap * sc.shown
		r.Gap = &gap
	}
}
