package board

import (
	"context"
	"slices"
	"time"

	"github.com/hotboard/hotboard/aggregator/scoring"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// hot returns the first n rows of the hot board at an instant, with their ranks.
func (b *Boards) hot(ctx context.Context, l *ruleset.List, at time.Time, n int) ([]Row, error) {
	if l.Score.Model == ruleset.Gravity {
		rows, err := b.gravity(ctx, l, at.UnixMilli(), n)
		rank(rows)
		return rows, err
	}
	for {
		sc, err := b.scale(ctx, l, at)
		if err != nil {
			return nil, err
		}
		rows, err := b.floored(ctx, l, sc, n)
		if err != nil || sc == nil {
			rank(rows)
			return rows, err
		}
		// Sums and landmarks are read one after the other. A landmark moves once in
		// hundreds of half-lives, but that changes the meaning of the sums.
		again, err := b.scale(ctx, l, at)
		if err != nil {
			return nil, err
		}
		if !slices.Equal(sc.shard, again.shard) || sc.shown != again.shown {
			continue
		}
		rank(rows)
		for i := range rows {
			sc.show(&rows[i])
		}
		return rows, nil
	}
}

// floored returns the first n rows of a model whose scores the store keeps in
// order. It leaves out items under the floor, and reads on until it has enough.
func (b *Boards) floored(ctx context.Context, l *ruleset.List, sc *scale, n int) ([]Row, error) {
	for read := n; ; read *= 2 {
		entries, err := b.summed(ctx, l, sc, read)
		if err != nil {
			return nil, err
		}
		rows, err := b.views(ctx, l, entries)
		if err != nil {
			return nil, err
		}
		belowFloor := l.Score.Model == ruleset.Count && len(entries) > 0 && entries[len(entries)-1].Views < l.Score.MinViews
		if len(rows) >= n || len(entries) < read || belowFloor {
			return rows[:min(n, len(rows))], nil
		}
	}
}

// summed returns the n items with the highest scores of a model that adds up hits
// as they come in.
func (b *Boards) summed(ctx context.Context, l *ruleset.List, sc *scale, n int) ([]store.Entry, error) {
	set, ok := scoring.ScoreSet(l)
	if !ok { // count
		set = store.AllSet(l.Name)
	}
	shards, err := b.store.Top(ctx, set, n)
	if err != nil {
		return nil, err
	}
	if sc != nil {
		for i, entries := range shards {
			for j := range entries {
				entries[j].Score *= sc.shard[i]
			}
		}
	}
	return merge(shards, n), nil
}

// scale returns the factors for the list's half-life sums; nil for other models,
// whose sums are scores.
func (b *Boards) scale(ctx context.Context, l *ruleset.List, at time.Time) (*scale, error) {
	if l.Score.Model != ruleset.HalfLife {
		return nil, nil
	}
	set, _ := scoring.ScoreSet(l)
	landmarks, err := b.store.Totals(ctx, []store.Set{set})
	if err != nil {
		return nil, err
	}
	return newScale(landmarks[0], at.UnixMilli(), time.Duration(l.Score.HalfLife).Milliseconds()), nil
}

// views turns entries with a score into rows, and leaves out those with fewer views
// than the list's floor.
func (b *Boards) views(ctx context.Context, l *ruleset.List, entries []store.Entry) ([]Row, error) {
	ids := make([]string, len(entries))
	for i, e := range entries {
		ids[i] = e.Item
	}
	tallies, err := b.store.Scores(ctx, l.Kind(), store.AllSet(l.Name), ids)
	if err != nil {
		return nil, err
	}
	var rows []Row
	for i, t := range tallies {
		if t == nil || t.Views < l.Score.MinViews {
			continue
		}
		rows = append(rows, Row{ID: ids[i], Score: entries[i].Value(), Views: t.Views, Uniques: t.Uniques})
	}
	return rows, nil
}

// firstRead is the number of entries that gravity first reads from each order.
const firstRead = 64

// gravity returns the n items with the highest gravity scores at now, exactly.
//
// A gravity score rises with the points and falls with the age, and the store has
// the items in the order of both (views bound points). This is the threshold
// algorithm (Fagin, Lotem, Naor: "Optimal aggregation algorithms for middleware",
// 2001): read both orders from the top, score every item found, and stop when no
// item further down in both can beat the n-th best.
func (b *Boards) gravity(ctx context.Context, l *ruleset.List, now int64, n int) ([]Row, error) {
	for read := max(firstRead, n); ; read *= 2 {
		rows, bound, err := b.candidates(ctx, l, now, read)
		if err != nil {
			return nil, err
		}
		if bound < 0 || len(rows) >= n && rows[n-1].Score > bound {
			return rows[:min(n, len(rows))], nil
		}
	}
}

// candidates reads that many of the items with the most views and of the newest
// ones, and returns their gravity rows in order. No other item scores more than
// bound; a negative bound means that there is no other.
func (b *Boards) candidates(ctx context.Context, l *ruleset.List, now int64, read int) (rows []Row, bound float64, err error) {
	viewed, err := b.top(ctx, store.AllSet(l.Name), read)
	if err != nil {
		return nil, 0, err
	}
	newest, err := b.top(ctx, store.PublishedSet(l.Name), read)
	if err != nil {
		return nil, 0, err
	}
	rows, err = b.score(ctx, l, now, viewed, newest)
	if err != nil || len(viewed) < read || len(newest) < read || viewed[read-1].Views < l.Score.MinViews {
		return rows, -1, err // all others are under the floor
	}
	views, published := float64(viewed[read-1].Views), int64(newest[read-1].Score)
	// Uniques never exceed views.
	return rows, scoring.Gravity(&l.Score, scoring.Points(*l.Weights, views, views), scoring.Age(now, published)), nil
}

// score returns the gravity rows, in order, of all items in either order.
func (b *Boards) score(ctx context.Context, l *ruleset.List, now int64, viewed, newest []store.Entry) ([]Row, error) {
	ids := make([]string, 0, len(viewed)+len(newest))
	for _, e := range viewed {
		ids = append(ids, e.Item)
	}
	for _, e := range newest {
		ids = append(ids, e.Item)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	tallies, err := b.store.Scores(ctx, l.Kind(), store.AllSet(l.Name), ids)
	if err != nil {
		return nil, err
	}
	published, err := b.store.Scores(ctx, l.Kind(), store.PublishedSet(l.Name), ids)
	if err != nil {
		return nil, err
	}
	var entries []store.Entry
	rows := map[string]Row{}
	for i, id := range ids {
		t, p := tallies[i], published[i]
		if t == nil || p == nil || t.Views < l.Score.MinViews {
			continue
		}
		points := scoring.Points(*l.Weights, float64(t.Views), float64(t.Uniques))
		s := scoring.Gravity(&l.Score, points, scoring.Age(now, int64(p.Score)))
		entries = append(entries, store.Entry{Item: id, Tally: store.Tally{Score: s}})
		rows[id] = Row{ID: id, Score: s, Views: t.Views, Uniques: t.Uniques}
	}
	slices.SortFunc(entries, order)
	sorted := make([]Row, len(entries))
	for i, e := range entries {
		sorted[i] = rows[e.Item]
	}
	return sorted, nil
}

// explain fills in the terms of each row's hot score.
func (b *Boards) explain(ctx context.Context, l *ruleset.List, at time.Time, rows []Row) error {
	ids := make([]string, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	items, err := b.store.Items(ctx, l.Kind(), l.Name, ids)
	if err != nil {
		return err
	}
	for i, item := range items {
		if item == nil {
			item = &store.Item{}
		}
		rows[i].Explain = explain(l, at.UnixMilli(), &rows[i], item)
	}
	return nil
}

func explain(l *ruleset.List, now int64, r *Row, item *store.Item) *Explain {
	s := &l.Score
	e := &Explain{
		Model: s.Model, Views: r.Views, Uniques: r.Uniques,
		PublishedAt: time.UnixMilli(item.PublishTime()).UTC(), Published: sourceName(item.PublishedFrom),
	}
	age := scoring.Age(now, item.PublishTime())
	switch s.Model {
	case ruleset.Gravity:
		points := scoring.Points(*l.Weights, float64(r.Views), float64(r.Uniques))
		e.Points, e.AgeHours, e.Base, e.Gamma, e.Damping = &points, &age, &s.Base, &s.Gamma, s.Damping
		e.Formula = "points / (age_hours + base)^gamma"
		if s.Damping == ruleset.DampingLog {
			e.Formula = "ln(1 + points) / (age_hours + base)^gamma"
		}
	case ruleset.Accumulate:
		e.AgeHours, e.Base, e.Gamma = &age, &s.Base, &s.Gamma
		e.Formula = "sum over hits of inc / (age_hours at the hit + base)^gamma"
	case ruleset.HalfLife:
		e.HalfLife = s.HalfLife.String()
		e.Formula = "sum over hits of inc * 2^-((now - time of the hit) / half_life)"
	case ruleset.Count:
		e.Formula = "views"
		if l.Votes != nil {
			e.Formula = "votes"
		}
	}
	return e
}

// sourceName is the API's name of a source.
func sourceName(s hit.Source) string {
	switch s {
	case hit.FromOrigin:
		return "origin"
	case hit.FromClient:
		return "client"
	}
	return "first_hit"
}
