package board

import (
	"context"
	"fmt"
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/ruleset"
)

// Item is everything that is known of one item.
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
	// Boards holds the item's place on each current board that it is on, by
	// hot, hour, day, week, month and all.
	Boards map[string]*Place `json:"boards"`
}

// Place is an item's place on one board.
type Place struct {
	// Rank is missing on a gravity board beyond the first MaxLimit.
	Rank    int64   `json:"rank,omitempty"`
	Score   float64 `json:"score"`
	Views   int64   `json:"views"`
	Uniques int64   `json:"uniques"`
	// Ahead is the item next above in score, and Gap how much score is missing
	// to it; the first has neither.
	Ahead string   `json:"ahead,omitempty"`
	Gap   *float64 `json:"gap,omitempty"`
	Movement
}

// Item reports on one item. Its errors are [ErrUnknownList], [ErrUnknownItem],
// or the store's.
func (b *Boards) Item(ctx context.Context, list, id string) (*Item, error) {
	l := b.rules().List(list)
	if l == nil {
		return nil, fmt.Errorf("%w: %s", ErrUnknownList, list)
	}
	items, err := b.store.Items(ctx, list, []string{id})
	if err != nil {
		return nil, fmt.Errorf("reading item %s of list %s: %w", id, list, err)
	}
	all, err := b.store.Scores(ctx, AllSet(list), []string{id})
	if err != nil {
		return nil, fmt.Errorf("reading item %s of list %s: %w", id, list, err)
	}
	if items[0] == nil || all[0] == nil {
		return nil, fmt.Errorf("%w: %s in list %s", ErrUnknownItem, id, list)
	}
	rec, now := items[0], b.now().UTC()
	it := &Item{
		List: list, ID: id, GeneratedAt: now,
		Views: int64(all[0].Score), Uniques: all[0].Uniques, Duplicates: rec.Duplicates,
		PublishedAt: time.UnixMilli(rec.PublishTime()).UTC(), PublishedFrom: sourceName(rec.PublishedFrom),
		FirstHitAt: time.UnixMilli(rec.First).UTC(), LastHitAt: time.UnixMilli(rec.Last).UTC(),
		Boards: map[string]*Place{},
	}
	if err := b.places(ctx, l, it, rec, now); err != nil {
		return nil, fmt.Errorf("reading the boards of item %s of list %s: %w", id, list, err)
	}
	return it, nil
}

// places fills in the item's place on every current board.
func (b *Boards) places(ctx context.Context, l *ruleset.List, it *Item, rec *store.Item, now time.Time) error {
	for _, p := range l.Boards {
		start := p.Start(now, l.Location())
		set := PeriodSet(l.Name, p, start)
		place, err := b.place(ctx, set, nil, it.ID)
		if err != nil {
			return err
		}
		if place == nil {
			continue
		}
		place.Views = int64(place.Score)
		if p != ruleset.All {
			row := []Row{{Rank: place.Rank, ID: it.ID}}
			if err := b.move(ctx, l, p, start, row); err != nil {
				return err
			}
			place.Movement = row[0].Movement
		}
		it.Boards[string(p)] = place
	}
	if it.Views < l.Score.MinViews {
		return nil // not on the hot board
	}
	hot, err := b.hotPlace(ctx, l, it, rec, now)
	if err != nil {
		return err
	}
	if hot != nil {
		hot.Views, hot.Uniques = it.Views, it.Uniques
		it.Boards[Hot] = hot
	}
	return nil
}

func (b *Boards) hotPlace(ctx context.Context, l *ruleset.List, it *Item, rec *store.Item, now time.Time) (*Place, error) {
	set, ok := ScoreSet(l)
	switch {
	case l.Score.Model == ruleset.Gravity:
		return b.gravityPlace(ctx, l, it, rec, now)
	case !ok:
		set = AllSet(l.Name)
	}
	sc, err := b.scale(ctx, l, now)
	if err != nil {
		return nil, err
	}
	return b.place(ctx, set, sc, it.ID)
}

// gravityPlace works out the item's place on a gravity board, which has no order
// in the store to count in. It goes on reading until no item that it has not
// met can be ahead, but not beyond MaxLimit.
func (b *Boards) gravityPlace(ctx context.Context, l *ruleset.List, it *Item, rec *store.Item, now time.Time) (*Place, error) {
	points := Points(*l.Weights, float64(it.Views), float64(it.Uniques))
	p := &Place{Score: Gravity(&l.Score, points, Age(now.UnixMilli(), rec.PublishTime()))}
	for read := firstRead; read < 2*MaxLimit; read *= 2 {
		rows, bound, err := b.candidates(ctx, l, now.UnixMilli(), read)
		if err != nil {
			return nil, err
		}
		if p.Score <= bound {
			continue
		}
		p.Rank = 1
		for _, r := range rows {
			if r.Score <= p.Score {
				break
			}
			gap := r.Score - p.Score
			p.Rank, p.Ahead, p.Gap = p.Rank+1, r.ID, &gap
		}
		if p.Rank > MaxLimit {
			p.Rank, p.Ahead, p.Gap = 0, "", nil
		}
		return p, nil
	}
	return p, nil
}

// place returns an item's place in a set, or nil when it is not in it. sc is nil
// for scores as they stand.
func (b *Boards) place(ctx context.Context, set store.Set, sc *scale, id string) (*Place, error) {
	tallies, err := b.store.Scores(ctx, set, []string{id})
	if err != nil || tallies[0] == nil {
		return nil, err
	}
	score, own, shown := tallies[0].Score, b.shardOf(set.List, id), 1.0
	if sc != nil {
		score *= sc.shard[own]
		shown = sc.shown
	}
	bounds := b.bounds(score, sc)
	bounds[own] = tallies[0].Score // scaled and back it could be less, and the item ahead of itself
	p := &Place{Score: score * shown, Uniques: tallies[0].Uniques}
	above, err := b.store.Above(ctx, set, bounds)
	if err != nil {
		return nil, err
	}
	p.Rank = above + 1
	if above == 0 {
		return p, nil
	}
	shards, err := b.store.Next(ctx, set, bounds)
	if err != nil {
		return nil, err
	}
	for i, e := range shards {
		if e == nil {
			continue
		}
		s := e.Score
		if sc != nil {
			s *= sc.shard[i]
		}
		if gap := (s - score) * shown; p.Gap == nil || gap < *p.Gap {
			p.Ahead, p.Gap = e.Item, &gap
		}
	}
	return p, nil
}
