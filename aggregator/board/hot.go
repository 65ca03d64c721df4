package board

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/hotboard/hotboard/aggregator/scoring"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// order is the order of every board: by descending score, then by descending id as
// bytes, so that pages never overlap.
func order(a, b float64, idA, idB string) int {
	if c := cmp.Compare(b, a); c != 0 {
		return c
	}
	return strings.Compare(idB, idA)
}

// top returns the n highest rows of a set, by their values on one scale.
func (b *Boards) top(ctx context.Context, set store.Set, sc *scale, n int) ([]Row, error) {
	shards, err := b.store.Top(ctx, set, n)
	if err != nil {
		return nil, err
	}
	var rows []Row // each item is in one shard
	for len(rows) < n {
		var next Row
		from := -1
		for i, rest := range shards {
			if len(rest) == 0 {
				continue
			}
			if score := rest[0].Value() * sc.shard[i]; from < 0 || order(score, next.Score, rest[0].Item, next.ID) < 0 {
				from, next = i, Row{ID: rest[0].Item, Score: score, Views: rest[0].Views, Uniques: rest[0].Uniques}
			}
		}
		if from < 0 {
			break
		}
		rows = append(rows, next)
		shards[from] = shards[from][1:]
	}
	return rows, nil
}

// counted is the board of a set that counts hits.
func (b *Boards) counted(ctx context.Context, set store.Set) source {
	return func(n int) ([]Row, bool, error) {
		rows, err := b.top(ctx, set, b.unscaled(), n)
		return rows, len(rows) == n, err
	}
}

// hot returns the hot board at an instant, of which the caller needs n rows at
// least, and the scale that shows its rows.
func (b *Boards) hot(ctx context.Context, l *ruleset.List, at time.Time, n int) (iter.Seq2[Row, error], *scale, error) {
	sc, err := b.scale(ctx, l, at)
	if err != nil {
		return nil, nil, err
	}
	var rows iter.Seq2[Row, error]
	switch l.Score.Model {
	case ruleset.Gravity:
		rows = ranked(max(firstRead, n), n, b.gravity(ctx, l, at.UnixMilli()))
	case ruleset.Count:
		rows = ranked(n, n, b.counted(ctx, store.AllSet(l.Name)))
	default:
		rows = ranked(n, n, b.summed(ctx, l, sc))
	}
	return rank(minViews(l, rows)), sc, nil
}

// summed is the board of a model that adds up scores as hits come in.
func (b *Boards) summed(ctx context.Context, l *ruleset.List, sc *scale) source {
	set, _ := scoring.ScoreSet(l)
	return func(n int) ([]Row, bool, error) {
		for {
			sums, err := b.top(ctx, set, sc, n)
			if err != nil {
				return nil, false, err
			}
			rows, err := b.withViews(ctx, l, sums)
			if err != nil || sc.halfLife == 0 {
				return rows, len(sums) == n, err
			}
			// Sums and landmarks are read one after the other. A landmark moves once in
			// hundreds of half-lives, but that changes the meaning of the sums.
			landmarks, err := b.store.Totals(ctx, []store.Set{set})
			if err != nil || !sc.moved(landmarks[0]) {
				return rows, len(sums) == n, err
			}
		}
	}
}

// withViews returns the rows of items that have been viewed, with their views.
func (b *Boards) withViews(ctx context.Context, l *ruleset.List, rows []Row) ([]Row, error) {
	tallies, err := b.store.Scores(ctx, l.Kind(), store.AllSet(l.Name), idsOf(rows, rowID))
	if err != nil {
		return nil, err
	}
	viewed := make([]Row, 0, len(rows))
	for i, t := range tallies {
		if t != nil {
			viewed = append(viewed, Row{ID: rows[i].ID, Score: rows[i].Score, Views: t.Views, Uniques: t.Uniques})
		}
	}
	return viewed, nil
}

// firstRead is the number of entries that gravity first reads from each order.
const firstRead = 64

// gravity is the board by gravity scores at now, exactly.
//
// A gravity score rises with the points and falls with the age, and the store has
// the items in the order of both (views bound points). This is the threshold
// algorithm (Fagin, Lotem, Naor: "Optimal aggregation algorithms for middleware",
// 2001): read both orders from the top, score every item found, and stop at the
// score that no item further down in both can beat.
func (b *Boards) gravity(ctx context.Context, l *ruleset.List, now int64) source {
	return func(n int) ([]Row, bool, error) {
		viewed, err := b.top(ctx, store.AllSet(l.Name), b.unscaled(), n)
		if err != nil {
			return nil, false, err
		}
		newest, err := b.top(ctx, store.PublishedSet(l.Name), b.unscaled(), n)
		if err != nil {
			return nil, false, err
		}
		rows, err := b.score(ctx, l, now, slices.Concat(viewed, newest))
		if err != nil || len(viewed) < n || len(newest) < n || viewed[n-1].Views < l.Score.MinViews {
			return rows, false, err // all others are under the floor
		}
		views := float64(viewed[n-1].Views) // uniques never exceed them
		bound := scoring.Gravity(&l.Score, scoring.Points(*l.Weights, views, views), scoring.Age(now, int64(newest[n-1].Score)))
		if i := slices.IndexFunc(rows, func(r Row) bool { return r.Score <= bound }); i >= 0 {
			rows = rows[:i]
		}
		return rows, true, nil
	}
}

// score returns the gravity rows, in order, of items that may come twice.
func (b *Boards) score(ctx context.Context, l *ruleset.List, now int64, items []Row) ([]Row, error) {
	slices.SortFunc(items, func(a, b Row) int { return strings.Compare(a.ID, b.ID) })
	rows, err := b.withViews(ctx, l, slices.CompactFunc(items, func(a, b Row) bool { return a.ID == b.ID }))
	if err != nil {
		return nil, err
	}
	published, err := b.store.Scores(ctx, l.Kind(), store.PublishedSet(l.Name), idsOf(rows, rowID))
	if err != nil {
		return nil, err
	}
	scored := rows[:0]
	for i, p := range published {
		if r := rows[i]; p != nil {
			points := scoring.Points(*l.Weights, float64(r.Views), float64(r.Uniques))
			r.Score = scoring.Gravity(&l.Score, points, scoring.Age(now, int64(p.Score)))
			scored = append(scored, r)
		}
	}
	slices.SortFunc(scored, func(a, b Row) int { return order(a.Score, b.Score, a.ID, b.ID) })
	return scored, nil
}

// explain fills in the terms of each row's hot score.
func (b *Boards) explain(ctx context.Context, l *ruleset.List, at time.Time, rows []Row) error {
	items, err := b.store.Items(ctx, l.Kind(), l.Name, idsOf(rows, rowID))
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
