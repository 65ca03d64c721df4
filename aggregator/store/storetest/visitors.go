package storetest

import (
	"math"
	"testing"

	"github.com/hotboard/hotboard/aggregator/store"
)

func testVisitors(t *testing.T, b Backend) {
	const shards = 4
	s, ctx := b.open(t, shards), t.Context()
	writers := make([]*writer, shards)
	for i := range writers {
		writers[i] = newWriter(t, s, i)
	}
	add := func(shard int, name string, visitors []uint64) {
		t.Helper()
		writers[shard].commit(store.Commit{Visitors: map[store.Set][]uint64{{List: "articles", Name: name}: visitors}})
	}
	near := func(name string, want int64, tolerance float64) {
		t.Helper()
		got := must[int64](t)(s.Visitors(ctx, store.Set{List: "articles", Name: name}))
		if math.Abs(float64(got-want)) > tolerance*float64(want) {
			t.Errorf("%s: %d visitors, want %d within %g %%", name, got, want, tolerance*100)
		}
	}
	visitors := func(from, to int) (v []uint64) {
		for i := from; i < to; i++ {
			v = append(v, uint64(i)*0x9e3779b97f4a7c15+1)
		}
		return v
	}
	add(0, "few", visitors(0, 10))
	add(0, "few", visitors(0, 10))
	near("few", 10, 0)
	add(1, "few", visitors(5, 15))
	near("few", 15, 0)
	add(2, "few", nil)
	near("few", 15, 0)

	// 10,000 in one shard, in several commits that overlap.
	for i := range 10 {
		add(0, "one shard", visitors(i*1000, i*1000+1000))
		add(0, "one shard", visitors(i*500, i*500+700))
	}
	near("one shard", 10_000, 0.02)

	// 10,000 over the shards, a quarter of them in two shards.
	for i := range shards {
		add(i, "all shards", visitors(i*2500, i*2500+3125))
	}
	near("all shards", 10_625, 0.02)
	near("one shard", 10_000, 0.02)

	sequential := make([]uint64, 10_000) // not hashed: the store must mix by itself
	for i := range sequential {
		sequential[i] = uint64(i)
	}
	add(3, "sequential", sequential)
	near("sequential", 10_000, 0.02)
}

func testReopen(t *testing.T, b Backend) {
	if b.Reopen == nil {
		t.Skip("this store ends with the process")
	}
	s, ctx := b.open(t, 2), t.Context()
	w := newWriter(t, s, 1)
	for i := range int64(5) {
		w.commit(*everything(store.Position{}, i))
	}
	w.scores(scored, map[string]float64{"a": 1.5})
	before := must[store.State](t)(s.Load(ctx, 1))

	s = b.Reopen(t, s)
	t.Cleanup(func() { _ = s.Close() }) // Reopen has closed the store that b.open will close
	w.s = s
	equal(t, "shards", s.Shards(), 2)
	equal(t, "state", must[store.State](t)(s.Load(ctx, 1)), before)
	equal(t, "an edge's sequences", must[map[int]uint64](t)(s.Applied(ctx, "everything")), map[int]uint64{1: 4})
	set := store.Set{List: "everything", Name: "set"}
	have := w.read(store.Want{
		Memos:  []store.Memo{everyMemo(1), everyMemo(2)},
		Items:  map[string][]string{"everything": {"item"}},
		Scores: map[store.Set][]string{scored: {"a"}, set: {"item"}},
		Totals: []store.Set{set},
	})
	equal(t, "what was written", have, &store.Have{
		Position: w.at,
		Memos:    []int64{4, store.NoMemo},
		Items:    map[string][]store.Item{"everything": {{First: 4, Last: 4}}},
		Scores:   map[store.Set][]store.Tally{scored: {{Score: 1.5}}, set: {{Score: 4, Uniques: 4}}},
		Totals:   []store.Totals{{Views: 4}},
		Whole:    map[store.Set][]store.Entry{},
	})
	equal(t, "visitors", must[int64](t)(s.Visitors(ctx, set)), int64(5))
	w.commit(*everything(store.Position{}, 9))
	equal(t, "visitors", must[int64](t)(s.Visitors(ctx, set)), int64(6))
	equal(t, "memo", w.read(store.Want{Memos: []store.Memo{everyMemo(1)}}).Memos, []int64{9})
}

func testClosed(t *testing.T, b Backend) {
	s, ctx := b.open(t, 1), t.Context()
	for i := range 2 {
		if err := s.Close(); err != nil {
			t.Fatalf("close number %d: %v", i+1, err)
		}
	}
	if err := s.Ping(ctx); err == nil {
		t.Error("a closed store says that it can be used")
	}
	if _, err := s.Load(ctx, 0); err == nil {
		t.Error("a closed store was loaded")
	}
	if err := s.Commit(ctx, 0, &store.Commit{To: store.Position{Seq: 1}}); err == nil {
		t.Error("a closed store was written")
	}
}
