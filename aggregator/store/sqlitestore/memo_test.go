package sqlitestore

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// memoTest is a store with a clock that the test moves.
type memoTest struct {
	*testing.T
	s   *Store
	now time.Time
	at  store.Position
}

func newMemoTest(t *testing.T, keep time.Duration) *memoTest {
	s, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "counts.db"), MemoKeep: keep})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // nothing is kept
	mt := &memoTest{T: t, s: s, now: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)}
	s.now = func() time.Time { return mt.now }
	return mt
}

func (t *memoTest) commit(memos ...store.Memo) {
	t.Helper()
	c := &store.Commit{From: t.at, To: store.Position{Seq: t.at.Seq + 1}}
	for _, m := range memos {
		c.Memos = append(c.Memos, store.MemoValue{Memo: m, Value: 1})
	}
	if err := t.s.Commit(t.Context(), 0, c); err != nil {
		t.Fatal(err)
	}
	t.at = c.To
}

// rows returns the number of memos of the term that begins at start.
func (t *memoTest) rows(term calendar.Period, start int64) (terms, memos int) {
	t.Helper()
	err := t.s.file.Load().reader.QueryRow("SELECT count(DISTINCT term.id), count(memo.key) FROM term LEFT JOIN memo ON term_id = id WHERE term = ? AND start = ?", termNumbers[term], start).
		Scan(&terms, &memos)
	if err != nil {
		t.Fatal(err)
	}
	return terms, memos
}

func memo(term calendar.Period, start int64, key uint64) store.Memo {
	return store.Memo{List: "articles", Term: term, Start: start, Key: key}
}

// TestMemosAreTidied moves the clock on and expects days without recent writes to
// go, a part at a time, and no others.
func TestMemosAreTidied(t *testing.T) {
	t.Parallel()
	mt := newMemoTest(t, 0)
	const (
		old   = 86400 * 100 // an import of long ago
		fresh = 86400 * 200
		keys  = 2*pruneRows + 10
	)
	var memos []store.Memo
	for i := range uint64(keys) {
		memos = append(memos, memo(calendar.Day, old, i*0x9e3779b97f4a7c15))
	}
	mt.commit(memos...)
	for range 9 { // written to every day: kept, however old the hits are
		mt.now = mt.now.Add(24 * time.Hour)
		mt.commit(memo(calendar.Day, old, 1), memo(calendar.Day, fresh, 1))
	}
	if _, got := mt.rows(calendar.Day, old); got != keys+1 {
		t.Fatalf("%d memos of the day that is written to, want %d", got, keys+1)
	}
	for range 10 {
		mt.now = mt.now.Add(24 * time.Hour)
		mt.commit(memo(calendar.Day, fresh, 1))
	}
	for want := keys + 1 - pruneRows; want > 0; want -= pruneRows {
		if _, got := mt.rows(calendar.Day, old); got != want {
			t.Fatalf("%d memos left, want %d", got, want)
		}
		mt.commit(memo(calendar.Day, fresh, 1))
	}
	if terms, got := mt.rows(calendar.Day, old); terms != 0 || got != 0 {
		t.Errorf("%d terms and %d memos left, want none", terms, got)
	}
	if _, got := mt.rows(calendar.Day, fresh); got != 1 {
		t.Errorf("%d memos of the other day, want 1", got)
	}
	// A removed day can come back.
	mt.commit(memo(calendar.Day, old, 7))
	if terms, got := mt.rows(calendar.Day, old); terms != 1 || got != 1 {
		t.Errorf("%d terms and %d memos of a day that came back, want 1 and 1", terms, got)
	}
}

// TestHowLongMemosLive checks the lifetime of every term.
func TestHowLongMemosLive(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, tt := range []struct {
		term calendar.Period
		keep time.Duration
		days int
	}{
		{calendar.Day, 0, 9}, {calendar.Week, 0, 15}, {calendar.Month, 0, 39}, {calendar.All, 0, 0}, {calendar.Day, 20 * day, 21},
	} {
		term, days := tt.term, tt.days
		mt := newMemoTest(t, tt.keep)
		mt.commit(memo(term, 86400, 1))
		look := func(after time.Duration) int {
			mt.now = mt.now.Add(after)
			mt.commit() // tidies
			_, memos := mt.rows(term, 86400)
			return memos
		}
		if days == 0 {
			if look(10000*day) != 1 {
				t.Error("what is kept for ever has gone")
			}
			continue
		}
		if look(time.Duration(days)*day-time.Hour) != 1 {
			t.Errorf("a memo of a term %s has gone before %d days", term, days)
		}
		if look(2*time.Hour) != 0 {
			t.Errorf("a memo of a term %s is there after %d days", term, days)
		}
	}
}
