package sqlitestore_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/sqlitestore"
	"github.com/hotboard/hotboard/aggregator/store/storetest"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

func open(t testing.TB, path string, shards int) *sqlitestore.Store {
	t.Helper()
	s, err := sqlitestore.Open(context.Background(), sqlitestore.Options{Path: path, Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // a test may have closed it
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	var paths sync.Map // store → its file
	storetest.Run(t, storetest.Backend{
		Open: func(t testing.TB, shards int) store.Store {
			t.Helper()
			path := filepath.Join(t.TempDir(), "counts.db")
			s := open(t, path, shards)
			paths.Store(s, path)
			return s
		},
		Reopen: func(t testing.TB, s store.Store) store.Store {
			t.Helper()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			path, _ := paths.Load(s)
			return open(t, path.(string), s.Shards())
		},
	})
}

// TestFailedCommit fails a commit at its last statement.
func TestFailedCommit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "counts.db")
	s := open(t, path, 1)
	other, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() }) // only creates the trigger
	exec := func(text string) {
		t.Helper()
		if _, err := other.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	commit := func(seq uint64) error {
		return s.Commit(t.Context(), 0, &store.Commit{
			From: store.Position{Seq: seq - 1}, To: store.Position{Seq: seq},
			Memos:    []store.MemoValue{{Memo: store.Memo{List: "articles", Term: calendar.Day, Key: seq}, Value: uint32(seq)}},
			Items:    map[string]map[string]store.Item{"articles": {fmt.Sprint("item", seq): {First: int64(seq)}}},
			Scores:   map[store.Set]map[string]store.Tally{all: {fmt.Sprint("item", seq): {Views: int64(seq)}}},
			Visitors: map[store.Set][]uint64{all: {seq}},
		})
	}
	exec("CREATE TRIGGER boom BEFORE INSERT ON shard BEGIN SELECT RAISE(ABORT, 'boom'); END")
	if err := commit(1); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Fatalf("commit returned %v, want boom", err)
	}
	exec("DROP TRIGGER boom")
	for _, table := range []string{"shard", "list", "item", "record", "board", "entry", "visitors", "term", "memo"} {
		var n int
		if err := other.QueryRow("SELECT count(*) FROM " + table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n != 0 {
			t.Errorf("%d rows in %s after a commit that failed", n, table)
		}
	}
	// The failed commit's values in memory are gone too.
	if err := commit(1); err != nil {
		t.Fatal(err)
	}
	if err := commit(2); err != nil {
		t.Fatal(err)
	}
	top, err := s.Top(t.Context(), all, 10)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]store.Entry{{{Item: "item2", Tally: store.Tally{Views: 2}}, {Item: "item1", Tally: store.Tally{Views: 1}}}}, top); diff != "" {
		t.Errorf("top (-want +got):\n%s", diff)
	}
}

// More readers than connections, all with unprepared statements, must not wait for
// each other.
func TestManyFirstReaders(t *testing.T) {
	t.Parallel()
	for range 20 {
		s, err := sqlitestore.Open(t.Context(), sqlitestore.Options{Path: filepath.Join(t.TempDir(), "counts.db")})
		if err != nil {
			t.Fatal(err)
		}
		set := store.Set{List: "a", Name: "all"}
		reads := []func() error{
			func() error { _, err := s.Top(t.Context(), set, 10); return err },
			func() error { _, err := s.Items(t.Context(), hit.View, "a", []string{"x"}); return err },
			func() error { _, err := s.Totals(t.Context(), []store.Set{set}); return err },
			func() error { _, err := s.Load(t.Context(), 0); return err },
		}
		var wg sync.WaitGroup
		begin := make(chan struct{})
		for i := range 4 * len(reads) {
			wg.Go(func() {
				<-begin
				if err := reads[i%len(reads)](); err != nil {
					t.Error(err)
				}
			})
		}
		close(begin)
		wg.Wait()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
