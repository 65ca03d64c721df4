// Package memstore is a store in maps: the simplest implementation of package
// store. It counts visitors exactly, never expires anything by itself, and loses
// everything when the process ends. Tests compare the real stores with it, and the
// simulator rolls it back with [Store.Restore].
package memstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
)

var errClosed = errors.New("the store is closed")

// Store implements [store.Store].
type Store struct {
	now    func() time.Time
	leases store.Leases

	mu     sync.RWMutex
	shards []*shard
	closed bool
}

var _ store.Store = (*Store)(nil)

type shard struct {
	state    store.State
	losses   map[string]store.Loss // by edge
	memos    map[store.Memo]uint32
	items    map[string]map[string]store.Item
	scores   map[store.Set]map[string]store.Tally
	totals   map[store.Set]store.Totals
	visitors map[store.Set]map[uint64]struct{}
}

// New returns an empty store.
func New(shards int) *Store {
	s := &Store{now: time.Now, shards: make([]*shard, shards)}
	for i := range s.shards {
		s.shards[i] = newShard()
	}
	return s
}

func newShard() *shard {
	return &shard{
		state:    store.State{Edges: map[string]uint64{}},
		losses:   map[string]store.Loss{},
		memos:    map[store.Memo]uint32{},
		items:    map[string]map[string]store.Item{},
		scores:   map[store.Set]map[string]store.Tally{},
		totals:   map[store.Set]store.Totals{},
		visitors: map[store.Set]map[uint64]struct{}{},
	}
}

func (h *shard) clone() *shard {
	return &shard{
		state:    h.cloneState(),
		losses:   maps.Clone(h.losses),
		memos:    maps.Clone(h.memos),
		items:    cloneNested(h.items),
		scores:   cloneNested(h.scores),
		totals:   maps.Clone(h.totals),
		visitors: cloneNested(h.visitors),
	}
}

func (h *shard) cloneState() store.State {
	state := h.state
	state.Edges = maps.Clone(h.state.Edges)
	return state
}

func cloneNested[K, L comparable, V any](m map[K]map[L]V) map[K]map[L]V {
	c := make(map[K]map[L]V, len(m))
	for k, v := range m {
		c[k] = maps.Clone(v)
	}
	return c
}

// Snapshot is a copy of everything but the leases.
type Snapshot struct{ shards []*shard }

// Snapshot copies the store as it is now.
func (s *Store) Snapshot() *Snapshot {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return &Snapshot{cloneShards(s.shards)}
}

// Restore sets the store back to a snapshot, which can be used again.
func (s *Store) Restore(snap *Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shards = cloneShards(snap.shards)
}

func cloneShards(shards []*shard) []*shard {
	c := make([]*shard, len(shards))
	for i, h := range shards {
		c[i] = h.clone()
	}
	return c
}

// Shards implements [store.Store].
func (s *Store) Shards() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.shards)
}

// view calls fn with a shard while nothing can change it.
func (s *Store) view(n int, fn func(*shard)) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(n); err != nil {
		return err
	}
	fn(s.shards[n])
	return nil
}

func (s *Store) usable(n int) error {
	if s.closed {
		return errClosed
	}
	if n < 0 || n >= len(s.shards) {
		return fmt.Errorf("shard %d: the store has %d shards", n, len(s.shards))
	}
	return nil
}

// Load implements [store.Store].
func (s *Store) Load(_ context.Context, shardID int) (state store.State, err error) {
	err = s.view(shardID, func(h *shard) { state = h.cloneState() })
	return state, err
}

// Position implements [store.Store].
func (s *Store) Position(_ context.Context, shardID int) (p store.Position, err error) {
	err = s.view(shardID, func(h *shard) { p = h.state.Position })
	return p, err
}

// Applied implements [store.Store].
func (s *Store) Applied(_ context.Context, edge string) (map[int]uint64, error) {
	seqs := map[int]uint64{}
	err := s.each(func(i int, h *shard) {
		if seq, ok := h.state.Edges[edge]; ok {
			seqs[i] = seq
		}
	})
	return seqs, err
}

// InForce implements [store.Store].
func (s *Store) InForce(context.Context) (all []store.InForce, err error) {
	err = s.each(func(_ int, h *shard) { all = append(all, h.state.Rules) })
	return all, err
}

// each calls fn with every shard, at one instant.
func (s *Store) each(fn func(i int, h *shard)) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return errClosed
	}
	for i, h := range s.shards {
		fn(i, h)
	}
	return nil
}

// Read implements [store.Store].
func (s *Store) Read(_ context.Context, shardID int, want *store.Want) (*store.Have, error) {
	have := &store.Have{
		Memos:  make([]int64, len(want.Memos)),
		Items:  make(map[string][]store.Item, len(want.Items)),
		Scores: make(map[store.Set][]store.Tally, len(want.Scores)),
		Totals: make([]store.Totals, len(want.Totals)),
		Whole:  make(map[store.Set][]store.Entry, len(want.Whole)),
	}
	err := s.view(shardID, func(h *shard) {
		have.Position = h.state.Position
		for i, m := range want.Memos {
			have.Memos[i] = store.NoMemo
			if v, ok := h.memos[m]; ok {
				have.Memos[i] = int64(v)
			}
		}
		for list, items := range want.Items {
			got := make([]store.Item, len(items))
			for i, item := range items {
				got[i] = h.items[list][item]
			}
			have.Items[list] = got
		}
		for set, items := range want.Scores {
			got := make([]store.Tally, len(items))
			for i, item := range items {
				got[i] = h.scores[set][item]
			}
			have.Scores[set] = got
		}
		for i, set := range want.Totals {
			have.Totals[i] = h.totals[set]
		}
		for _, set := range want.Whole {
			have.Whole[set] = entries(h.scores[set])
		}
		if want.Sets {
			have.Sets = maps.Clone(h.totals)
			maps.DeleteFunc(have.Sets, func(_ store.Set, t store.Totals) bool { return t == store.Totals{} })
		}
	})
	if err != nil {
		return nil, err
	}
	return have, nil
}

func entries(tallies map[string]store.Tally) []store.Entry {
	all := make([]store.Entry, 0, len(tallies))
	for item, t := range tallies {
		all = append(all, store.Entry{Item: item, Tally: t})
	}
	return all
}

// Commit implements [store.Store].
func (s *Store) Commit(_ context.Context, shardID int, c *store.Commit) error {
	if err := c.Valid(); err != nil {
		return fmt.Errorf("committing to shard %d: %w", shardID, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(shardID); err != nil {
		return err
	}
	h := s.shards[shardID]
	if h.state.Position != c.From {
		return store.ErrConflict
	}
	h.state.Position = c.To
	maps.Copy(h.state.Edges, c.Edges)
	if c.Rules != nil {
		h.state.Rules = *c.Rules
	}
	for _, set := range c.Drop {
		delete(h.scores, set)
		delete(h.totals, set)
		delete(h.visitors, set)
	}
	for _, l := range c.Losses {
		l.Shard = shardID
		h.losses[l.Edge] = l
	}
	for _, m := range c.Memos {
		h.memos[m.Memo] = m.Value
	}
	for list, items := range c.Items {
		maps.Copy(nested(h.items, list), items)
	}
	for set, n := range c.Scale {
		for item, t := range h.scores[set] {
			t.Score = math.Ldexp(t.Score, n)
			h.scores[set][item] = t
		}
	}
	for set, tallies := range c.Scores {
		maps.Copy(nested(h.scores, set), tallies)
	}
	maps.Copy(h.totals, c.Totals)
	for set, visitors := range c.Visitors {
		m := nested(h.visitors, set)
		for _, v := range visitors {
			m[v] = struct{}{}
		}
	}
	return nil
}

func nested[K, L comparable, V any](m map[K]map[L]V, key K) map[L]V {
	if m[key] == nil {
		m[key] = map[L]V{}
	}
	return m[key]
}

// Losses implements [store.Store].
func (s *Store) Losses(context.Context) (losses []store.Loss, err error) {
	err = s.each(func(_ int, h *shard) {
		for _, edge := range slices.Sorted(maps.Keys(h.losses)) {
			losses = append(losses, h.losses[edge])
		}
	})
	return losses, err
}

// Acknowledge implements [store.Store].
func (s *Store) Acknowledge(ctx context.Context) ([]store.Loss, error) {
	losses, err := s.Losses(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range losses {
		if h := s.shards[l.Shard]; h.losses[l.Edge] == l {
			delete(h.losses, l.Edge)
		}
	}
	return losses, nil
}

// Lease implements [store.Store].
func (s *Store) Lease(_ context.Context, shardID int, owner string, ttl time.Duration) (bool, error) {
	if err := s.view(shardID, func(*shard) {}); err != nil {
		return false, err
	}
	return s.leases.Acquire(shardID, owner, ttl, s.now()), nil
}

// Release implements [store.Store].
func (s *Store) Release(_ context.Context, shardID int, owner string) error {
	s.leases.Release(shardID, owner)
	return nil
}

// Members implements [store.Store].
func (s *Store) Members(_ context.Context, owner string, ttl time.Duration) ([]string, error) {
	if err := s.view(0, func(*shard) {}); err != nil {
		return nil, err
	}
	return s.leases.Members(owner, ttl, s.now()), nil
}

// Top implements [store.Reader].
func (s *Store) Top(_ context.Context, set store.Set, n int) ([][]store.Entry, error) {
	top := make([][]store.Entry, s.Shards())
	err := s.each(func(i int, h *shard) {
		top[i] = entries(h.scores[set])
		slices.SortFunc(top[i], func(a, b store.Entry) int {
			if c := cmp.Compare(b.Value(), a.Value()); c != 0 {
				return c
			}
			return strings.Compare(b.Item, a.Item)
		})
		top[i] = top[i][:min(max(n, 0), len(top[i]))]
	})
	return top, err
}

func (s *Store) checkBounds(bounds [][]float64) error {
	for _, b := range bounds {
		if n := s.Shards(); len(b) != n {
			return fmt.Errorf("%d bounds for %d shards", len(b), n)
		}
	}
	return nil
}

// Above implements [store.Reader].
func (s *Store) Above(_ context.Context, set store.Set, bounds [][]float64) ([]int64, error) {
	if err := s.checkBounds(bounds); err != nil {
		return nil, err
	}
	above := make([]int64, len(bounds))
	err := s.each(func(shard int, h *shard) {
		for _, t := range h.scores[set] {
			for i, b := range bounds {
				if t.Value() > b[shard] {
					above[i]++
				}
			}
		}
	})
	return above, err
}

// Next implements [store.Reader].
func (s *Store) Next(_ context.Context, set store.Set, bounds [][]float64) ([][]*store.Entry, error) {
	if err := s.checkBounds(bounds); err != nil {
		return nil, err
	}
	next := make([][]*store.Entry, len(bounds))
	for i := range next {
		next[i] = make([]*store.Entry, s.Shards())
	}
	err := s.each(func(shard int, h *shard) {
		for item, t := range h.scores[set] {
			for i, b := range bounds {
				if t.Value() <= b[shard] {
					continue
				}
				if n := next[i][shard]; n == nil || t.Value() < n.Value() || t.Value() == n.Value() && item < n.Item {
					next[i][shard] = &store.Entry{Item: item, Tally: t}
				}
			}
		}
	})
	return next, err
}

// Size implements [store.Reader].
func (s *Store) Size(_ context.Context, set store.Set) (int64, error) {
	var n int64
	err := s.each(func(_ int, h *shard) { n += int64(len(h.scores[set])) })
	return n, err
}

// Scores implements [store.Reader].
func (s *Store) Scores(_ context.Context, kind hit.Kind, set store.Set, items []string) ([]*store.Tally, error) {
	tallies := make([]*store.Tally, len(items))
	err := s.each(func(shard int, h *shard) {
		for i, item := range items {
			if t, ok := h.scores[set][item]; ok && hit.Shard(kind, set.List, item, len(s.shards)) == shard {
				tallies[i] = &t
			}
		}
	})
	return tallies, err
}

// Items implements [store.Reader].
func (s *Store) Items(_ context.Context, kind hit.Kind, list string, items []string) ([]*store.Item, error) {
	records := make([]*store.Item, len(items))
	err := s.each(func(shard int, h *shard) {
		for i, item := range items {
			if r, ok := h.items[list][item]; ok && hit.Shard(kind, list, item, len(s.shards)) == shard {
				records[i] = &r
			}
		}
	})
	return records, err
}

// Totals implements [store.Reader].
func (s *Store) Totals(_ context.Context, sets []store.Set) ([][]store.Totals, error) {
	totals := make([][]store.Totals, len(sets))
	err := s.each(func(_ int, h *shard) {
		for i, set := range sets {
			totals[i] = append(totals[i], h.totals[set])
		}
	})
	return totals, err
}

// Visitors implements [store.Reader]. The count is exact.
func (s *Store) Visitors(_ context.Context, set store.Set) (int64, error) {
	union := map[uint64]struct{}{}
	err := s.each(func(_ int, h *shard) { maps.Copy(union, h.visitors[set]) })
	return int64(len(union)), err
}

// Ping implements [store.Store].
func (s *Store) Ping(context.Context) error { return s.each(func(int, *shard) {}) }

// Close implements [store.Store].
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}
