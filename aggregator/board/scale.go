package board

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/hotboard/hotboard/aggregator/scoring"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/ruleset"
)

// scale holds the factors for half-life sums; other values have the factor 1.
// Landmarks differ by shard, because each moves when the shard's own hits need it.
type scale struct {
	// shard brings the values of each shard to one scale, for comparison: that of the
	// newest landmark at first, the reference.
	shard     []float64
	reference int64
	halfLife  int64 // milliseconds; 0 for other values
	// shown brings that scale to the requested instant. Thousands of half-lives later
	// it may be 0, which must not change the order.
	shown float64
}

// unscaled returns the scale of sets whose shards share one.
func (b *Boards) unscaled() *scale {
	return &scale{shard: slices.Repeat([]float64{1}, b.store.Shards()), shown: 1}
}

// scale returns the scale of the list's sums at an instant. Half-life sums cannot go
// back in time: an instant before the newest landmark counts as that landmark.
func (b *Boards) scale(ctx context.Context, l *ruleset.List, at time.Time) (*scale, error) {
	sc := b.unscaled()
	set, _ := scoring.ScoreSet(l)
	if l.Score.Model != ruleset.HalfLife {
		return sc, nil
	}
	landmarks, err := b.store.Totals(ctx, []store.Set{set})
	if err != nil {
		return nil, err
	}
	sc.halfLife = time.Duration(l.Score.HalfLife).Milliseconds()
	for _, t := range landmarks[0] {
		sc.reference = max(sc.reference, t.Landmark)
	}
	sc.shown = scoring.HalfLifeWeight(sc.reference, max(at.UnixMilli(), sc.reference), sc.halfLife)
	sc.moved(landmarks[0])
	return sc, nil
}

// moved updates the factors, and reports whether one has changed.
func (sc *scale) moved(landmarks []store.Totals) (moved bool) {
	for i, t := range landmarks {
		was := sc.shard[i]
		sc.shard[i] = scoring.HalfLifeWeight(t.Landmark, sc.reference, sc.halfLife)
		moved = moved || sc.shard[i] != was
	}
	return moved
}

// bounds turns one score into a bound for every shard, on that shard's scale.
func (sc *scale) bounds(score float64) []float64 {
	bounds := make([]float64, len(sc.shard))
	for i, factor := range sc.shard {
		bounds[i] = score / factor
		if factor == 0 { // so long ago that the shard has nothing above it
			bounds[i] = math.Inf(1)
		}
	}
	return bounds
}

// show brings rows from the scale of the comparison to the requested instant.
func (sc *scale) show(rows []Row) {
	for i := range rows {
		rows[i].Score *= sc.shown
		if rows[i].Gap != nil {
			*rows[i].Gap *= sc.shown
		}
	}
}
