package board_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotboard/hotboard/aggregator/board"
	"github.com/hotboard/hotboard/aggregator/scoring"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/memstore"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

var now = time.Date(2026, 11, 20, 12, 30, 0, 0, time.UTC)

// counts is a store filled by hand with the sets of list "a".
type counts struct {
	t     testing.TB
	store *memstore.Store
	rules *ruleset.Rules
}

func newCounts(t testing.TB, shards int, l *ruleset.ListConfig) *counts {
	t.Helper()
	l.Name = "a"
	return &counts{t, memstore.New(shards), ruleset.MustCompile(ruleset.Config{Lists: []*ruleset.ListConfig{l}})}
}

func (c *counts) boards() *board.Boards {
	return board.New(c.store, func() *ruleset.Rules { return c.rules }, func() time.Time { return now })
}

// put sets an item's value in a set, and adds its record if missing.
func (c *counts) put(set store.Set, item string, tally store.Tally) {
	c.t.Helper()
	shard := hit.Shard(hit.View, "a", item, c.store.Shards())
	pos, err := c.store.Position(context.Background(), shard)
	if err != nil {
		c.t.Fatal(err)
	}
	err = c.store.Commit(context.Background(), shard, &store.Commit{
		From: pos, To: store.Position{Seq: pos.Seq + 1, Fingerprint: 1},
		Scores: map[store.Set]map[string]store.Tally{set: {item: tally}},
		Items:  map[string]map[string]store.Item{"a": {item: {First: now.UnixMilli() - 3600_000, Last: now.UnixMilli()}}},
		Totals: map[store.Set]store.Totals{store.AllSet("a"): {Newest: now.UnixMilli()}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *counts) setLandmark(shard int, set store.Set, at time.Time) {
	c.t.Helper()
	pos, err := c.store.Position(context.Background(), shard)
	if err != nil {
		c.t.Fatal(err)
	}
	err = c.store.Commit(context.Background(), shard, &store.Commit{
		From: pos, To: store.Position{Seq: pos.Seq + 1, Fingerprint: 1},
		Totals: map[store.Set]store.Totals{set: {Landmark: at.UnixMilli()}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// The threshold algorithm must find exactly the rows that scoring everything finds,
// however few entries it reads.
func TestGravityIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		l := &ruleset.ListConfig{Score: ruleset.Score{
			Gamma:    rapid.SampledFrom([]float64{0.1, 1.5, 3}).Draw(rt, "gamma"),
			MinViews: rapid.SampledFrom([]int64{0, 3}).Draw(rt, "min"),
			Damping:  rapid.SampledFrom([]string{"", ruleset.DampingLog}).Draw(rt, "damping"),
		}, Weights: &ruleset.Weights{PV: 1, UV: rapid.SampledFrom([]float64{0, 2}).Draw(rt, "uv")}}
		c := newCounts(t, rapid.IntRange(1, 3).Draw(rt, "shards"), l)
		n := rapid.IntRange(1, 400).Draw(rt, "items")
		// Old items have many points or few, new ones few: the hard case.
		maxViews := rapid.SampledFrom([]int{3, 100, 1000000}).Draw(rt, "max views")
		maxAge := rapid.SampledFrom([]int{1, 100, 100000}).Draw(rt, "max age")
		type scored struct {
			id    string
			score float64
		}
		var want []scored
		for i := range n {
			id := fmt.Sprint("item", i)
			views := rapid.IntRange(1, maxViews).Draw(rt, "views")
			uniques := rapid.IntRange(1, views).Draw(rt, "uniques")
			published := now.UnixMilli() - int64(rapid.IntRange(0, maxAge*60).Draw(rt, "minutes"))*60_000
			c.put(store.AllSet("a"), id, store.Tally{Views: int64(views), Uniques: int64(uniques)})
			c.put(store.PublishedSet("a"), id, store.Tally{Score: float64(published)})
			if int64(views) < l.Score.MinViews {
				continue
			}
			points := float64(views) + l.Weights.UV*float64(uniques)
			if l.Score.Damping != "" {
				points = math.Log1p(points)
			}
			want = append(want, scored{id, points / math.Pow(float64(now.UnixMilli()-published)/3600e3+2, l.Score.Gamma)})
		}
		slices.SortFunc(want, func(a, b scored) int {
			switch {
			case a.score > b.score || a.score == b.score && a.id > b.id:
				return -1
			default:
				return 1
			}
		})
		limit := rapid.IntRange(1, 20).Draw(rt, "limit")
		got, err := c.boards().Board(context.Background(), board.Query{List: "a", Period: board.Hot, Limit: limit})
		if err != nil {
			rt.Fatal(err)
		}
		want = want[:min(limit, len(want))]
		if len(got.Items) != len(want) {
			rt.Fatalf("%d rows, want %d", len(got.Items), len(want))
		}
		for i, r := range got.Items {
			if math.Abs(r.Score-want[i].score) > 1e-9*want[i].score {
				rt.Fatalf("row %d: %s with %v, want %s with %v", i, r.ID, r.Score, want[i].id, want[i].score)
			}
		}
	})
}

func TestRanksShareAndGapsAndPages(t *testing.T) {
	t.Parallel()
	c := newCounts(t, 3, &ruleset.ListConfig{})
	day := store.PeriodSet("a", calendar.Day, calendar.Day.Start(now, time.UTC))
	before := store.PeriodSet("a", calendar.Day, calendar.Day.Start(now.AddDate(0, 0, -1), time.UTC))
	for id, views := range map[string]int64{"a": 9, "b": 7, "c": 7, "d": 2} {
		c.put(day, id, store.Tally{Views: views, Uniques: 1})
	}
	for id, views := range map[string]int64{"b": 50, "x": 20, "a": 3} {
		c.put(before, id, store.Tally{Views: views})
	}
	ptr := func(f float64) *float64 { return &f }
	ranks := func(n int64) *int64 { return &n }
	all := []board.Row{
		{Rank: 1, ID: "a", Score: 9, Views: 9, Uniques: 1, Movement: board.Movement{Previous: &board.Standing{Rank: 3, Score: 3}, Change: ranks(2)}},
		{Rank: 2, ID: "c", Score: 7, Views: 7, Uniques: 1, Gap: ptr(2), Movement: board.Movement{New: true}},
		{Rank: 2, ID: "b", Score: 7, Views: 7, Uniques: 1, Gap: ptr(0), Movement: board.Movement{Previous: &board.Standing{Rank: 1, Score: 50}, Change: ranks(-1)}},
		{Rank: 4, ID: "d", Score: 2, Views: 2, Uniques: 1, Gap: ptr(5), Movement: board.Movement{New: true}},
	}
	for _, tc := range []struct{ offset, limit, from, to int }{{0, 10, 0, 4}, {0, 2, 0, 2}, {2, 2, 2, 4}, {3, 5, 3, 4}, {4, 1, 4, 4}, {9000, 1000, 4, 4}} {
		got, err := c.boards().Board(t.Context(), board.Query{List: "a", Period: "day", Limit: tc.limit, Offset: tc.offset})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(slices.Clone(all[tc.from:tc.to]), got.Items, cmp.Transformer("empty", func(r []board.Row) []board.Row { return append([]board.Row{}, r...) })); diff != "" {
			t.Errorf("offset %d, limit %d (-want +got)\n%s", tc.offset, tc.limit, diff)
		}
		if got.From.Format(time.DateOnly) != "2026-11-20" || got.To.Format(time.DateOnly) != "2026-11-21" {
			t.Errorf("the day is from %v to %v", got.From, got.To)
		}
	}
}

func TestHalfLifeOverShards(t *testing.T) {
	t.Parallel()
	c := newCounts(t, 2, &ruleset.ListConfig{Score: ruleset.Score{Model: ruleset.HalfLife, HalfLife: ruleset.Duration(time.Hour)}})
	set, _ := scoring.ScoreSet(c.rules.Lists[0])
	// Shard 0 counts from now on, shard 1 from ten hours ago, so its sums are 1024
	// times too high.
	c.setLandmark(0, set, now)
	c.setLandmark(1, set, now.Add(-10*time.Hour))
	want := map[string]float64{}
	for i := range 40 {
		id := fmt.Sprint("item", i)
		want[id] = float64(i + 1)
		c.put(store.AllSet("a"), id, store.Tally{Views: 5, Uniques: 5})
		c.put(set, id, store.Tally{Score: want[id] * math.Pow(1024, float64(hit.Shard(hit.View, "a", id, 2)))})
	}
	got, err := c.boards().Board(t.Context(), board.Query{List: "a", Period: board.Hot, Limit: 10, Explain: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range got.Items {
		if want := fmt.Sprint("item", 39-i); r.ID != want || r.Score != float64(40-i) || r.Explain == nil || r.Explain.HalfLife == "" {
			t.Errorf("row %d is %+v, want %s", i, r, want)
		}
	}
	for _, id := range []string{"item39", "item38", "item0"} {
		it, err := c.boards().Item(t.Context(), "a", id)
		if err != nil {
			t.Fatal(err)
		}
		p := it.Boards[board.Hot]
		if p.Score != want[id] || p.Rank != int64(41-want[id]) {
			t.Errorf("%s has %+v", id, p)
		}
		if id == "item38" && (p.Ahead != "item39" || *p.Gap != 1) {
			t.Errorf("ahead of item38 is %+v", p)
		}
	}
}

func TestItem(t *testing.T) {
	t.Parallel()
	c := newCounts(t, 3, &ruleset.ListConfig{})
	day := store.PeriodSet("a", calendar.Day, calendar.Day.Start(now, time.UTC))
	for i, views := range []int64{100, 50, 50, 10} {
		id := fmt.Sprint("item", i)
		c.put(store.AllSet("a"), id, store.Tally{Views: views, Uniques: 2})
		c.put(day, id, store.Tally{Views: views, Uniques: 2})
		c.put(store.PublishedSet("a"), id, store.Tally{Score: float64(now.UnixMilli() - 3600_000)})
	}
	for i, want := range []struct {
		rank  int64
		ahead string
		gap   float64
	}{{1, "", 0}, {2, "item0", 50}, {2, "item0", 50}, {4, "item1", 40}} {
		it, err := c.boards().Item(t.Context(), "a", fmt.Sprint("item", i))
		if err != nil {
			t.Fatal(err)
		}
		p := it.Boards["day"]
		if p.Rank != want.rank || p.Ahead != want.ahead && p.Ahead != "item2" || (p.Gap == nil) != (want.gap == 0) || p.Gap != nil && *p.Gap != want.gap || !p.New && p.Previous != nil {
			t.Errorf("day: %+v, want %+v", p, want)
		}
		if hot := it.Boards[board.Hot]; hot.Rank != want.rank || hot.Ahead != "" != (i > 0) {
			t.Errorf("hot: %+v, want rank %d", hot, want.rank)
		}
		if it.Boards["hour"] != nil {
			t.Errorf("it is on the hour's board: %+v", it.Boards["hour"])
		}
	}
	if _, err := c.boards().Item(t.Context(), "a", "nobody"); !errors.Is(err, board.ErrUnknownItem) {
		t.Errorf("unknown item: %v", err)
	}
	if _, err := c.boards().Item(t.Context(), "b", "item0"); !errors.Is(err, board.ErrUnknownList) {
		t.Errorf("unknown list: %v", err)
	}
}

func TestBoardsThatAreNotKept(t *testing.T) {
	t.Parallel()
	c := newCounts(t, 1, &ruleset.ListConfig{Boards: []calendar.Period{calendar.Day}, Keep: map[calendar.Period]int{calendar.Day: 3}})
	c.put(store.AllSet("a"), "x", store.Tally{Views: 1})
	for _, tc := range []struct {
		q    board.Query
		want error
	}{
		{board.Query{List: "a", Period: "day"}, nil},
		{board.Query{List: "a", Period: "day", At: now.AddDate(0, 0, -3)}, nil},
		{board.Query{List: "a", Period: "day", At: now.AddDate(0, 0, -4)}, board.ErrNotKept},
		{board.Query{List: "a", Period: "hour"}, board.ErrNotKept},
		{board.Query{List: "b", Period: "day"}, board.ErrUnknownList},
	} {
		tc.q.Limit = 10
		if _, err := c.boards().Board(t.Context(), tc.q); !errors.Is(err, tc.want) {
			t.Errorf("%+v: got %v, want %v", tc.q, err, tc.want)
		}
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	c := newCounts(t, 2, &ruleset.ListConfig{})
	ctx := t.Context()
	got, err := c.boards().Stats(ctx, "a", time.Time{})
	if err != nil || got.NewestHitAt != nil || got.Items != 0 || got.Periods["day"].Views != 0 {
		t.Errorf("an empty list: %+v, %v", got, err)
	}
	day := store.PeriodSet("a", calendar.Day, calendar.Day.Start(now, time.UTC))
	for shard := range 2 {
		err := c.store.Commit(ctx, shard, &store.Commit{
			To: store.Position{Seq: 1, Fingerprint: 1},
			Totals: map[store.Set]store.Totals{
				day:               {Views: 10, Uniques: 4, Duplicates: 1, Newest: now.UnixMilli()},
				store.AllSet("a"): {Views: 20, Uniques: 8, Duplicates: 2, Newest: now.UnixMilli() + int64(shard)},
			},
			Visitors: map[store.Set][]uint64{day: {1, 2, uint64(3 + shard)}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err = c.boards().Stats(ctx, "a", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if d := got.Periods["day"]; d.Views != 20 || d.Uniques != 8 || d.Duplicates != 2 || d.Visitors != 4 {
		t.Errorf("day: %+v", d)
	}
	if a := got.Periods["all"]; a.Views != 40 || a.From != nil || got.NewestHitAt.UnixMilli() != now.UnixMilli()+1 {
		t.Errorf("all: %+v, newest %v", a, got.NewestHitAt)
	}
	if _, err := c.boards().Stats(ctx, "b", time.Time{}); !errors.Is(err, board.ErrUnknownList) {
		t.Errorf("unknown list: %v", err)
	}
}

// Busy shards drop a period before idle ones do, so an expired period is half
// there.
func TestMovementOnlyAsFarAsPeriodsAreKept(t *testing.T) {
	t.Parallel()
	c := newCounts(t, 1, &ruleset.ListConfig{Keep: map[calendar.Period]int{calendar.Day: 1}})
	for ago, views := range []int64{5, 4, 3} {
		c.put(store.PeriodSet("a", calendar.Day, calendar.Day.Start(now.AddDate(0, 0, -ago), time.UTC)), "x", store.Tally{Views: views})
	}
	for ago, want := range []bool{true, false} { // whether there is a previous day
		got, err := c.boards().Board(t.Context(), board.Query{List: "a", Period: "day", Limit: 1, At: now.AddDate(0, 0, -ago)})
		if err != nil {
			t.Fatal(err)
		}
		if r := got.Items[0]; (r.Previous != nil) != want || r.New {
			t.Errorf("%d days ago: %+v", ago, r)
		}
	}
}
