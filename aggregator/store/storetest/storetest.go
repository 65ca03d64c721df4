// Package storetest is the conformance suite for every store.Store, so that a small
// site and a large one count alike.
package storetest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
)

// Backend is a kind of store under test.
type Backend struct {
	// Open returns a new, empty store that nothing else uses. The suite closes it.
	Open func(t testing.TB, shards int) store.Store
	// Reopen closes a store from Open and opens it again with the same data. Nil for a
	// store that ends with the process.
	Reopen func(t testing.TB, s store.Store) store.Store
	// Share opens the data of a store from Open once more, like another process. Nil
	// for a store that only one process can open.
	Share func(t testing.TB, s store.Store) store.Store
}

// Run checks the whole contract.
func Run(t *testing.T, b Backend) {
	for _, tt := range []struct {
		name string
		test func(*testing.T, Backend)
	}{
		{"Empty", testEmpty},
		{"State", testState},
		{"InForce", testInForce},
		{"Conflict", testConflict},
		{"ConcurrentCommitters", testConcurrentCommitters},
		{"AllOrNothing", testAllOrNothing},
		{"AbsoluteValues", testAbsoluteValues},
		{"ReadOrder", testReadOrder},
		{"ShardsAreApart", testShardsAreApart},
		{"ShardOfVotes", testShardOfVotes},
		{"UnknownShard", testUnknownShard},
		{"Top", testTop},
		{"AboveAndNext", testAboveAndNext},
		{"Views", testViews},
		{"IDs", testIDs},
		{"Floats", testFloats},
		{"Scale", testScale},
		{"Drop", testDrop},
		{"Whole", testWhole},
		{"Memos", testMemos},
		{"Losses", testLosses},
		{"ManyEntries", testManyEntries},
		{"Visitors", testVisitors},
		{"Leases", testLeases},
		{"Members", testMembers},
		{"Reopen", testReopen},
		{"Closed", testClosed},
		{"RandomCommits", testRandomCommits},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.test(t, b)
		})
	}
}

// open returns an empty store that is closed when the test ends.
func (b Backend) open(t testing.TB, shards int) store.Store {
	t.Helper()
	s := b.Open(t, shards)
	t.Cleanup(func() { _ = s.Close() }) // a test may have closed it
	if got := s.Shards(); got != shards {
		t.Fatalf("Shards() = %d, want %d", got, shards)
	}
	return s
}

// writer commits to one shard and advances its position by one each time.
type writer struct {
	t     testing.TB
	s     store.Store
	shard int
	at    store.Position
}

func newWriter(t testing.TB, s store.Store, shard int) *writer {
	return &writer{t: t, s: s, shard: shard}
}

// commit fills in the positions of c and writes it.
func (w *writer) commit(c store.Commit) {
	w.t.Helper()
	c.From = w.at
	c.To = store.Position{Seq: w.at.Seq + 1, Fingerprint: w.at.Fingerprint*31 + 7}
	if err := w.s.Commit(w.t.Context(), w.shard, &c); err != nil {
		w.t.Fatalf("commit from %d: %v", c.From.Seq, err)
	}
	w.at = c.To
}

// scores writes the score of each item of a set.
func (w *writer) scores(set store.Set, scores map[string]float64) {
	w.t.Helper()
	tallies := make(map[string]store.Tally, len(scores))
	for item, score := range scores {
		tallies[item] = store.Tally{Score: score}
	}
	w.commit(store.Commit{Scores: map[store.Set]map[string]store.Tally{set: tallies}})
}

// read returns values of the writer's shard.
func (w *writer) read(want store.Want) *store.Have {
	w.t.Helper()
	have, err := w.s.Read(w.t.Context(), w.shard, &want)
	if err != nil {
		w.t.Fatal(err)
	}
	if have.Position != w.at {
		w.t.Fatalf("read at %+v, the shard is at %+v", have.Position, w.at)
	}
	return have
}

// itemIn returns the n-th item name of a shard.
func itemIn(list string, shard, shards, n int) string {
	for i := 0; ; i++ {
		item := fmt.Sprintf("item-%d", i)
		if hit.Shard(hit.View, list, item, shards) != shard {
			continue
		}
		if n == 0 {
			return item
		}
		n--
	}
}

// equal fails the test unless got is want.
func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// must returns v, or ends the test.
func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func wantConflict(t testing.TB, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrConflict) {
		t.Fatalf("commit returned %v, want ErrConflict", err)
	}
}
