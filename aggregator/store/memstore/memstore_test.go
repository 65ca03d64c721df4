package memstore_test

import (
	"context"
	"testing"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/memstore"
	"github.com/hotboard/hotboard/aggregator/store/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Backend{
		Open: func(_ testing.TB, shards int) store.Store { return memstore.New(shards) },
	})
}

func TestSnapshotIsACopy(t *testing.T) {
	t.Parallel()
	s, set := memstore.New(1), store.Set{List: "articles", Name: "all"}
	write := func(from, to uint64, views int64) {
		t.Helper()
		err := s.Commit(context.Background(), 0, &store.Commit{
			From: store.Position{Seq: from}, To: store.Position{Seq: to}, Edges: map[string]uint64{"edge": to},
			Scores: map[store.Set]map[string]store.Tally{set: {"a": {Views: views}}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	write(0, 1, 10)
	snap := s.Snapshot()
	for range 2 { // a snapshot can be restored more than once
		write(1, 2, 20)
		s.Restore(snap)
		state, err := s.Load(context.Background(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if state.Position.Seq != 1 || state.Edges["edge"] != 1 {
			t.Errorf("restored to %+v", state)
		}
		top, err := s.Top(context.Background(), set, 1)
		if err != nil {
			t.Fatal(err)
		}
		if top[0][0].Views != 10 {
			t.Errorf("restored %d views, want 10", top[0][0].Views)
		}
	}
}
