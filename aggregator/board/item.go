package board

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hotboard/hotboard/aggregator/scoring"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// Item is the full report on one item.
type Item struct {
	List          string    `json:"list"`
	ID            string    `json:"id"`
	Views         int64     `json:"views"`
	Uniques       int64     `json:"uniques"`
	Duplicates    int64     `json:"duplicates"`
	PublishedAt   time.Time `json:"published_at"`
	PublishedFrom string    `json:"published_from"` // origin, client or first_hit
	FirstHitAt    time.Time `json:"first_hit_at"`
	LastHitAt     time.Time `json:"last_hit_at"`
	GeneratedAt   time.Time `json:"generated_at"`
	// Boards holds the item's place on each current board that lists it, by hot, hour,
	// day, week, month and all.
	Boards map[string]*Place `json:"boards"`
}

// Place is an item's place on one board.
type Place struct {
	// Rank is missing on a gravity board beyond the first MaxLimit.
	Rank    int64   `json:"rank,omitempty"`
	Score   float64 `json:"score"`
	Views   int64   `json:"views"`
	Uniques int64   `json:"uniques"`
	// Ahead is the item with the next higher score, and Gap the difference to it; the
	// first has neither.
	Ahead string   `json:"ahead,omitempty"`
	Gap   *float64 `json:"gap,omitempty"`
	Movement
}

// Item reports on one item. Its errors are [ErrUnknownList], [ErrUnknownItem],
// or the store's.
func (b *Boards) Item(ctx context.Context, list, id string) (*Item, error) {
	items, err := b.Items(ctx, list, []string{id})
	if err != nil {
		return nil, err
	}
	if items[0] == nil {
		return nil, fmt.Errorf("%w: %s in list %s", ErrUnknownItem, id, list)
	}
	return items[0], nil
}

// Items reports on items in order; nil for an unknown one. Its errors are
// [ErrUnknownList], or the store's. However many items there are, it sends the
// store a fixed number of queries, except for gravity boards.
func (b *Boards) Items(ctx context.Context, list string, ids []string) ([]*Item, error) {
	l := b.rules().List(list)
	if l == nil {
		return nil, fmt.Errorf("%w: %s", ErrUnknownList, list)
	}
	records, err := b.store.Items(ctx, l.Kind(), list, ids)
	if err != nil {
		return nil, fmt.Errorf("reading items of list %s: %w", list, err)
	}
	all, err := b.store.Scores(ctx, l.Kind(), store.AllSet(list), ids)
	if err != nil {
		return nil, fmt.Errorf("reading items of list %s: %w", list, err)
	}
	now := b.now().UTC()
	items := make([]*Item, len(ids))
	var known []*Item
	for i, rec := range records {
		if rec == nil || all[i] == nil {
			continue
		}
		items[i] = &Item{
			List: list, ID: ids[i], GeneratedAt: now,
			Views: all[i].Views, Uniques: all[i].Uniques, Duplicates: rec.Duplicates,
			PublishedAt: time.UnixMilli(rec.PublishTime()).UTC(), PublishedFrom: sourceName(rec.PublishedFrom),
			FirstHitAt: time.UnixMilli(rec.First).UTC(), LastHitAt: time.UnixMilli(rec.Last).UTC(),
			Boards: map[string]*Place{},
		}
		known = append(known, items[i])
	}
	if len(known) == 0 {
		return items, nil
	}
	if err := b.fillPlaces(ctx, l, known, now); err != nil {
		return nil, fmt.Errorf("reading the boards of items of list %s: %w", list, err)
	}
	return items, nil
}

// fillPlaces fills in each item's place on every current board.
func (b *Boards) fillPlaces(ctx context.Context, l *ruleset.List, items []*Item, now time.Time) error {
	ids := idsOf(items, func(it **Item) string { return (*it).ID })
	for _, p := range l.Boards {
		start := p.Start(now, l.Location())
		places, err := b.places(ctx, l, store.PeriodSet(l.Name, p, start), b.unscaled(), ids)
		if err != nil {
			return err
		}
		before, err := b.before(ctx, l, p, start, ids)
		if err != nil {
			return err
		}
		for i, place := range places {
			if place == nil {
				continue
			}
			if before != nil {
				place.Movement = moved(place.Rank, before[i])
			}
			items[i].Boards[string(p)] = place
		}
	}
	// Items under the floor are not on the hot board.
	items = slices.DeleteFunc(items, func(it *Item) bool { return it.Views < l.Score.MinViews })
	hot, err := b.hotPlaces(ctx, l, items, now)
	if err != nil {
		return err
	}
	for i, place := range hot {
		if it := items[i]; place != nil {
			place.Views, place.Uniques = it.Views, it.Uniques
			it.Boards[Hot] = place
		}
	}
	return nil
}

func (b *Boards) hotPlaces(ctx context.Context, l *ruleset.List, items []*Item, now time.Time) ([]*Place, error) {
	if len(items) == 0 {
		return nil, nil
	}
	set, ok := scoring.ScoreSet(l)
	switch {
	case l.Score.Model == ruleset.Gravity:
		return b.gravityPlaces(ctx, l, items, now)
	case !ok:
		set = store.AllSet(l.Name)
	}
	sc, err := b.scale(ctx, l, now)
	if err != nil {
		return nil, err
	}
	return b.places(ctx, l, set, sc, idsOf(items, func(it **Item) string { return (*it).ID }))
}

// gravityPlaces works out places on a gravity board, for which the store has no
// order. It reads on until no unread item can be ahead, but not beyond MaxLimit.
func (b *Boards) gravityPlaces(ctx context.Context, l *ruleset.List, items []*Item, now time.Time) ([]*Place, error) {
	places := make([]*Place, len(items))
	for i, it := range items {
		points := scoring.Points(*l.Weights, float64(it.Views), float64(it.Uniques))
		places[i] = &Place{Score: scoring.Gravity(&l.Score, points, scoring.Age(now.UnixMilli(), it.PublishedAt.UnixMilli()))}
	}
	open := slices.Clone(places) // those without a rank
	slices.SortFunc(open, func(a, b *Place) int { return cmp.Compare(b.Score, a.Score) })
	read, deep := b.gravity(ctx, l, now.UnixMilli()), false
	rows := minViews(l, ranked(firstRead, 0, func(n int) ([]Row, bool, error) {
		if deep = n >= 2*MaxLimit; deep {
			return nil, false, nil
		}
		return read(n)
	}))
	var above Row
	ahead := int64(0)
	// place fills in the places that are not below a score.
	place := func(score float64) {
		for ; len(open) > 0 && open[0].Score >= score; open = open[1:] {
			p := open[0]
			p.Rank = ahead + 1
			if ahead > 0 {
				gap := above.Score - p.Score
				p.Ahead, p.Gap = above.ID, &gap
			}
		}
	}
	for r, err := range rows {
		if err != nil {
			return nil, err
		}
		place(r.Score)
		above = r
		if ahead++; ahead == MaxLimit || len(open) == 0 {
			return places, nil
		}
	}
	if !deep {
		place(math.Inf(-1)) // behind all others
	}
	return places, nil
}

// places returns the places of items in a set, nil for an item that is not in it.
func (b *Boards) places(ctx context.Context, l *ruleset.List, set store.Set, sc *scale, ids []string) ([]*Place, error) {
	tallies, err := b.store.Scores(ctx, l.Kind(), set, ids)
	if err != nil {
		return nil, err
	}
	places := make([]*Place, len(ids))
	var of []*Place // those that are in the set
	var bounds [][]float64
	for i, t := range tallies {
		if t == nil {
			continue
		}
		own := hit.Shard(l.Kind(), set.List, ids[i], b.store.Shards())
		score := t.Value() * sc.shard[own]
		bound := sc.bounds(score)
		bound[own] = t.Value() // scaled back and forth it could be lower, and the item ahead of itself
		places[i] = &Place{Score: score, Views: t.Views, Uniques: t.Uniques}
		of, bounds = append(of, places[i]), append(bounds, bound)
	}
	if len(of) == 0 {
		return places, nil
	}
	above, err := b.store.Above(ctx, set, bounds)
	if err != nil {
		return nil, err
	}
	next, err := b.store.Next(ctx, set, bounds)
	if err != nil {
		return nil, err
	}
	for i, p := range of {
		p.Rank = above[i] + 1
		for shard, e := range next[i] {
			if e == nil || above[i] == 0 {
				continue
			}
			if gap := (e.Value()*sc.shard[shard] - p.Score) * sc.shown; p.Gap == nil || gap < *p.Gap {
				p.Ahead, p.Gap = e.Item, &gap
			}
		}
		p.Score *= sc.shown
	}
	return places, nil
}

// Standings returns the standing of each item on the list's board of all time, in
// order; nil for an item that is not on it. Its errors are [ErrUnknownList], or the
// store's.
func (b *Boards) Standings(ctx context.Context, list string, ids []string) ([]*Standing, error) {
	l := b.rules().List(list)
	if l == nil {
		return nil, fmt.Errorf("%w: %s", ErrUnknownList, list)
	}
	standings, err := b.standings(ctx, l, store.AllSet(list), ids)
	if err != nil {
		return nil, fmt.Errorf("reading ranks of list %s: %w", list, err)
	}
	return standings, nil
}
