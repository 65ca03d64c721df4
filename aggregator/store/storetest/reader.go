package storetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

func testTop(t *testing.T, b Backend) {
	s, ctx := b.open(t, 2), t.Context()
	newWriter(t, s, 0).commit(store.Commit{Scores: map[store.Set]map[string]store.Tally{scored: {
		"a": {Score: 1, Uniques: 1}, "B": {Score: 1}, "é": {Score: 1}, "z": {Score: 1, Uniques: 4}, "aa": {Score: 1},
		"low": {Score: -7}, "high": {Score: 1e18, Uniques: 2}, "zero": {Score: 0}, "fraction": {Score: 0.125},
	}}})
	newWriter(t, s, 1).scores(scored, map[string]float64{"other": 2})
	order := []store.Entry{
		{Item: "high", Tally: store.Tally{Score: 1e18, Uniques: 2}},
		{Item: "é", Tally: store.Tally{Score: 1}}, {Item: "z", Tally: store.Tally{Score: 1, Uniques: 4}}, {Item: "aa", Tally: store.Tally{Score: 1}}, {Item: "a", Tally: store.Tally{Score: 1, Uniques: 1}}, {Item: "B", Tally: store.Tally{Score: 1}},
		{Item: "fraction", Tally: store.Tally{Score: 0.125}}, {Item: "zero"}, {Item: "low", Tally: store.Tally{Score: -7}},
	}
	for _, n := range []int{1, 3, 8, 9, 10, 1000} {
		top := must[[][]store.Entry](t)(s.Top(ctx, scored, n))
		equal(t, fmt.Sprint("top ", n), top, [][]store.Entry{order[:min(n, len(order))], {{Item: "other", Tally: store.Tally{Score: 2}}}})
	}
	none := must[[][]store.Entry](t)(s.Top(ctx, scored, 0))
	equal(t, "top 0", len(none) == 2 && len(none[0])+len(none[1]) == 0, true)
}

func testAboveAndNext(t *testing.T, b Backend) {
	s, ctx := b.open(t, 2), t.Context()
	newWriter(t, s, 0).commit(store.Commit{Scores: map[store.Set]map[string]store.Tally{scored: {
		"a": {Score: 1}, "b": {Score: 2, Uniques: 3}, "c": {Score: 2, Uniques: 4}, "d": {Score: 3}, "e": {Score: -1.5},
	}}})
	newWriter(t, s, 1).scores(scored, map[string]float64{"x": 1e-300, "y": 1e300})
	inf := math.Inf(1)
	entry := func(item string, score float64, uniques int64) *store.Entry {
		return &store.Entry{Item: item, Tally: store.Tally{Score: score, Uniques: uniques}}
	}
	var (
		bounds [][]float64
		above  []int64
		next   [][]*store.Entry
	)
	for _, tt := range []struct {
		bounds []float64
		above  int64
		next   []*store.Entry
	}{
		{[]float64{-inf, -inf}, 7, []*store.Entry{entry("e", -1.5, 0), entry("x", 1e-300, 0)}},
		{[]float64{inf, inf}, 0, []*store.Entry{nil, nil}},
		{[]float64{1, 0}, 5, []*store.Entry{entry("b", 2, 3), entry("x", 1e-300, 0)}},
		{[]float64{2, 1e-300}, 2, []*store.Entry{entry("d", 3, 0), entry("y", 1e300, 0)}},
		{[]float64{math.Nextafter(2, 0), math.Nextafter(1e-300, 0)}, 5, []*store.Entry{entry("b", 2, 3), entry("x", 1e-300, 0)}},
		{[]float64{3, 1e300}, 0, []*store.Entry{nil, nil}},
	} {
		equal(t, fmt.Sprint("above ", tt.bounds), must[[]int64](t)(s.Above(ctx, scored, [][]float64{tt.bounds})), []int64{tt.above})
		equal(t, fmt.Sprint("next ", tt.bounds), must[[][]*store.Entry](t)(s.Next(ctx, scored, [][]float64{tt.bounds})), [][]*store.Entry{tt.next})
		bounds, above, next = append(bounds, tt.bounds), append(above, tt.above), append(next, tt.next)
	}
	equal(t, "above all bounds", must[[]int64](t)(s.Above(ctx, scored, bounds)), above)
	equal(t, "next of all bounds", must[[][]*store.Entry](t)(s.Next(ctx, scored, bounds)), next)
}

// testViews reads a set that counts hits in every way.
func testViews(t *testing.T, b Backend) {
	s, ctx := b.open(t, 1), t.Context()
	w := newWriter(t, s, 0)
	tallies := map[string]store.Tally{"a": {Views: 1 << 53, Uniques: 3}, "b": {Views: 7}, "c": {}}
	w.commit(store.Commit{Scores: map[store.Set]map[string]store.Tally{counting: tallies}})
	a, b2, c := store.Entry{Item: "a", Tally: tallies["a"]}, store.Entry{Item: "b", Tally: tallies["b"]}, store.Entry{Item: "c"}

	have := w.read(store.Want{Scores: map[store.Set][]string{counting: {"b", "missing", "a"}}, Whole: []store.Set{counting}})
	equal(t, "read", have.Scores[counting], []store.Tally{tallies["b"], {}, tallies["a"]})
	slices.SortFunc(have.Whole[counting], func(a, b store.Entry) int { return strings.Compare(a.Item, b.Item) })
	equal(t, "whole", have.Whole[counting], []store.Entry{a, b2, c})
	equal(t, "top", must[[][]store.Entry](t)(s.Top(ctx, counting, 9)), [][]store.Entry{{a, b2, c}})
	equal(t, "scores", must[[]*store.Tally](t)(s.Scores(ctx, hit.View, counting, []string{"c", "a", "missing"})), []*store.Tally{{}, &a.Tally, nil})
	equal(t, "above", must[[]int64](t)(s.Above(ctx, counting, [][]float64{{0}, {7}})), []int64{2, 1})
	equal(t, "next", must[[][]*store.Entry](t)(s.Next(ctx, counting, [][]float64{{0}, {7}})), [][]*store.Entry{{&b2}, {&a}})
}

// testIDs writes every kind of id that hit.ValidID allows, and names that would
// collide if they were only concatenated.
func testIDs(t *testing.T, b Backend) {
	s, ctx := b.open(t, 1), t.Context()
	w := newWriter(t, s, 0)
	ids := []string{
		"a", " ", "a b", "a:b", "a:", ":a", "a%3Ab", "%", "a/b", "a\\b", `a"b'c`, "{s0}", "*", "?", "[a]", "0", "-1", "1e3", "nil",
		"日本語", "🔥", "e\u0301", "\u00e9", "\u202e", "\u2028", strings.Repeat("x", hit.MaxIDBytes), strings.Repeat("🔥", hit.MaxIDBytes/4),
		strings.Repeat("x", hit.MaxIDBytes-1) + "y",
	}
	c := store.Commit{
		Items:  map[string]map[string]store.Item{},
		Scores: map[store.Set]map[string]store.Tally{},
		Totals: map[store.Set]store.Totals{},
	}
	want := store.Want{Items: map[string][]string{}, Scores: map[store.Set][]string{}}
	n := int64(0)
	for _, list := range ids {
		if err := hit.ValidID(list); err != nil {
			t.Fatalf("%q: %v", list, err)
		}
		c.Items[list] = map[string]store.Item{}
		want.Items[list] = ids
		for _, id := range ids {
			n++
			c.Items[list][id] = store.Item{First: n}
			set := store.Set{List: list, Name: "all"}
			if c.Scores[set] == nil {
				c.Scores[set] = map[string]store.Tally{}
			}
			c.Scores[set][id] = store.Tally{Views: n, Uniques: n}
			want.Scores[set] = ids
		}
		memo := store.Memo{List: list, Term: calendar.Day, Key: 7}
		c.Memos = append(c.Memos, store.MemoValue{Memo: memo, Value: uint32(n)})
		want.Memos = append(want.Memos, memo)
	}
	for _, set := range []store.Set{{List: "a:b", Name: "c"}, {List: "a", Name: "b:c"}, {List: "a:b:c"}, {List: "a%3Ab", Name: "c"}} {
		n++
		c.Totals[set] = store.Totals{Views: n}
		c.Scores[set] = map[string]store.Tally{"item": {Score: float64(n)}}
		want.Totals = append(want.Totals, set)
		want.Scores[set] = []string{"item"}
	}
	w.commit(c)
	have := w.read(want)
	for list, items := range c.Items {
		for i, id := range ids {
			if have.Items[list][i] != items[id] {
				t.Errorf("item %q of list %q is %+v, want %+v", id, list, have.Items[list][i], items[id])
			}
		}
	}
	for set, items := range want.Scores {
		for i, id := range items {
			if have.Scores[set][i] != c.Scores[set][id] {
				t.Errorf("score of %q in %+v is %+v, want %+v", id, set, have.Scores[set][i], c.Scores[set][id])
			}
		}
		top := must[[][]store.Entry](t)(s.Top(ctx, set, 1000))[0]
		equal(t, fmt.Sprintf("entries of %+v", set), len(top), len(c.Scores[set]))
		for _, e := range top {
			if !utf8.ValidString(e.Item) || c.Scores[set][e.Item] != e.Tally {
				t.Errorf("%+v holds %+v", set, e)
			}
		}
	}
	for i, set := range want.Totals {
		equal(t, fmt.Sprintf("totals of %+v", set), have.Totals[i], c.Totals[set])
	}
	for i, m := range c.Memos {
		equal(t, "memo of list "+m.List, have.Memos[i], int64(m.Value))
	}
}

// floats are numbers that a store changes if it formats or rounds them.
func floats() []float64 {
	f := []float64{
		0, 1, -1, 0.1, 0.1 + 0.2, 1.0 / 3, math.Pi, 1e15, 1e16 + 2, 1<<53 - 1, 1 << 53, 1<<53 + 2, 1 << 63, math.MaxInt64, 123456789.123456789,
		math.MaxFloat64, -math.MaxFloat64, 0x1p-1022, 1e-300, 1e300, math.Nextafter(1, 2), math.Nextafter(1, 0), 5e-324, 1732104000123,
	}
	r := rand.New(rand.NewPCG(1, 2))
	for len(f) < 300 {
		if x := math.Float64frombits(r.Uint64()); !math.IsNaN(x) && !math.IsInf(x, 0) {
			f = append(f, x)
		}
	}
	return f
}

func testFloats(t *testing.T, b Backend) {
	s, ctx := b.open(t, 1), t.Context()
	w := newWriter(t, s, 0)
	scores := map[string]float64{}
	var items []string
	for i, f := range floats() {
		item := fmt.Sprint("item", i)
		scores[item] = f
		items = append(items, item)
	}
	w.scores(scored, scores)
	have := w.read(store.Want{Scores: map[store.Set][]string{scored: items}}).Scores[scored]
	tallies := must[[]*store.Tally](t)(s.Scores(ctx, hit.View, scored, items))
	for i, item := range items {
		if have[i].Score != scores[item] || tallies[i].Score != scores[item] {
			t.Errorf("wrote %x, Read returns %x, Scores %x", scores[item], have[i].Score, tallies[i].Score)
		}
	}
	top := must[[][]store.Entry](t)(s.Top(ctx, scored, 1000))[0]
	for i, e := range top {
		if e.Score != scores[e.Item] {
			t.Errorf("wrote %x, Top returns %x", scores[e.Item], e.Score)
		}
		if i > 0 && e.Score > top[i-1].Score {
			t.Errorf("%g comes after %g", e.Score, top[i-1].Score)
		}
		if next := must[[][]*store.Entry](t)(s.Next(ctx, scored, [][]float64{{e.Score}}))[0][0]; i > 0 && next == nil {
			t.Errorf("nothing above %g", e.Score)
		}
	}
}

func testScale(t *testing.T, b Backend) {
	s, ctx := b.open(t, 1), t.Context()
	w := newWriter(t, s, 0)
	other := store.Set{List: "articles", Name: "other"}
	scores := map[string]store.Tally{}
	var items []string
	for i, f := range floats() {
		if math.Abs(f) < 1e-100 && f != 0 {
			continue // would lose bits below the smallest normal number
		}
		item := fmt.Sprint("item", i)
		scores[item] = store.Tally{Score: f, Uniques: int64(i)}
		items = append(items, item)
	}
	missing := store.Set{List: "articles", Name: "missing"}
	w.commit(store.Commit{Scores: map[store.Set]map[string]store.Tally{scored: scores, other: {"a": {Score: 3, Uniques: 1}}}})
	w.commit(store.Commit{Scale: map[store.Set]int{scored: -512, missing: -5}})
	have := w.read(store.Want{Scores: map[store.Set][]string{scored: items, other: {"a"}}})
	for i, item := range items {
		want := store.Tally{Score: math.Ldexp(scores[item].Score, -512), Uniques: scores[item].Uniques}
		if have.Scores[scored][i] != want {
			t.Errorf("%x scaled by 2^-512 is %+v, want %+v", scores[item].Score, have.Scores[scored][i], want)
		}
	}
	equal(t, "another set", have.Scores[other], []store.Tally{{Score: 3, Uniques: 1}})
	equal(t, "size of a missing set", must[int64](t)(s.Size(ctx, missing)), int64(0))

	// First scaled, then written.
	w.commit(store.Commit{
		Scale:  map[store.Set]int{other: -1},
		Scores: map[store.Set]map[string]store.Tally{other: {"b": {Score: 5}}},
	})
	equal(t, "scaled and written", w.read(store.Want{Scores: map[store.Set][]string{other: {"a", "b"}}}).Scores[other],
		[]store.Tally{{Score: 1.5, Uniques: 1}, {Score: 5}})
	// A long silence moves a landmark by more than the range of exponents.
	w.commit(store.Commit{Scores: map[store.Set]map[string]store.Tally{other: {"c": {Score: 1e300}}}})
	w.commit(store.Commit{Scale: map[store.Set]int{other: -1100}})
	equal(t, "scaled by 2^-1100", w.read(store.Want{Scores: map[store.Set][]string{other: {"a", "b", "c"}}}).Scores[other],
		[]store.Tally{{Uniques: 1}, {}, {Score: math.Ldexp(1e300, -1100)}})
	w.commit(store.Commit{Scale: map[store.Set]int{other: -1_000_000}})
	equal(t, "scaled to nothing", must[[][]store.Entry](t)(s.Top(ctx, other, 9))[0],
		[]store.Entry{{Item: "c"}, {Item: "b"}, {Item: "a", Tally: store.Tally{Uniques: 1}}})
}

// testWhole reads whole sets and the list of sets of one shard.
func testWhole(t *testing.T, b Backend) {
	s := b.open(t, 2)
	sums, odd := store.Set{List: "articles", Name: "halflife:24h"}, store.Set{List: "100%:a", Name: "all:b"}
	w, other := newWriter(t, s, 0), newWriter(t, s, 1)
	w.commit(store.Commit{
		Scores: map[store.Set]map[string]store.Tally{
			scored: {"a": {Score: 1.5, Uniques: 2}, "b": {}, "c\x00\n:": {Score: -1e300}},
			sums:   {"a": {Score: 1}}, // without totals
			odd:    {"a": {Views: 2}},
		},
		Totals: map[store.Set]store.Totals{
			scored: {Views: 1, Uniques: 2, Duplicates: 3, Newest: 4, Landmark: 5}, odd: {Landmark: -1}, {List: "x", Name: "zeros"}: {},
		},
	})
	other.commit(store.Commit{
		Scores: map[store.Set]map[string]store.Tally{scored: {"x": {Score: 9}}},
		Totals: map[store.Set]store.Totals{{List: "other", Name: "all"}: {Views: 1}},
	})
	missing := store.Set{List: "articles", Name: "missing"}
	have := w.read(store.Want{Whole: []store.Set{scored, missing, odd}, Sets: true})
	slices.SortFunc(have.Whole[scored], func(a, b store.Entry) int { return strings.Compare(a.Item, b.Item) })
	equal(t, "whole", have.Whole[scored], []store.Entry{{Item: "a", Tally: store.Tally{Score: 1.5, Uniques: 2}}, {Item: "b"}, {Item: "c\x00\n:", Tally: store.Tally{Score: -1e300}}})
	equal(t, "a set of an odd name", have.Whole[odd], []store.Entry{{Item: "a", Tally: store.Tally{Views: 2}}})
	equal(t, "a missing set", len(have.Whole[missing]), 0)
	equal(t, "sets", have.Sets, map[store.Set]store.Totals{scored: {Views: 1, Uniques: 2, Duplicates: 3, Newest: 4, Landmark: 5}, odd: {Landmark: -1}})

	w.commit(store.Commit{Drop: []store.Set{scored}})
	have = w.read(store.Want{Whole: []store.Set{scored}, Sets: true})
	equal(t, "a dropped set", len(have.Whole[scored]), 0)
	equal(t, "sets without it", have.Sets, map[store.Set]store.Totals{odd: {Landmark: -1}})
}

func testDrop(t *testing.T, b Backend) {
	s, ctx := b.open(t, 1), t.Context()
	w := newWriter(t, s, 0)
	kept := store.Set{List: "articles", Name: "published"}
	full := func(sets ...store.Set) store.Commit {
		c := store.Commit{
			Scores: map[store.Set]map[string]store.Tally{}, Totals: map[store.Set]store.Totals{}, Visitors: map[store.Set][]uint64{},
			Items: map[string]map[string]store.Item{"articles": {"a": {First: 1}}},
		}
		for _, set := range sets {
			c.Scores[set] = map[string]store.Tally{"a": {Score: 1, Uniques: 2}}
			c.Totals[set] = store.Totals{Views: 1}
			c.Visitors[set] = []uint64{1, 2, 3}
		}
		return c
	}
	check := func(set store.Set, has bool) {
		t.Helper()
		var want store.Have
		var visitors int64
		if want.Scores, want.Totals = (map[store.Set][]store.Tally{set: {{}}}), []store.Totals{{}}; has {
			want.Scores, want.Totals = map[store.Set][]store.Tally{set: {{Score: 1, Uniques: 2}}}, []store.Totals{{Views: 1}}
			visitors = 3
		}
		have := w.read(store.Want{Scores: map[store.Set][]string{set: {"a"}}, Totals: []store.Set{set}})
		equal(t, set.Name, have.Scores, want.Scores)
		equal(t, set.Name, have.Totals, want.Totals)
		equal(t, "visitors of "+set.Name, must[int64](t)(s.Visitors(ctx, set)), visitors)
	}
	w.commit(full(scored, kept))
	check(scored, true)
	w.commit(store.Commit{Drop: []store.Set{scored, {List: "articles", Name: "never written"}}})
	check(scored, false)
	check(kept, true)
	equal(t, "item", must[[]*store.Item](t)(s.Items(ctx, hit.View, "articles", []string{"a"}))[0], &store.Item{First: 1})

	w.commit(full(scored)) // it can come back
	check(scored, true)
	// Dropped and written at once: it begins anew.
	c := full(scored)
	c.Drop = []store.Set{scored}
	c.Scores[scored] = map[string]store.Tally{"b": {Score: 7}}
	c.Totals[scored] = store.Totals{Views: 7}
	c.Visitors[scored] = []uint64{9}
	w.commit(c)
	have := w.read(store.Want{Whole: []store.Set{scored}, Totals: []store.Set{scored}})
	equal(t, "whole", have.Whole[scored], []store.Entry{{Item: "b", Tally: store.Tally{Score: 7}}})
	equal(t, "totals", have.Totals, []store.Totals{{Views: 7}})
	equal(t, "visitors", must[int64](t)(s.Visitors(ctx, scored)), int64(1))
	check(kept, true)
}
