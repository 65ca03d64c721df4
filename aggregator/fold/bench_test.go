package fold_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/hotboard/hotboard/aggregator/fold"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// empty is a store without values and without cost.
type empty struct{ store.Store }

func (empty) Shards() int { return 1 }

func (empty) Read(_ context.Context, _ int, w *store.Want) (*store.Have, error) {
	h := &store.Have{
		Memos: make([]int64, len(w.Memos)), Items: map[string][]store.Item{}, Scores: map[store.Set][]store.Tally{},
		Totals: make([]store.Totals, len(w.Totals)),
	}
	for i := range h.Memos {
		h.Memos[i] = store.NoMemo
	}
	for list, items := range w.Items {
		h.Items[list] = make([]store.Item, len(items))
	}
	for set, items := range w.Scores {
		h.Scores[set] = make([]store.Tally, len(items))
	}
	return h, nil
}

// BenchmarkFold measures the rules alone: one commit's worth of hits of one shard,
// Zipf over 1,250 items, without a store.
func BenchmarkFold(b *testing.B) {
	rules := ruleset.MustCompile(ruleset.Config{Lists: []*ruleset.ListConfig{{Name: "a"}}})
	rng := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(rng, 1.1, 10, 1249)
	var msgs []fold.Message
	const n = 32
	for i := range n {
		batch := &hit.Batch{Edge: "e", Seq: uint64(i + 1)}
		for range hit.MaxHits {
			batch.Hits = append(batch.Hits, view("article-"+strconv.FormatUint(zipf.Uint64(), 10), uint64(rng.IntN(300000)), t0.Add(time.Duration(i)*time.Second)))
		}
		msgs = append(msgs, fold.Message{Seq: uint64(i + 1), Received: t0, Subject: hit.Subject(0, "e"), Edge: "e", BatchSeq: uint64(i + 1), LastSeq: uint64(i + 1), Low: 1, Batches: []*hit.Batch{batch}})
	}
	f := &fold.Folder{Rules: func(context.Context, hit.RulesID) (*ruleset.Rules, error) { return rules, nil }, Store: empty{}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Fold(b.Context(), 0, store.State{}, msgs); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n*hit.MaxHits), "ns/hit")
}
