package storetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hotboard/hotboard/aggregator/store"
)

func testSeen(t *testing.T, b Backend) {
	s := b.open(t, 1)
	w := newWriter(t, s, 0)
	const day = 1_795_132_800 // 2026-11-20T00:00:00Z
	at := func(list string, day int64, pair uint64, ms int64) store.SeenAt {
		return store.SeenAt{Seen: store.Seen{List: list, Day: day, Pair: pair}, Time: day*1000 + ms}
	}
	w.commit(store.Commit{Seen: []store.SeenAt{
		at("articles", day, 1, 0),
		at("articles", day, math.MaxUint64, 86_399_999),
		at("articles", day, 0, 5),
		at("articles", day, 1<<63, 6),
		at("articles", day+86400, 1, 7),
		at("articles", day-86400, 1, 90_000_000-1), // a day of 25 hours
		at("articles", day-5*3600, 1, 9),           // the day of another zone
		at("articles", 0, 1, 10),
		at("articles", -86400, 1, 11), // before 1970
		at("polls", day, 1, 12),
	}})
	check := func(seen []store.SeenAt) {
		t.Helper()
		var want store.Want
		for _, a := range seen {
			want.Seen = append(want.Seen, a.Seen)
		}
		for i, got := range w.read(want).Seen {
			if got != seen[i].Time {
				t.Errorf("%+v was seen at %d, want %d", seen[i].Seen, got, seen[i].Time)
			}
		}
	}
	not := func(list string, day int64, pair uint64) store.SeenAt {
		return store.SeenAt{Seen: store.Seen{List: list, Day: day, Pair: pair}, Time: store.NotSeen}
	}
	check([]store.SeenAt{
		at("articles", day, 1, 0), at("articles", day, math.MaxUint64, 86_399_999), at("articles", day, 0, 5),
		at("articles", day, 1<<63, 6), at("articles", day+86400, 1, 7), at("articles", day-86400, 1, 90_000_000-1),
		at("articles", day-5*3600, 1, 9), at("articles", 0, 1, 10), at("articles", -86400, 1, 11), at("polls", day, 1, 12),
		not("articles", day, 2), not("articles", day+2*86400, 1), not("polls", day+86400, 1), not("poll", day, 1),
	})

	// Rounds of new pairs and of pairs that come back, over buckets that are
	// empty, known and changed.
	r := rand.New(rand.NewPCG(3, 4))
	last := map[uint64]int64{}
	for round := range 12 {
		c := store.Commit{}
		changed := map[uint64]bool{}
		for range 400 {
			pair := r.Uint64N(3000)
			if changed[pair] {
				continue
			}
			changed[pair] = true
			last[pair] = int64(round*1000) + r.Int64N(1000)
			c.Seen = append(c.Seen, at("rounds", day, pair, last[pair]))
		}
		if round%3 != 0 { // also commits that nothing was read for
			var want []store.SeenAt
			for pair := range uint64(3000) {
				want = append(want, not("rounds", day, pair))
				if ms, ok := last[pair]; ok && !changed[pair] {
					want[pair] = at("rounds", day, pair, ms)
				}
			}
			for pair := range changed {
				want[pair] = not("rounds", day+86400, pair)
			}
			check(want)
		}
		w.commit(c)
		var want []store.SeenAt
		for pair, ms := range last {
			want = append(want, at("rounds", day, pair, ms))
		}
		check(want)
	}
}

func testManyEntries(t *testing.T, b Backend) {
	s, ctx := b.open(t, 1), t.Context()
	w := newWriter(t, s, 0)
	const n = 9_000
	other := store.Set{List: "articles", Name: "published"}
	c := store.Commit{
		Producers: map[string]uint64{},
		Items:     map[string]map[string]store.Item{"articles": {}},
		Scores:    map[store.Set]map[string]store.Tally{board: {}, other: {}},
		Totals:    map[store.Set]store.Totals{},
		Visitors:  map[store.Set][]uint64{},
	}
	want := store.Want{Items: map[string][]string{}, Scores: map[store.Set][]string{}}
	var items []string
	for i := range n {
		item := fmt.Sprint("item", i)
		items = append(items, item)
		c.Items["articles"][item] = store.Item{First: int64(i)}
		c.Scores[board][item] = store.Tally{Score: float64(i), Uniques: int64(i)}
		c.Scores[other][item] = store.Tally{Score: float64(-i)}
		seen := store.Seen{List: "articles", Day: 86400, Pair: uint64(i) * 0x9e3779b97f4a7c15}
		c.Seen = append(c.Seen, store.SeenAt{Seen: seen, Time: 86400_000 + int64(i)})
		want.Seen = append(want.Seen, seen)
		c.Visitors[board] = append(c.Visitors[board], seen.Pair)
		if i < 500 {
			set := store.Set{List: "articles", Name: fmt.Sprint("set", i)}
			c.Totals[set] = store.Totals{Views: int64(i)}
			want.Totals = append(want.Totals, set)
			c.Producers[fmt.Sprint("edge", i)] = uint64(i) + 1
		}
	}
	want.Items["articles"] = items
	want.Scores[board], want.Scores[other] = items, items
	w.commit(c)
	have := w.read(want)
	for i, item := range items {
		if have.Seen[i] != c.Seen[i].Time || have.Items["articles"][i] != c.Items["articles"][item] ||
			have.Scores[board][i] != c.Scores[board][item] || have.Scores[other][i] != c.Scores[other][item] {
			t.Fatalf("item %d is not as it was written", i)
		}
	}
	for i, set := range want.Totals {
		equal(t, set.Name, have.Totals[i], c.Totals[set])
	}
	equal(t, "producers", must[store.State](t)(s.Load(ctx, 0)).Producers, c.Producers)
	equal(t, "size", must[int64](t)(s.Size(ctx, other)), int64(n))
	top := must[[][]store.Entry](t)(s.Top(ctx, board, n))[0]
	equal(t, "length of the top", len(top), n)
	for i, e := range top {
		if want := int64(n - 1 - i); e.Score != float64(want) || e.Uniques != want {
			t.Fatalf("place %d is %+v", i, e)
		}
	}
	tallies := must[[]*store.Tally](t)(s.Scores(ctx, board, items))
	records := must[[]*store.Item](t)(s.Items(ctx, "articles", items))
	for i := range items {
		if tallies[i] == nil || tallies[i].Uniques != int64(i) || records[i] == nil || records[i].First != int64(i) {
			t.Fatalf("item %d is not as it was written", i)
		}
	}
	w.commit(store.Commit{Drop: []store.Set{board, other}})
	equal(t, "size after the drop", must[int64](t)(s.Size(ctx, board)), int64(0))
}
