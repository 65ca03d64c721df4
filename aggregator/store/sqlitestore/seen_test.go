package sqlitestore

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
)

// TestSeenIsTidied moves the clock on and expects the days that nobody writes to
// any more to go, a part at a time, and no others.
func TestSeenIsTidied(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "counts.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // nothing is kept
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	s.now = func() time.Time { return now }

	const (
		old   = 86400 * 100 // an import of long ago
		fresh = 86400 * 200
		pairs = 2*pruneRows + 10
	)
	at := store.Position{}
	commit := func(seen ...store.SeenAt) {
		t.Helper()
		c := &store.Commit{From: at, To: store.Position{Seq: at.Seq + 1}, Seen: seen}
		if err := s.Commit(t.Context(), 0, c); err != nil {
			t.Fatal(err)
		}
		at = c.To
	}
	seenOn := func(day int64, pair uint64) store.SeenAt {
		return store.SeenAt{Seen: store.Seen{List: "articles", Day: day, Pair: pair}, Time: day * 1000}
	}
	rows := func(table string, day int64) (n int) {
		t.Helper()
		if err := s.reader.QueryRow("SELECT count(*) FROM "+table+" WHERE day = ?", day).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	var seen []store.SeenAt
	for i := range uint64(pairs) {
		seen = append(seen, seenOn(old, i*0x9e3779b97f4a7c15))
	}
	commit(seen...)
	for range 8 { // written to every day: kept, however old the hits are
		now = now.Add(24 * time.Hour)
		commit(seenOn(old, 1), seenOn(fresh, 1))
	}
	if got := rows("seen", old); got != pairs+1 {
		t.Fatalf("%d pairs of the day that is written to, want %d", got, pairs+1)
	}
	for range 9 {
		now = now.Add(24 * time.Hour)
		commit(seenOn(fresh, 1))
	}
	for want := pairs + 1 - pruneRows; want > 0; want -= pruneRows {
		if got := rows("seen", old); got != want {
			t.Fatalf("%d pairs left, want %d", got, want)
		}
		commit(seenOn(fresh, 1))
	}
	for table, want := range map[string]int{"seen": 0, "seen_day": 0} {
		if got := rows(table, old); got != want {
			t.Errorf("%d rows of %s left, want %d", got, table, want)
		}
	}
	if got := rows("seen", fresh); got != 1 {
		t.Errorf("%d pairs of the other day, want 1", got)
	}
}
