package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
)

// ask executes a query for boards.
func (s *Store) ask(q *query, what string, set store.Set) error {
	if len(q.cmds) == 0 {
		return nil
	}
	_, err := s.reader.Pipelined(q.ctx, q.queue)
	if err == nil {
		err = q.finish()
	}
	if err != nil {
		return fmt.Errorf("reading %s of list %s, set %q from Redis: %w", what, set.List, set.Name, err)
	}
	return nil
}

// Top implements [store.Reader].
func (s *Store) Top(ctx context.Context, set store.Set, n int) ([][]store.Entry, error) {
	top := make([][]store.Entry, len(s.shards))
	if n <= 0 {
		return top, nil
	}
	q := &query{ctx: ctx}
	for i, h := range s.shards {
		cmd := redis.NewZSliceCmd(ctx, "zrevrange", h.keys.score(set), 0, n-1, "withscores")
		q.add(cmd, func() error { top[i] = entries(set, cmd.Val()); return nil })
	}
	if err := s.ask(q, "the top", set); err != nil {
		return nil, err
	}
	return top, s.addUniques(ctx, set, top)
}

func entries(set store.Set, members []redis.Z) []store.Entry {
	counts := set.Counts()
	e := make([]store.Entry, len(members))
	for i, m := range members {
		e[i] = store.Entry{Item: m.Member.(string), Tally: store.TallyOf(counts, m.Score, 0)}
	}
	return e
}

// addUniques fills in the uniques of entries, given by shard.
func (s *Store) addUniques(ctx context.Context, set store.Set, byShard [][]store.Entry) error {
	q := &query{ctx: ctx}
	for i, h := range s.shards {
		items := make([]string, len(byShard[i]))
		for j, e := range byShard[i] {
			items[j] = e.Item
		}
		q.uniques(h.keys.uniques(set), items, func(j int, n int64) { byShard[i][j].Uniques = n })
	}
	return s.ask(q, "the uniques", set)
}

// above formats an exclusive lower bound of scores.
func above(bound float64) string { return "(" + strconv.FormatFloat(bound, 'g', -1, 64) }

func (s *Store) checkBounds(bounds [][]float64) error {
	for _, b := range bounds {
		if len(b) != len(s.shards) {
			return fmt.Errorf("%d bounds for %d shards", len(b), len(s.shards))
		}
	}
	return nil
}

// Above implements [store.Reader].
func (s *Store) Above(ctx context.Context, set store.Set, bounds [][]float64) ([]int64, error) {
	if err := s.checkBounds(bounds); err != nil {
		return nil, err
	}
	sums := make([]int64, len(bounds))
	q := &query{ctx: ctx}
	for i, h := range s.shards {
		key := h.keys.score(set)
		for j := range bounds {
			cmd := redis.NewIntCmd(ctx, "zcount", key, above(bounds[j][i]), "+inf")
			q.add(cmd, func() error { sums[j] += cmd.Val(); return nil })
		}
	}
	return sums, s.ask(q, "the number of entries above", set)
}

// Size implements [store.Reader].
func (s *Store) Size(ctx context.Context, set store.Set) (size int64, err error) {
	q := &query{ctx: ctx}
	for _, h := range s.shards {
		cmd := redis.NewIntCmd(ctx, "zcard", h.keys.score(set))
		q.add(cmd, func() error { size += cmd.Val(); return nil })
	}
	err = s.ask(q, "the size", set)
	return size, err
}

// Next implements [store.Reader].
func (s *Store) Next(ctx context.Context, set store.Set, bounds [][]float64) ([][]*store.Entry, error) {
	if err := s.checkBounds(bounds); err != nil {
		return nil, err
	}
	next := make([][]*store.Entry, len(bounds))
	for i := range next {
		next[i] = make([]*store.Entry, len(s.shards))
	}
	found := make([][]store.Entry, len(s.shards)) // the entries of all bounds, by shard
	q := &query{ctx: ctx}
	for i, h := range s.shards {
		key := h.keys.score(set)
		found[i] = make([]store.Entry, 0, len(bounds)) // a capacity that keeps entries in place
		for j := range bounds {
			cmd := redis.NewZSliceCmd(ctx, "zrangebyscore", key, above(bounds[j][i]), "+inf", "withscores", "limit", 0, 1)
			q.add(cmd, func() error {
				if e := entries(set, cmd.Val()); len(e) > 0 {
					found[i] = append(found[i], e[0])
					next[j][i] = &found[i][len(found[i])-1]
				}
				return nil
			})
		}
	}
	if err := s.ask(q, "the next entries", set); err != nil {
		return nil, err
	}
	return next, s.addUniques(ctx, set, found)
}

// byShard groups the indexes of items by the shard that counts them.
func (s *Store) byShard(kind hit.Kind, list string, items []string) [][]int {
	indexes := make([][]int, len(s.shards))
	for i, item := range items {
		n := hit.Shard(kind, list, item, len(s.shards))
		indexes[n] = append(indexes[n], i)
	}
	return indexes
}

func pick(items []string, indexes []int) []string {
	picked := make([]string, len(indexes))
	for i, index := range indexes {
		picked[i] = items[index]
	}
	return picked
}

// Scores implements [store.Reader].
func (s *Store) Scores(ctx context.Context, kind hit.Kind, set store.Set, items []string) ([]*store.Tally, error) {
	tallies := make([]*store.Tally, len(items))
	counts := set.Counts()
	q := &query{ctx: ctx}
	for n, indexes := range s.byShard(kind, set.List, items) {
		k := s.shards[n].keys
		picked := pick(items, indexes)
		q.strings("zmscore", k.score(set), picked, func(i int, value string) error {
			if value == "" {
				return nil
			}
			v, err := strconv.ParseFloat(value, 64)
			t := store.TallyOf(counts, v, 0)
			tallies[indexes[i]] = &t
			return err
		})
		q.uniques(k.uniques(set), picked, func(i int, n int64) {
			if t := tallies[indexes[i]]; t != nil {
				t.Uniques = n
			}
		})
	}
	if err := s.ask(q, "scores", set); err != nil {
		return nil, err
	}
	return tallies, nil
}

// Items implements [store.Reader].
func (s *Store) Items(ctx context.Context, kind hit.Kind, list string, items []string) ([]*store.Item, error) {
	records := make([]*store.Item, len(items))
	q := &query{ctx: ctx}
	for n, indexes := range s.byShard(kind, list, items) {
		q.strings("hmget", s.shards[n].keys.items(list), pick(items, indexes), func(i int, value string) error {
			if value == "" {
				return nil
			}
			records[indexes[i]] = new(store.Item)
			return unpackItem(value, records[indexes[i]])
		})
	}
	if err := s.ask(q, "items", store.Set{List: list}); err != nil {
		return nil, err
	}
	return records, nil
}

// Totals implements [store.Reader].
func (s *Store) Totals(ctx context.Context, sets []store.Set) ([][]store.Totals, error) {
	totals := make([][]store.Totals, len(sets))
	fields := make([]string, len(sets))
	for i, set := range sets {
		totals[i] = make([]store.Totals, len(s.shards))
		fields[i] = setName(set)
	}
	if len(sets) == 0 {
		return totals, nil
	}
	q := &query{ctx: ctx}
	for n, h := range s.shards {
		q.strings("hmget", h.keys.totals(), fields, func(i int, value string) error {
			if value == "" {
				return nil
			}
			return unpackTotals(value, &totals[i][n])
		})
	}
	if err := s.ask(q, "the totals", sets[0]); err != nil {
		return nil, err
	}
	return totals, nil
}

// Visitors implements [store.Reader]. Redis states a standard error of 0.81 %.
func (s *Store) Visitors(ctx context.Context, set store.Set) (int64, error) {
	names := make([]string, len(s.shards))
	for i, h := range s.shards {
		names[i] = h.keys.visitors(set)
	}
	var err error
	if _, cluster := s.reader.(*redis.ClusterClient); cluster && len(names) > 1 {
		names, err = s.copyVisitors(ctx, names)
		if err != nil {
			return 0, fmt.Errorf("merging the visitors of list %s, set %q in Redis: %w", set.List, set.Name, err)
		}
	}
	if len(names) == 0 {
		return 0, nil
	}
	n, err := s.reader.PFCount(ctx, names...).Result()
	if err != nil {
		return 0, fmt.Errorf("counting the visitors of list %s, set %q in Redis: %w", set.List, set.Name, err)
	}
	return n, nil
}

// copyVisitors copies the existing HyperLogLogs into one slot of a cluster, which
// can merge only within a slot. The copies expire by themselves.
func (s *Store) copyVisitors(ctx context.Context, names []string) ([]string, error) {
	q := &query{ctx: ctx}
	var sketches []string
	for _, name := range names {
		cmd := redis.NewStringSliceCmd(ctx, "mget", name) // unlike get, no error for a missing key
		q.add(cmd, func() error { sketches = append(sketches, cmd.Val()...); return nil })
	}
	if _, err := s.reader.Pipelined(ctx, q.queue); err != nil {
		return nil, err
	}
	if err := q.finish(); err != nil {
		return nil, err
	}
	sketches = slices.DeleteFunc(sketches, func(sketch string) bool { return sketch == "" })
	copies := make([]string, len(sketches))
	prefix := s.prefix + ":{visitors}:" + strconv.FormatUint(rand.Uint64(), 36) + ":"
	_, err := s.reader.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, sketch := range sketches {
			copies[i] = prefix + strconv.Itoa(i)
			p.Set(ctx, copies[i], sketch, 10*time.Second)
		}
		return nil
	})
	return copies, err
}
