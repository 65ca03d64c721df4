package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/hotboard/hotboard/aggregator/store"
)

// Read implements [store.Store]. It uses the writing connection, whose cache holds
// the pages of the last commit; every other cache starts empty after each commit.
func (s *Store) Read(ctx context.Context, n int, want *store.Want) (*store.Have, error) {
	if err := s.checkShard(n); err != nil {
		return nil, err
	}
	have := &store.Have{
		Memos:  make([]int64, len(want.Memos)),
		Items:  make(map[string][]store.Item, len(want.Items)),
		Scores: make(map[store.Set][]store.Tally, len(want.Scores)),
		Totals: make([]store.Totals, len(want.Totals)),
		Whole:  make(map[store.Set][]store.Entry, len(want.Whole)),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.update(ctx, func(se *session) (err error) {
		if have.Position, err = position(se, n); err != nil {
			return err
		}
		if err := readMemos(se, n, want.Memos, have.Memos); err != nil {
			return err
		}
		for list, items := range want.Items {
			have.Items[list] = make([]store.Item, len(items))
			if err := s.readRecords(se, n, list, items, have.Items[list]); err != nil {
				return err
			}
		}
		for set, items := range want.Scores {
			have.Scores[set] = make([]store.Tally, len(items))
			if err := s.readTallies(se, n, set, items, have.Scores[set]); err != nil {
				return err
			}
		}
		for i, set := range want.Totals {
			if have.Totals[i], err = readTotals(se, n, set); err != nil {
				return err
			}
		}
		for _, set := range want.Whole {
			board, _, err := findBoard(se, n, set)
			if err != nil {
				return err
			}
			if have.Whole[set], err = entries(se, set, selectEntries, board); err != nil { // no board has the row 0
				return err
			}
		}
		if want.Sets {
			have.Sets, err = readSets(se, n)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading shard %d from SQLite: %w", n, err)
	}
	return have, nil
}

// readSets reads the totals of all sets of a shard.
func readSets(se *session, shard int) (map[store.Set]store.Totals, error) {
	sets := map[store.Set]store.Totals{}
	err := se.each("SELECT list.name, board.name, views, uniques, duplicates, newest, landmark FROM list JOIN board ON board.list_id = list.id "+
		"WHERE list.shard = ?", []any{shard}, func(r *sql.Rows) error {
		var set store.Set
		var t store.Totals
		err := r.Scan(&set.List, &set.Name, &t.Views, &t.Uniques, &t.Duplicates, &t.Newest, &t.Landmark)
		if t != (store.Totals{}) {
			sets[set] = t
		}
		return err
	})
	return sets, err
}

func (s *Store) readTallies(se *session, shard int, set store.Set, items []string, to []store.Tally) error {
	board, ok, err := findBoard(se, shard, set)
	if err != nil || !ok {
		return err
	}
	list, _, err := findList(se, shard, set.List)
	if err != nil {
		return err
	}
	ids, err := s.ids.lookup(se, list, items)
	if err != nil {
		return err
	}
	counts := set.Counts()
	found := make(map[int64]store.Tally, len(ids))
	err = se.in("SELECT item_id, score, uniques FROM entry WHERE board_id = ? AND item_id IN", []any{board}, len(ids),
		func(i int) any { return ids[i] },
		func(r *sql.Rows) error {
			var id, uniques int64
			var value float64
			err := r.Scan(&id, &value, &uniques)
			found[id] = store.TallyOf(counts, value, uniques)
			return err
		})
	for i, id := range ids {
		to[i] = found[id]
	}
	return err
}

func (s *Store) readRecords(se *session, shard int, list string, items []string, to []store.Item) error {
	listID, ok, err := findList(se, shard, list)
	if err != nil || !ok {
		return err
	}
	ids, err := s.ids.lookup(se, listID, items)
	if err != nil {
		return err
	}
	found := make(map[int64]store.Item, len(ids))
	err = se.in("SELECT item_id, first, last, published, published_from, duplicates FROM record WHERE item_id IN", nil, len(ids),
		func(i int) any { return ids[i] },
		func(r *sql.Rows) error {
			var id int64
			var rec store.Item
			err := r.Scan(&id, &rec.First, &rec.Last, &rec.Published, &rec.PublishedFrom, &rec.Duplicates)
			found[id] = rec
			return err
		})
	for i, id := range ids {
		to[i] = found[id]
	}
	return err
}
