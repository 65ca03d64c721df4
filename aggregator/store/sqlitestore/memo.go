package sqlitestore

import (
	"database/sql"
	"maps"
	"math"
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// Memos are removed some time after the end of their term, counted from the last
// write to the term, a part with each commit.
const (
	touchEvery = time.Hour
	pruneEvery = 10 * time.Minute
	// pruneRows bounds the rows that one commit removes, and so its extra time.
	pruneRows = 5000
)

// termNumbers has the number of each term in the file. They must not change.
var termNumbers = map[calendar.Period]int64{calendar.Day: 1, calendar.Week: 2, calendar.Month: 3, calendar.All: 4}

// termKey identifies a term of a list.
type termKey struct {
	list  int64 // row of the list
	term  calendar.Period
	start int64 // seconds since the Unix epoch
}

// terms caches the rows of the terms that recent folds touched. Guarded by
// Store.mu.
type terms struct {
	keep  time.Duration // Options.MemoKeep
	known map[termKey]termRow
	next  time.Time // when to look again for memos to remove
}

// termRow is a row of the table term.
type termRow struct {
	id      int64
	touched time.Time // when this process last extended its time
}

// committed takes in committed rows.
func (t *terms) committed(rows map[termKey]termRow) {
	for k, r := range rows {
		t.known[k] = r
	}
}

// term returns the row of a term, creates it if missing, and extends its time once
// in a while.
func (w *write) term(t *terms, k termKey, now time.Time) (int64, error) {
	if r, ok := w.terms[k]; ok {
		return r.id, nil
	}
	r, known := t.known[k]
	if !known || now.Sub(r.touched) >= touchEvery {
		var expires any // NULL
		if keep := k.term.Keep(t.keep); keep > 0 {
			expires = now.Add(keep).UnixMilli()
		}
		_, err := w.one("INSERT INTO term (list_id, term, start, expires) VALUES (?, ?, ?, ?) "+
			"ON CONFLICT (list_id, term, start) DO UPDATE SET expires = excluded.expires RETURNING id",
			[]any{k.list, termNumbers[k.term], k.start, expires}, &r.id)
		if err != nil {
			return 0, err
		}
		r.touched = now
	}
	w.terms[k] = r
	return r.id, nil
}

// memos writes memos.
func (w *write) memos(memos []store.MemoValue, t *terms, now time.Time) error {
	ids := make([]int64, len(memos))
	for i := range memos {
		m := &memos[i]
		list, err := w.list(m.List)
		if err != nil {
			return err
		}
		if ids[i], err = w.term(t, termKey{list, m.Term, m.Start}, now); err != nil {
			return err
		}
	}
	return w.insert("INSERT INTO memo (term_id, key, value) VALUES ON CONFLICT (term_id, key) DO UPDATE SET value = excluded.value",
		3, len(memos), func(args []any, i int) []any {
			return append(args, ids[i], int64(memos[i].Key), int64(memos[i].Value))
		})
}

// readMemos fills in the values of memos.
func readMemos(se *session, shard int, want []store.Memo, values []int64) error {
	type termOf struct {
		list  string
		term  calendar.Period
		start int64
	}
	byTerm := map[termOf][]int{}
	for i := range want {
		values[i] = store.NoMemo
		t := termOf{want[i].List, want[i].Term, want[i].Start}
		byTerm[t] = append(byTerm[t], i)
	}
	for t, indexes := range byTerm {
		var id int64
		found, err := se.one("SELECT term.id FROM list JOIN term ON list_id = list.id WHERE shard = ? AND name = ? AND term = ? AND start = ?",
			[]any{shard, t.list, termNumbers[t.term], t.start}, &id)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		have := make(map[uint64]int64, len(indexes))
		err = se.in("SELECT key, value FROM memo WHERE term_id = ? AND key IN", []any{id}, len(indexes),
			func(i int) any { return int64(want[indexes[i]].Key) },
			func(r *sql.Rows) error {
				var key, value int64
				err := r.Scan(&key, &value)
				have[uint64(key)] = value
				return err
			})
		if err != nil {
			return err
		}
		for _, i := range indexes {
			if v, ok := have[want[i].Key]; ok {
				values[i] = v
			}
		}
	}
	return nil
}

// prune removes memos that are no longer needed.
func (t *terms) prune(se *session, now time.Time) error {
	if now.Before(t.next) {
		return nil
	}
	var id int64
	found, err := se.one("SELECT id FROM term WHERE expires < ? LIMIT 1", []any{now.UnixMilli()}, &id)
	if err != nil {
		return err
	}
	if !found {
		t.next = now.Add(pruneEvery)
		return nil
	}
	// Forgotten whether this is committed or not: the next use reads it again.
	maps.DeleteFunc(t.known, func(_ termKey, r termRow) bool { return r.id == id })
	n, err := se.affected("DELETE FROM memo WHERE term_id = ?1 AND key <= "+
		"coalesce((SELECT key FROM memo WHERE term_id = ?1 ORDER BY key LIMIT 1 OFFSET ?2), ?3)",
		id, pruneRows-1, int64(math.MaxInt64))
	if err != nil || n == pruneRows {
		return err // there may be more, for the next commit
	}
	return se.exec("DELETE FROM term WHERE id = ?", id)
}
