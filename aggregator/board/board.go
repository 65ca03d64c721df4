// Package board turns the counts of a store into boards: rankings with ranks and
// gaps, the reports on items, and the terms behind a score. It only reads.
package board

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/internal/reading"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// Names and limits of the reading API.
const (
	Hot       = reading.Hot
	MaxLimit  = reading.MaxLimit
	MaxOffset = reading.MaxOffset
)

// Errors of a query for something that does not exist.
var (
	ErrUnknownList = errors.New("no such list")
	ErrUnknownItem = errors.New("no such item")
	ErrNotKept     = errors.New("board not kept")
)

// Boards answers queries for rankings. It is safe for concurrent use and stateless:
// every answer comes from the store.
type Boards struct {
	store store.Store
	rules func() *ruleset.Rules
	now   func() time.Time
}

// New returns the boards of a store. Each query uses the rules that rules returns
// then.
func New(s store.Store, rules func() *ruleset.Rules, now func() time.Time) *Boards {
	return &Boards{store: s, rules: rules, now: now}
}

// Query selects a part of one board.
type Query struct {
	List   string
	Period string // Hot or a calendar.Period
	Limit  int    // 1 to MaxLimit
	Offset int    // 0 to MaxOffset: entries to skip at the top
	// At is zero for now. On the hot board it is the instant for ages: the counts stay
	// the current ones, and half-life sums cannot go back.
	At time.Time
	// Explain adds the terms of each score of the hot board.
	Explain bool
}

// Board is a part of one ranking.
type Board struct {
	List   string `json:"list"`
	Period string `json:"period"`
	// From and To bound the period; hot and all have none.
	From        *time.Time `json:"from,omitempty"`
	To          *time.Time `json:"to,omitempty"`
	GeneratedAt time.Time  `json:"generated_at"`
	Items       []Row      `json:"items"`
}

// Row is one item of a board.
type Row struct {
	// Rank is 1 plus the number of items with a higher score: equal scores share a
	// rank, and the next one leaves a gap ("1224" ranking).
	Rank    int64   `json:"rank"`
	ID      string  `json:"id"`
	Score   float64 `json:"score"`
	Views   int64   `json:"views"`
	Uniques int64   `json:"uniques"`
	// Gap is the difference to the score of the row above; the first has none.
	Gap *float64 `json:"gap,omitempty"`
	Movement
	Explain *Explain `json:"explain,omitempty"`
}

// Movement compares an item with the previous, closed period.
type Movement struct {
	Previous *Standing `json:"previous,omitempty"`
	// Change is how many ranks the item has gained since; negative after a loss.
	Change *int64 `json:"change,omitempty"`
	// New is true for an item that was missing on the previous period's board.
	New bool `json:"new,omitempty"`
}

// Standing is an item's place on a board.
type Standing struct {
	Rank  int64   `json:"rank"`
	Score float64 `json:"score"`
}

// Explain is every term of a hot score.
type Explain struct {
	Model       ruleset.Model `json:"model"`
	Views       int64         `json:"views"`
	Uniques     int64         `json:"uniques"`
	Points      *float64      `json:"points,omitempty"`    // weighted views, for gravity
	AgeHours    *float64      `json:"age_hours,omitempty"` // for gravity and accumulate
	PublishedAt time.Time     `json:"published_at"`
	Published   string        `json:"published_from"` // origin, client or first_hit
	Base        *float64      `json:"base,omitempty"`
	Gamma       *float64      `json:"gamma,omitempty"`
	Damping     string        `json:"damping,omitempty"`
	HalfLife    string        `json:"half_life,omitempty"`
	Formula     string        `json:"formula"`
}

// Board answers a query. Its errors are [ErrUnknownList], [ErrNotKept], or the store's.
func (b *Boards) Board(ctx context.Context, q Query) (*Board, error) {
	l := b.rules().List(q.List)
	if l == nil {
		return nil, fmt.Errorf("%w: %s", ErrUnknownList, q.List)
	}
	now := b.now().UTC()
	at := q.At
	if at.IsZero() {
		at = now
	}
	out := &Board{List: l.Name, Period: q.Period, GeneratedAt: now}
	var rows iter.Seq2[Row, error]
	sc, err := b.unscaled(), error(nil)
	if q.Period == Hot {
		rows, sc, err = b.hot(ctx, l, at, q.Offset+q.Limit)
	} else {
		rows, err = b.period(ctx, l, out, at, q.Offset+q.Limit)
	}
	if err == nil {
		out.Items, err = page(rows, q.Offset, q.Limit)
	}
	if err != nil {
		return nil, fmt.Errorf("reading board %s of list %s: %w", q.Period, l.Name, err)
	}
	sc.show(out.Items)
	if out.From != nil {
		before, err := b.before(ctx, l, calendar.Period(q.Period), *out.From, idsOf(out.Items, rowID))
		if err != nil {
			return nil, fmt.Errorf("comparing board %s of list %s with the period before: %w", q.Period, l.Name, err)
		}
		for i, previous := range before {
			out.Items[i].Movement = moved(out.Items[i].Rank, previous)
		}
	}
	if q.Explain && q.Period == Hot {
		if err := b.explain(ctx, l, at, out.Items); err != nil {
			return nil, fmt.Errorf("explaining board %s of list %s: %w", q.Period, l.Name, err)
		}
	}
	return out, nil
}

// period returns the board of the period at an instant, of which the caller needs n
// rows at least, and sets the period's bounds in out.
func (b *Boards) period(ctx context.Context, l *ruleset.List, out *Board, at time.Time, n int) (iter.Seq2[Row, error], error) {
	p := calendar.Period(out.Period)
	if !l.Keeps(p) {
		return nil, fmt.Errorf("%w: list %s keeps %v", ErrNotKept, l.Name, l.Boards)
	}
	start, end := p.Bounds(at, l.Location())
	if p != calendar.All {
		out.From, out.To = &start, &end
		kept, err := b.keptFrom(ctx, l, p)
		if err != nil {
			return nil, err
		}
		if start.Before(kept) {
			return nil, fmt.Errorf("%w: the oldest %s of list %s begins at %s", ErrNotKept, p, l.Name, kept.Format(time.RFC3339))
		}
	}
	return rank(ranked(n, n, b.counted(ctx, store.PeriodSet(l.Name, p, start)))), nil
}

// keptFrom returns the beginning of the oldest kept period, counted back from the
// list's newest hit.
func (b *Boards) keptFrom(ctx context.Context, l *ruleset.List, p calendar.Period) (time.Time, error) {
	totals, err := b.totals(ctx, store.AllSet(l.Name))
	if err != nil {
		return time.Time{}, err
	}
	newest := p.Start(time.UnixMilli(totals[0].Newest), l.Location())
	return p.Add(newest, -l.Keep[p], l.Location()), nil
}

// before returns the standing of each item in the period before the one that begins
// at start; none at all if that period has no board.
func (b *Boards) before(ctx context.Context, l *ruleset.List, p calendar.Period, start time.Time, ids []string) ([]*Standing, error) {
	if p == calendar.All || len(ids) == 0 {
		return nil, nil
	}
	previous := p.Add(start, -1, l.Location())
	if kept, err := b.keptFrom(ctx, l, p); err != nil || previous.Before(kept) {
		return nil, err // some shards have dropped it
	}
	set := store.PeriodSet(l.Name, p, previous)
	if size, err := b.store.Size(ctx, set); err != nil || size == 0 {
		return nil, err
	}
	return b.standings(ctx, l, set, ids)
}

func rowID(r *Row) string { return r.ID }

// idsOf returns the ids of rows or items.
func idsOf[T any](of []T, id func(*T) string) []string {
	ids := make([]string, len(of))
	for i := range of {
		ids[i] = id(&of[i])
	}
	return ids
}

func moved(rank int64, previous *Standing) Movement {
	if previous == nil {
		return Movement{New: true}
	}
	change := previous.Rank - rank
	return Movement{Previous: previous, Change: &change}
}

// standings returns the score and rank of items in a set whose shards share one
// scale; nil for an item that is not in it.
func (b *Boards) standings(ctx context.Context, l *ruleset.List, set store.Set, ids []string) ([]*Standing, error) {
	tallies, err := b.store.Scores(ctx, l.Kind(), set, ids)
	if err != nil {
		return nil, err
	}
	unscaled := b.unscaled()
	index := map[float64]int{} // from score to index in bounds: many items of the tail share a score
	var bounds [][]float64
	for _, t := range tallies {
		if t == nil {
			continue
		}
		if _, ok := index[t.Value()]; !ok {
			index[t.Value()] = len(bounds)
			bounds = append(bounds, unscaled.bounds(t.Value()))
		}
	}
	standings := make([]*Standing, len(ids))
	if len(bounds) == 0 {
		return standings, nil
	}
	above, err := b.store.Above(ctx, set, bounds)
	if err != nil {
		return nil, err
	}
	for i, t := range tallies {
		if t != nil {
			standings[i] = &Standing{Rank: above[index[t.Value()]] + 1, Score: t.Value()}
		}
	}
	return standings, nil
}
