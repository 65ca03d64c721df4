package storetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// memoOf is a memo of a list of views, or of a list of votes if its name is polls
// or rounds.
func memoOf(list string, term calendar.Period, start int64, key uint64) store.Memo {
	m := store.Memo{List: list, Kind: hit.View, Term: term, Start: start, Key: key}
	if list == "polls" || list == "rounds" {
		m.Kind = hit.Vote
	}
	return m
}

func testMemos(t *testing.T, b Backend) {
	s := b.open(t, 1)
	w := newWriter(t, s, 0)
	const day = 1_795_132_800 // 2026-11-20T00:00:00Z
	memo := func(list string, term calendar.Period, start int64, key uint64, value int64) store.MemoValue {
		return store.MemoValue{Memo: memoOf(list, term, start, key), Value: uint32(value)}
	}
	written := []store.MemoValue{
		memo("articles", calendar.Day, day, 1, 0),
		memo("articles", calendar.Day, day, math.MaxUint64, math.MaxUint32),
		memo("articles", calendar.Day, day, 0, 5),
		memo("articles", calendar.Day, day, 1<<63, 1<<31),
		memo("articles", calendar.Day, day+86400, 1, 7),
		memo("articles", calendar.Week, day, 1, 8), // terms that begin at one instant
		memo("articles", calendar.Month, day, 1, 9),
		memo("articles", calendar.All, day, 1, 10),
		memo("articles", calendar.All, 0, 1, 11),
		memo("articles", calendar.Day, day-5*3600, 1, 12), // the day of another zone
		memo("articles", calendar.Day, 0, 1, 13),
		memo("articles", calendar.Day, -86400, 1, 14), // before 1970
		memo("polls", calendar.Day, day, 1, 15),
	}
	w.commit(store.Commit{Memos: written})
	check := func(values map[store.Memo]int64) {
		t.Helper()
		var want store.Want
		for m := range values {
			want.Memos = append(want.Memos, m)
		}
		for i, got := range w.read(want).Memos {
			if m := want.Memos[i]; got != values[m] {
				t.Errorf("%+v is %d, want %d", m, got, values[m])
			}
		}
	}
	values := map[store.Memo]int64{}
	for _, m := range written {
		values[m.Memo] = int64(m.Value)
	}
	for _, m := range []store.MemoValue{
		memo("articles", calendar.Day, day, 2, 0), memo("articles", calendar.Day, day+2*86400, 1, 0), memo("articles", calendar.Week, day+86400, 1, 0),
		memo("polls", calendar.Day, day+86400, 1, 0), memo("polls", calendar.All, day, 1, 0), memo("poll", calendar.Day, day, 1, 0),
	} {
		values[m.Memo] = store.NoMemo
	}
	check(values)

	// Rounds of new and returning keys, in buckets that are empty, known and changed.
	r := rand.New(rand.NewPCG(3, 4))
	last := map[uint64]int64{}
	inTerm := func(start int64, value func(key uint64) int64) map[store.Memo]int64 {
		values := map[store.Memo]int64{}
		for key := range uint64(3000) {
			values[memoOf("rounds", calendar.All, start, key)] = value(key)
		}
		return values
	}
	known := func(key uint64) int64 {
		if v, ok := last[key]; ok {
			return v
		}
		return store.NoMemo
	}
	for round := range 12 {
		if round%3 != 0 { // also commits without a read before
			check(inTerm(day, known))
			check(inTerm(day+1, func(uint64) int64 { return store.NoMemo }))
		}
		c := store.Commit{}
		changed := map[uint64]bool{}
		for range 400 {
			key := r.Uint64N(3000)
			if changed[key] {
				continue
			}
			changed[key] = true
			last[key] = int64(round*1000) + r.Int64N(1000)
			c.Memos = append(c.Memos, memo("rounds", calendar.All, day, key, last[key]))
		}
		w.commit(c)
		check(inTerm(day, known))
	}
}

func testManyEntries(t *testing.T, b Backend) {
	s, ctx := b.open(t, 1), t.Context()
	w := newWriter(t, s, 0)
	const n = 9_000
	other := store.Set{List: "articles", Name: "published"}
	c := store.Commit{
		Edges:    map[string]uint64{},
		Items:    map[string]map[string]store.Item{"articles": {}},
		Scores:   map[store.Set]map[string]store.Tally{scored: {}, other: {}},
		Totals:   map[store.Set]store.Totals{},
		Visitors: map[store.Set][]uint64{},
	}
	want := store.Want{Items: map[string][]string{}, Scores: map[store.Set][]string{}}
	var items []string
	for i := range n {
		item := fmt.Sprint("item", i)
		items = append(items, item)
		c.Items["articles"][item] = store.Item{First: int64(i)}
		c.Scores[scored][item] = store.Tally{Score: float64(i), Uniques: int64(i)}
		c.Scores[other][item] = store.Tally{Score: float64(-i)}
		memo := store.Memo{List: "articles", Term: calendar.Day, Start: 86400, Key: uint64(i) * 0x9e3779b97f4a7c15}
		c.Memos = append(c.Memos, store.MemoValue{Memo: memo, Value: uint32(i)})
		want.Memos = append(want.Memos, memo)
		c.Visitors[scored] = append(c.Visitors[scored], memo.Key)
		if i < 500 {
			set := store.Set{List: "articles", Name: fmt.Sprint("set", i)}
			c.Totals[set] = store.Totals{Views: int64(i)}
			want.Totals = append(want.Totals, set)
			c.Edges[fmt.Sprint("edge", i)] = uint64(i) + 1
		}
	}
	want.Items["articles"] = items
	want.Scores[scored], want.Scores[other] = items, items
	w.commit(c)
	have := w.read(want)
	for i, item := range items {
		if have.Memos[i] != int64(i) || have.Items["articles"][i] != c.Items["articles"][item] ||
			have.Scores[scored][i] != c.Scores[scored][item] || have.Scores[other][i] != c.Scores[other][item] {
			t.Fatalf("item %d is not as it was written", i)
		}
	}
	for i, set := range want.Totals {
		equal(t, set.Name, have.Totals[i], c.Totals[set])
	}
	equal(t, "edges", must[store.State](t)(s.Load(ctx, 0)).Edges, c.Edges)
	equal(t, "size", must[int64](t)(s.Size(ctx, other)), int64(n))
	top := must[[][]store.Entry](t)(s.Top(ctx, scored, n))[0]
	equal(t, "length of the top", len(top), n)
	for i, e := range top {
		if want := int64(n - 1 - i); e.Score != float64(want) || e.Uniques != want {
			t.Fatalf("place %d is %+v", i, e)
		}
	}
	tallies := must[[]*store.Tally](t)(s.Scores(ctx, hit.View, scored, items))
	records := must[[]*store.Item](t)(s.Items(ctx, hit.View, "articles", items))
	for i := range items {
		if tallies[i] == nil || tallies[i].Uniques != int64(i) || records[i] == nil || records[i].First != int64(i) {
			t.Fatalf("item %d is not as it was written", i)
		}
	}
	whole := w.read(store.Want{Whole: []store.Set{scored, other}}).Whole
	equal(t, "entries", [2]int{len(whole[scored]), len(whole[other])}, [2]int{n, n})
	for _, e := range whole[scored] {
		if e != (store.Entry{Item: e.Item, Tally: c.Scores[scored][e.Item]}) {
			t.Fatalf("%+v is not as it was written", e)
		}
	}
	equal(t, "sets", len(w.read(store.Want{Sets: true}).Sets), 499) // one has only zeros
	w.commit(store.Commit{Drop: []store.Set{scored, other}})
	equal(t, "size after the drop", must[int64](t)(s.Size(ctx, scored)), int64(0))
}
