package sqlitestore

import (
	"database/sql"
	"math"
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
)

// Remembered visits go seenKeep after their day was last written to, by this
// machine's clock: longer than the log goes back. Hits of years ago that are
// imported today are remembered just as long, so that an import counts
// duplicates like any other.
const (
	seenKeep   = 8 * 24 * time.Hour
	touchEvery = time.Hour
	pruneEvery = 10 * time.Minute
	// pruneRows bounds what one commit removes, and so how much longer it takes.
	pruneRows = 5000
)

// seenDay is a day of a list.
type seenDay struct {
	list int64 // row of the list
	day  int64 // seconds since the Unix epoch
}

// seen writes the times of pairs, and returns the days that it marked as
// written to.
func (w *write) seen(seen []store.SeenAt, t *tidy, now time.Time) ([]seenDay, error) {
	lists := make([]int64, len(seen))
	var touched []seenDay
	marked := map[seenDay]bool{}
	for i := range seen {
		var err error
		if lists[i], err = w.list(seen[i].List); err != nil {
			return nil, err
		}
		d := seenDay{lists[i], seen[i].Day}
		if marked[d] {
			continue
		}
		marked[d] = true
		if now.Sub(t.touched[d]) < touchEvery {
			continue
		}
		err = w.exec("INSERT INTO seen_day (list_id, day, touched) VALUES (?, ?, ?) ON CONFLICT (list_id, day) DO UPDATE SET touched = excluded.touched",
			d.list, d.day, now.UnixMilli())
		if err != nil {
			return nil, err
		}
		touched = append(touched, d)
	}
	return touched, w.insert("INSERT INTO seen (list_id, day, pair, at) VALUES ON CONFLICT (list_id, day, pair) DO UPDATE SET at = excluded.at",
		4, len(seen), func(args []any, i int) []any {
			return append(args, lists[i], seen[i].Day, int64(seen[i].Pair), seen[i].Time-seen[i].Day*1000)
		})
}

// readSeen fills in when pairs were seen.
func readSeen(se *session, shard int, want []store.Seen, at []int64) error {
	type day struct {
		list string
		day  int64
	}
	byDay := map[day][]int{}
	for i := range want {
		at[i] = store.NotSeen
		d := day{want[i].List, want[i].Day}
		byDay[d] = append(byDay[d], i)
	}
	for d, indexes := range byDay {
		list, ok, err := findList(se, shard, d.list)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		found := map[uint64]int64{}
		err = se.in("SELECT pair, at FROM seen WHERE list_id = ? AND day = ? AND pair IN", []any{list, d.day}, len(indexes),
			func(i int) any { return int64(want[indexes[i]].Pair) },
			func(r *sql.Rows) error {
				var pair, ms int64
				err := r.Scan(&pair, &ms)
				found[uint64(pair)] = d.day*1000 + ms
				return err
			})
		if err != nil {
			return err
		}
		for _, i := range indexes {
			if ms, ok := found[want[i].Pair]; ok {
				at[i] = ms
			}
		}
	}
	return nil
}

// tidy removes the days of seen that nobody has written to for long, a part
// with each commit.
type tidy struct {
	touched map[seenDay]time.Time // what seen_day says, as far as this process wrote it
	next    time.Time
}

// committed notes the days that a commit, which has gone through, marked.
func (t *tidy) committed(days []seenDay, now time.Time) {
	for _, d := range days {
		t.touched[d] = now
	}
}

func (t *tidy) prune(se *session, now time.Time) error {
	if now.Before(t.next) {
		return nil
	}
	var d seenDay
	found, err := se.one("SELECT list_id, day FROM seen_day WHERE touched < ? LIMIT 1", []any{now.Add(-seenKeep).UnixMilli()}, &d.list, &d.day)
	if err != nil {
		return err
	}
	if !found {
		t.next = now.Add(pruneEvery)
		return nil
	}
	n, err := se.affected("DELETE FROM seen WHERE list_id = ?1 AND day = ?2 AND pair <= "+
		"coalesce((SELECT pair FROM seen WHERE list_id = ?1 AND day = ?2 ORDER BY pair LIMIT 1 OFFSET ?3), ?4)",
		d.list, d.day, pruneRows-1, int64(math.MaxInt64))
	if err != nil || n == pruneRows {
		return err // there may be more: the next commit goes on
	}
	delete(t.touched, d)
	return se.exec("DELETE FROM seen_day WHERE list_id = ? AND day = ?", d.list, d.day)
}
