package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"math"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
)

func findList(se *session, shard int, name string) (id int64, ok bool, err error) {
	ok, err = se.one("SELECT id FROM list WHERE shard = ? AND name = ?", []any{shard, name}, &id)
	return id, ok, err
}

func findBoard(se *session, shard int, set store.Set) (id int64, ok bool, err error) {
	ok, err = se.one("SELECT board.id FROM list JOIN board ON board.list_id = list.id WHERE list.shard = ? AND list.name = ? AND board.name = ?",
		[]any{shard, set.List, set.Name}, &id)
	return id, ok, err
}

// findTallies calls found for each of items that a set has.
func findTallies(se *session, shard int, set store.Set, items []string, found func(item string, t store.Tally)) error {
	board, ok, err := findBoard(se, shard, set)
	if err != nil || !ok {
		return err
	}
	counts := set.Counts()
	return se.in("SELECT name, score, uniques FROM item CROSS JOIN entry ON board_id = ? AND item_id = id "+
		"WHERE list_id = (SELECT list_id FROM board WHERE id = ?) AND name IN", []any{board, board}, len(items),
		func(i int) any { return items[i] },
		func(r *sql.Rows) error {
			var item string
			var value float64
			var uniques int64
			err := r.Scan(&item, &value, &uniques)
			found(item, store.TallyOf(counts, value, uniques))
			return err
		})
}

// findRecords calls found for each of items that a list has.
func findRecords(se *session, shard int, list string, items []string, found func(item string, rec store.Item)) error {
	id, ok, err := findList(se, shard, list)
	if err != nil || !ok {
		return err
	}
	return se.in("SELECT name, first, last, published, published_from, duplicates FROM item CROSS JOIN record ON item_id = id "+
		"WHERE list_id = ? AND name IN", []any{id}, len(items),
		func(i int) any { return items[i] },
		func(r *sql.Rows) error {
			var item string
			var rec store.Item
			err := r.Scan(&item, &rec.First, &rec.Last, &rec.Published, &rec.PublishedFrom, &rec.Duplicates)
			found(item, rec)
			return err
		})
}

func readTotals(se *session, shard int, set store.Set) (t store.Totals, err error) {
	_, err = se.one("SELECT views, uniques, duplicates, newest, landmark FROM board WHERE list_id = (SELECT id FROM list WHERE shard = ? AND name = ?) AND name = ?",
		[]any{shard, set.List, set.Name}, &t.Views, &t.Uniques, &t.Duplicates, &t.Newest, &t.Landmark)
	return t, err
}

// read calls fn for each shard, at one instant.
func (s *Store) read(ctx context.Context, what string, set store.Set, fn func(se *session, shard int) error) error {
	err := s.view(ctx, func(se *session) error {
		for shard := range s.shards {
			if err := fn(se, shard); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading %s of list %s, set %q from SQLite: %w", what, set.List, set.Name, err)
	}
	return nil
}

const selectEntries = "SELECT name, score, uniques FROM entry JOIN item ON id = item_id WHERE board_id = ? "

// entries reads rows of selectEntries.
func entries(se *session, set store.Set, text string, args ...any) (found []store.Entry, err error) {
	counts := set.Counts()
	err = se.each(text, args, func(r *sql.Rows) error {
		var item string
		var value float64
		var uniques int64
		err := r.Scan(&item, &value, &uniques)
		found = append(found, store.Entry{Item: item, Tally: store.TallyOf(counts, value, uniques)})
		return err
	})
	return found, err
}

// readBoard calls fn with the row of the set, for each shard that has one.
func (s *Store) readBoard(ctx context.Context, what string, set store.Set, fn func(se *session, shard int, board int64) error) error {
	return s.read(ctx, what, set, func(se *session, shard int) error {
		board, ok, err := findBoard(se, shard, set)
		if err != nil || !ok {
			return err
		}
		return fn(se, shard, board)
	})
}

// Top implements [store.Reader].
func (s *Store) Top(ctx context.Context, set store.Set, n int) ([][]store.Entry, error) {
	top := make([][]store.Entry, s.shards)
	err := s.readBoard(ctx, "the top", set, func(se *session, shard int, board int64) (err error) {
		top[shard], err = entries(se, set, selectEntries+"ORDER BY score DESC, name DESC LIMIT ?", board, max(n, 0))
		return err
	})
	return top, err
}

// Above implements [store.Reader].
func (s *Store) Above(ctx context.Context, set store.Set, bounds [][]float64) ([]int64, error) {
	if err := s.checkBounds(bounds); err != nil {
		return nil, err
	}
	sums := make([]int64, len(bounds))
	err := s.readBoard(ctx, "the number of entries above", set, func(se *session, shard int, board int64) error {
		for i := range bounds {
			n, err := above(se, board, bounds[i][shard])
			if err != nil {
				return err
			}
			sums[i] += n
		}
		return nil
	})
	return sums, err
}

func above(se *session, board int64, bound float64) (n int64, err error) {
	_, err = se.one("SELECT count(*) FROM entry WHERE board_id = ? AND score > ?", []any{board, bound}, &n)
	return n, err
}

// Size implements [store.Reader].
func (s *Store) Size(ctx context.Context, set store.Set) (sum int64, err error) {
	err = s.readBoard(ctx, "the size", set, func(se *session, _ int, board int64) error {
		n, err := above(se, board, math.Inf(-1))
		sum += n
		return err
	})
	return sum, err
}

func (s *Store) checkBounds(bounds [][]float64) error {
	for _, b := range bounds {
		if len(b) != s.shards {
			return fmt.Errorf("%d bounds for %d shards", len(b), s.shards)
		}
	}
	return nil
}

// Next implements [store.Reader].
func (s *Store) Next(ctx context.Context, set store.Set, bounds [][]float64) ([][]*store.Entry, error) {
	if err := s.checkBounds(bounds); err != nil {
		return nil, err
	}
	next := make([][]*store.Entry, len(bounds))
	for i := range next {
		next[i] = make([]*store.Entry, s.shards)
	}
	err := s.readBoard(ctx, "the next entries", set, func(se *session, shard int, board int64) error {
		for i := range bounds {
			found, err := entries(se, set, selectEntries+"AND score > ? ORDER BY score, name LIMIT 1", board, bounds[i][shard])
			if err != nil {
				return err
			}
			if len(found) > 0 {
				next[i][shard] = &found[0]
			}
		}
		return nil
	})
	return next, err
}

// byShard groups items by the shard that counts them.
func (s *Store) byShard(kind hit.Kind, list string, items []string) [][]string {
	grouped := make([][]string, s.shards)
	for _, item := range items {
		n := hit.Shard(kind, list, item, s.shards)
		grouped[n] = append(grouped[n], item)
	}
	return grouped
}

// Scores implements [store.Reader].
func (s *Store) Scores(ctx context.Context, kind hit.Kind, set store.Set, items []string) ([]*store.Tally, error) {
	found := make(map[string]*store.Tally, len(items))
	grouped := s.byShard(kind, set.List, items)
	err := s.read(ctx, "scores", set, func(se *session, shard int) error {
		return findTallies(se, shard, set, grouped[shard], func(item string, t store.Tally) { found[item] = &t })
	})
	return inOrder(items, found), err
}

// Items implements [store.Reader].
func (s *Store) Items(ctx context.Context, kind hit.Kind, list string, items []string) ([]*store.Item, error) {
	found := make(map[string]*store.Item, len(items))
	grouped := s.byShard(kind, list, items)
	err := s.read(ctx, "items", store.Set{List: list}, func(se *session, shard int) error {
		return findRecords(se, shard, list, grouped[shard], func(item string, rec store.Item) { found[item] = &rec })
	})
	return inOrder(items, found), err
}

// Totals implements [store.Reader].
func (s *Store) Totals(ctx context.Context, sets []store.Set) ([][]store.Totals, error) {
	totals := make([][]store.Totals, len(sets))
	for i := range totals {
		totals[i] = make([]store.Totals, s.shards)
	}
	err := s.view(ctx, func(se *session) (err error) {
		for i, set := range sets {
			for shard := range s.shards {
				if totals[i][shard], err = readTotals(se, shard, set); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading totals from SQLite: %w", err)
	}
	return totals, nil
}

// Visitors implements [store.Reader].
func (s *Store) Visitors(ctx context.Context, set store.Set) (int64, error) {
	all, err := readSketch(nil)
	if err != nil {
		return 0, err
	}
	err = s.readBoard(ctx, "the visitors", set, func(se *session, _ int, board int64) error {
		var data []byte
		if _, err := se.one("SELECT sketch FROM visitors WHERE board_id = ?", []any{board}, &data); err != nil {
			return err
		}
		sketch, err := readSketch(data)
		if err != nil {
			return err
		}
		return all.Merge(sketch)
	})
	if err != nil {
		return 0, err
	}
	return int64(all.Estimate()), nil
}

func inOrder[V any](items []string, found map[string]V) []V {
	values := make([]V, len(items))
	for i, item := range items {
		values[i] = found[item]
	}
	return values
}
