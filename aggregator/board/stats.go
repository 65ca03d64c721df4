package board

import (
	"context"
	"fmt"
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// Stats are the totals of a list.
type Stats struct {
	List        string    `json:"list"`
	GeneratedAt time.Time `json:"generated_at"`
	// NewestHitAt is missing before the first hit.
	NewestHitAt *time.Time `json:"newest_hit_at,omitempty"`
	Items       int64      `json:"items"`
	// Periods holds the totals of each current period, by its name.
	Periods map[calendar.Period]*PeriodStats `json:"periods"`
}

// PeriodStats are the totals of a list in one period.
type PeriodStats struct {
	From       *time.Time `json:"from,omitempty"`
	To         *time.Time `json:"to,omitempty"`
	Views      int64      `json:"views"`
	Uniques    int64      `json:"uniques"`    // counted hits that were a visitor's first of that item on that day
	Visitors   int64      `json:"visitors"`   // distinct visitors, estimated to about 1 %
	Duplicates int64      `json:"duplicates"` // hits refused because they came too soon after another
}

// Stats reports the totals of a list at an instant; the zero time means now. Its
// errors are [ErrUnknownList], or the store's.
func (b *Boards) Stats(ctx context.Context, list string, at time.Time) (*Stats, error) {
	l := b.rules().List(list)
	if l == nil {
		return nil, fmt.Errorf("%w: %s", ErrUnknownList, list)
	}
	out := &Stats{List: list, GeneratedAt: b.now().UTC(), Periods: map[calendar.Period]*PeriodStats{}}
	if at.IsZero() {
		at = out.GeneratedAt
	}
	var sets []store.Set
	for _, p := range l.Boards {
		start, end := p.Bounds(at, l.Location())
		sets = append(sets, store.PeriodSet(list, p, start))
		ps := &PeriodStats{}
		if p != calendar.All {
			ps.From, ps.To = &start, &end
		}
		out.Periods[p] = ps
	}
	totals, err := b.totals(ctx, append(sets, store.AllSet(list))...)
	if err != nil {
		return nil, fmt.Errorf("reading the totals of list %s: %w", list, err)
	}
	for i, p := range l.Boards {
		ps := out.Periods[p]
		ps.Views, ps.Uniques, ps.Duplicates = totals[i].Views, totals[i].Uniques, totals[i].Duplicates
		if ps.Visitors, err = b.store.Visitors(ctx, sets[i]); err != nil {
			return nil, fmt.Errorf("estimating the visitors of list %s: %w", list, err)
		}
	}
	if newest := totals[len(sets)].Newest; newest > 0 {
		t := time.UnixMilli(newest).UTC()
		out.NewestHitAt = &t
	}
	if out.Items, err = b.store.Size(ctx, store.AllSet(list)); err != nil {
		return nil, fmt.Errorf("counting the items of list %s: %w", list, err)
	}
	return out, nil
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
