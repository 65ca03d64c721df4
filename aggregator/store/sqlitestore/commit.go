package sqlitestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/axiomhq/hyperloglog"

	"github.com/hotboard/hotboard/aggregator/store"
)

// Commit implements [store.Store].
func (s *Store) Commit(ctx context.Context, n int, c *store.Commit) error {
	if err := s.checkShard(n); err != nil {
		return err
	}
	if err := c.Valid(); err != nil {
		return fmt.Errorf("committing to shard %d: %w", n, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var w *write
	err := s.update(ctx, func(se *session) (err error) {
		at, err := position(se, n)
		if err != nil {
			return err
		}
		if at != c.From {
			return store.ErrConflict
		}
		w = &write{session: se, shard: n, lists: map[string]int64{}, boards: map[store.Set]int64{}, known: &s.ids, ids: map[itemKey]int64{}, terms: map[termKey]termRow{}}
		if err := w.values(c); err != nil {
			return err
		}
		if err := w.memos(c.Memos, &s.terms, now); err != nil {
			return err
		}
		if err := s.terms.prune(se, now); err != nil {
			return err
		}
		return w.state(c)
	})
	switch {
	case errors.Is(err, store.ErrConflict):
		return store.ErrConflict
	case err != nil:
		return fmt.Errorf("committing to shard %d in SQLite: %w", n, err)
	}
	s.terms.committed(w.terms)
	s.ids.add(w.ids)
	return nil
}

// write is one commit. It caches the rows of lists, boards and items.
type write struct {
	*session
	shard  int
	lists  map[string]int64
	boards map[store.Set]int64
	known  *itemIDs
	ids    map[itemKey]int64 // not yet in known
	terms  map[termKey]termRow
}

func (w *write) state(c *store.Commit) error {
	err := w.exec("INSERT INTO shard (shard, seq, fingerprint, version) VALUES (?, ?, ?, ?) "+
		"ON CONFLICT (shard) DO UPDATE SET seq = excluded.seq, fingerprint = excluded.fingerprint, version = excluded.version",
		w.shard, int64(c.To.Seq), int64(c.To.Fingerprint), int64(c.To.Version))
	if err != nil {
		return err
	}
	if c.Rules != nil {
		err := w.exec("UPDATE shard SET revision = ?, rules = ? WHERE shard = ?", int64(c.Rules.Revision), c.Rules.ID[:], w.shard)
		if err != nil {
			return err
		}
	}
	for edge, seq := range c.Edges {
		err := w.exec("INSERT INTO producer (edge, shard, seq) VALUES (?, ?, ?) ON CONFLICT (edge, shard) DO UPDATE SET seq = excluded.seq",
			edge, w.shard, int64(seq))
		if err != nil {
			return err
		}
	}
	for _, l := range c.Losses {
		err := w.exec("INSERT OR REPLACE INTO loss (shard, edge, first, last, batches) VALUES (?, ?, ?, ?, ?)",
			w.shard, l.Edge, int64(l.From), int64(l.To), int64(l.Batches))
		if err != nil {
			return err
		}
	}
	return nil
}

// list returns the row of a list, and creates it if missing.
func (w *write) list(name string) (int64, error) {
	if id, ok := w.lists[name]; ok {
		return id, nil
	}
	var id int64
	found, err := w.one("SELECT id FROM list WHERE shard = ? AND name = ?", []any{w.shard, name}, &id)
	if err == nil && !found {
		_, err = w.one("INSERT INTO list (shard, name) VALUES (?, ?) RETURNING id", []any{w.shard, name}, &id)
	}
	w.lists[name] = id
	return id, err
}

// board returns the row of a set, and creates it if missing. It also makes its
// list's row known.
func (w *write) board(set store.Set) (int64, error) {
	if id, ok := w.boards[set]; ok {
		return id, nil
	}
	list, err := w.list(set.List)
	if err != nil {
		return 0, err
	}
	var id int64
	found, err := w.one("SELECT id FROM board WHERE list_id = ? AND name = ?", []any{list, set.Name}, &id)
	if err == nil && !found {
		_, err = w.one("INSERT INTO board (list_id, name) VALUES (?, ?) RETURNING id", []any{list, set.Name}, &id)
	}
	w.boards[set] = id
	return id, err
}

func (w *write) values(c *store.Commit) error {
	for _, set := range c.Drop {
		if err := w.drop(set); err != nil {
			return err
		}
	}
	for list, items := range c.Items {
		if err := w.items(list, items); err != nil {
			return err
		}
	}
	for set, n := range c.Scale {
		if err := w.scale(set, n); err != nil {
			return err
		}
	}
	for set, tallies := range c.Scores {
		if err := w.scores(set, tallies); err != nil {
			return err
		}
	}
	for set, t := range c.Totals {
		id, err := w.board(set)
		if err != nil {
			return err
		}
		err = w.exec("UPDATE board SET views = ?, uniques = ?, duplicates = ?, newest = ?, landmark = ? WHERE id = ?",
			t.Views, t.Uniques, t.Duplicates, t.Newest, t.Landmark, id)
		if err != nil {
			return err
		}
	}
	for set, visitors := range c.Visitors {
		if len(visitors) == 0 {
			continue
		}
		if err := w.visitors(set, visitors); err != nil {
			return err
		}
	}
	return nil
}

func (w *write) items(list string, items map[string]store.Item) error {
	id, err := w.list(list)
	if err != nil {
		return err
	}
	names := slices.Collect(maps.Keys(items))
	ids, err := w.itemIDs(id, names)
	if err != nil {
		return err
	}
	return w.insert("INSERT INTO record (item_id, first, last, published, published_from, duplicates) VALUES "+
		"ON CONFLICT (item_id) DO UPDATE SET first = excluded.first, last = excluded.last, published = excluded.published, "+
		"published_from = excluded.published_from, duplicates = excluded.duplicates", 6, len(names), func(args []any, i int) []any {
		rec := items[names[i]]
		return append(args, ids[i], rec.First, rec.Last, rec.Published, int64(rec.PublishedFrom), rec.Duplicates)
	})
}

func (w *write) scores(set store.Set, tallies map[string]store.Tally) error {
	board, err := w.board(set)
	if err != nil {
		return err
	}
	names := slices.Collect(maps.Keys(tallies))
	ids, err := w.itemIDs(w.lists[set.List], names)
	if err != nil {
		return err
	}
	return w.insert("INSERT INTO entry (board_id, item_id, score, uniques) VALUES "+
		"ON CONFLICT (board_id, item_id) DO UPDATE SET score = excluded.score, uniques = excluded.uniques",
		4, len(names), func(args []any, i int) []any {
			t := tallies[names[i]]
			return append(args, board, ids[i], t.Value(), t.Uniques)
		})
}

// scale multiplies the scores of a set by 2^n, in steps that have an exact factor.
func (w *write) scale(set store.Set, n int) error {
	const step = -1000 // 2^-1022 is the smallest normal number
	id, err := w.board(set)
	if err != nil {
		return err
	}
	n = max(n, 3*step) // any lower exponent also gives 0
	for n != 0 {
		part := max(n, step)
		n -= part
		if err := w.exec("UPDATE entry SET score = score * ? WHERE board_id = ?", math.Ldexp(1, part), id); err != nil {
			return err
		}
	}
	return nil
}

// precision of the sketches: 2^14 registers, a standard error of 0.81 %.
const precision = 14

func (w *write) visitors(set store.Set, visitors []uint64) error {
	id, err := w.board(set)
	if err != nil {
		return err
	}
	var before []byte
	if _, err := w.one("SELECT sketch FROM visitors WHERE board_id = ?", []any{id}, &before); err != nil {
		return err
	}
	sketch, err := readSketch(before)
	if err != nil {
		return err
	}
	var b [8]byte
	for _, v := range visitors {
		binary.LittleEndian.PutUint64(b[:], v)
		sketch.Insert(b[:])
	}
	after, err := sketch.MarshalBinary()
	if err != nil {
		return err
	}
	if bytes.Equal(before, after) {
		return nil // most visitors of a large board change nothing
	}
	return w.exec("INSERT INTO visitors (board_id, sketch) VALUES (?, ?) ON CONFLICT (board_id) DO UPDATE SET sketch = excluded.sketch", id, after)
}

// readSketch decodes a sketch; no bytes are an empty one.
func readSketch(data []byte) (*hyperloglog.Sketch, error) {
	sketch, err := hyperloglog.NewSketch(precision, true)
	if err != nil {
		return nil, err
	}
	if len(data) > 0 {
		if err := sketch.UnmarshalBinary(data); err != nil {
			return nil, damaged(fmt.Errorf("reading a sketch of visitors: %w", err))
		}
	}
	return sketch, nil
}

func (w *write) drop(set store.Set) error {
	id, err := w.board(set)
	if err != nil {
		return err
	}
	for _, text := range []string{
		"DELETE FROM entry WHERE board_id = ?", "DELETE FROM visitors WHERE board_id = ?", "DELETE FROM board WHERE id = ?",
	} {
		if err := w.exec(text, id); err != nil {
			return err
		}
	}
	delete(w.boards, set)
	return nil
}
