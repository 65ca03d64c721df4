package storetest

import (
	"math"
	"slices"
	"testing"

	"github.com/hotboard/hotboard/aggregator/store"
)

func testLosses(t *testing.T, b Backend) {
	s, ctx := b.open(t, 3), t.Context()
	losses := func() []store.Loss { return must[[]store.Loss](t)(s.Losses(ctx)) }
	zero, two := newWriter(t, s, 0), newWriter(t, s, 2)
	two.commit(store.Commit{Losses: []store.Loss{
		{Shard: 2, Edge: "b", From: 1, To: math.MaxUint64, Batches: math.MaxUint64},
		{Shard: 2, From: 1, To: 41},
	}})
	zero.commit(store.Commit{Losses: []store.Loss{{Edge: "a", From: 3, To: 9, Batches: 5}}})
	zero.commit(store.Commit{}) // leaves losses alone
	want := []store.Loss{
		{Shard: 0, Edge: "a", From: 3, To: 9, Batches: 5},
		{Shard: 2, From: 1, To: 41},
		{Shard: 2, Edge: "b", From: 1, To: math.MaxUint64, Batches: math.MaxUint64},
	}
	equal(t, "losses", losses(), want)
	zero.commit(store.Commit{Losses: []store.Loss{{Edge: "a", From: 1, To: 9, Batches: 7}}})
	want[0].From, want[0].Batches = 1, 7
	other := s
	if b.Share != nil {
		other = b.Share(t, s)
		t.Cleanup(func() { _ = other.Close() })
		equal(t, "losses in another process", must[[]store.Loss](t)(other.Losses(ctx)), want)
	}
	equal(t, "acknowledged", must[[]store.Loss](t)(other.Acknowledge(ctx)), want)
	equal(t, "losses that are acknowledged", len(losses()), 0)
	equal(t, "acknowledged twice", len(must[[]store.Loss](t)(s.Acknowledge(ctx))), 0)
	zero.commit(store.Commit{Losses: slices.Clone(want[:1])})
	equal(t, "losses after that", losses(), want[:1])
	if b.Reopen != nil {
		s = b.Reopen(t, s)
		t.Cleanup(func() { _ = s.Close() })
		equal(t, "losses in the next process", losses(), want[:1])
	}
}
