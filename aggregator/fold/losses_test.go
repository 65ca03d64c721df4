package fold

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/memstore"
)

// The losses of an edge add up until an operator acknowledges them.
func TestLossesAddUp(t *testing.T) {
	t.Parallel()
	s := memstore.New(2)
	f := &Folder{Store: s}
	at := store.Position{}
	for i, step := range []struct {
		lost []Gap
		want []store.Loss
	}{
		{nil, nil},
		{[]Gap{{"a", 3, 5}, {"a", 9, 9}}, []store.Loss{{Shard: 1, Edge: "a", From: 3, To: 9, Batches: 4}}},
		{[]Gap{{"a", 1, 1}}, []store.Loss{{Shard: 1, Edge: "a", From: 1, To: 9, Batches: 5}}},
		{[]Gap{{"b", 1, 2}}, []store.Loss{{Shard: 1, Edge: "b", From: 1, To: 2, Batches: 2}}},
	} {
		got, err := f.losses(t.Context(), 1, step.lost)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
		to := store.Position{Seq: uint64(i) + 1}
		if err := s.Commit(t.Context(), 1, &store.Commit{From: at, To: to, Losses: got}); err != nil {
			t.Fatal(err)
		}
		at = to
	}
	if got, err := f.losses(t.Context(), 0, []Gap{{"a", 7, 7}}); err != nil || len(got) != 1 || got[0] != (store.Loss{Edge: "a", From: 7, To: 7, Batches: 1}) {
		t.Errorf("another shard: %+v, %v", got, err)
	}
	if _, err := s.Acknowledge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := f.losses(t.Context(), 1, []Gap{{"a", 11, 12}}); err != nil || len(got) != 1 || got[0].From != 11 || got[0].Batches != 2 {
		t.Errorf("after it was acknowledged: %+v, %v", got, err)
	}
}
