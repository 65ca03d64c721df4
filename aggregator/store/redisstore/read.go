package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotboard/hotboard/aggregator/store"
)

// chunk is the most values in one command. Redis accepts many more; the bound keeps
// the buffers on both sides small.
const chunk = 4000

// Read implements [store.Store]. It reads everything at one instant.
func (s *Store) Read(ctx context.Context, n int, want *store.Want) (*store.Have, error) {
	h, err := s.shard(n)
	if err != nil {
		return nil, err
	}
	h.memos.mu.Lock()
	defer h.memos.mu.Unlock()
	if h.memos.at == (store.Position{}) {
		// Position 0 proves nothing: both a shard that was never written and one whose
		// log is read again are there.
		h.memos.clear()
	}
	have, used, err := s.read(ctx, h, want)
	if err == nil && used && h.memos.at != have.Position {
		// The cache belongs to another position: begin with an empty one.
		h.memos.clear()
		have, _, err = s.read(ctx, h, want)
	}
	if err != nil {
		h.memos.clear()
		return nil, fmt.Errorf("reading shard %d from Redis: %w", n, err)
	}
	return have, nil
}

// read answers want and reports whether it used the cache. If it did, and the cache
// turns out to belong to another position, the answer is invalid.
func (s *Store) read(ctx context.Context, h *shard, want *store.Want) (have *store.Have, used bool, err error) {
	have = &store.Have{
		Memos:  make([]int64, len(want.Memos)),
		Items:  make(map[string][]store.Item, len(want.Items)),
		Scores: make(map[store.Set][]store.Tally, len(want.Scores)),
		Totals: make([]store.Totals, len(want.Totals)),
		Whole:  make(map[store.Set][]store.Entry, len(want.Whole)),
	}
	now := s.now()
	buckets := map[bucketID]*memoBucket{}
	inBucket := make([]*memoBucket, len(want.Memos)) // of each memo
	for i := range want.Memos {
		id := bucketOf(&want.Memos[i], len(s.shards))
		b := buckets[id]
		if b == nil {
			b = h.memos.get(id, now)
			buckets[id] = b
			used = used || b.cached
		}
		inBucket[i] = b
	}

	q := &query{ctx: ctx}
	position := newStrings(ctx, "hmget", h.keys.state(), positionFields())
	q.add(position, nil)
	for _, b := range buckets {
		if !b.cached {
			q.bucket(h, b, now)
		}
	}
	for list, items := range want.Items {
		to := make([]store.Item, len(items))
		have.Items[list] = to
		q.strings("hmget", h.keys.items(list), items, func(i int, value string) error {
			if value == "" {
				return nil
			}
			return unpackItem(value, &to[i])
		})
	}
	for set, items := range want.Scores {
		to := make([]store.Tally, len(items))
		have.Scores[set] = to
		q.values(h.keys.score(set), set.Counts(), items, to)
		q.uniques(h.keys.uniques(set), items, func(i int, n int64) { to[i].Uniques = n })
	}
	fields := make([]string, len(want.Totals))
	for i, set := range want.Totals {
		fields[i] = setName(set)
	}
	q.strings("hmget", h.keys.totals(), fields, func(i int, value string) error {
		if value == "" {
			return nil
		}
		return unpackTotals(value, &have.Totals[i])
	})
	for _, set := range want.Whole {
		q.whole(h.keys, set, have.Whole)
	}
	if want.Sets {
		have.Sets = map[store.Set]store.Totals{}
		q.sets(h.keys.totals(), have.Sets)
	}

	if _, err := s.reader.TxPipelined(ctx, q.queue); err != nil {
		return nil, used, err
	}
	v := position.Val()
	if have.Position, err = parsePosition(h, v); err != nil {
		return nil, used, err
	}
	if !used {
		h.memos.moveTo(have.Position)
	}
	if err := q.finish(); err != nil {
		return nil, used, err
	}
	for i, b := range inBucket {
		have.Memos[i] = b.value(want.Memos[i].Key)
	}
	return have, used, nil
}

// query is a pipeline of commands, each with a handler for its reply.
type query struct {
	ctx   context.Context
	cmds  []redis.Cmder
	after []func() error
}

func (q *query) add(cmd redis.Cmder, after func() error) {
	q.cmds = append(q.cmds, cmd)
	if after != nil {
		q.after = append(q.after, after)
	}
}

// queue adds the commands to a pipeline.
func (q *query) queue(p redis.Pipeliner) error {
	for _, cmd := range q.cmds {
		_ = p.Process(q.ctx, cmd) // only queues; errors come with the replies
	}
	return nil
}

// finish handles the replies after the pipeline succeeded.
func (q *query) finish() error {
	for _, fn := range q.after {
		if err := fn(); err != nil {
			return err
		}
	}
	return nil
}

// bucket queries a bucket of memos for the cache, and extends its time to live.
func (q *query) bucket(h *shard, b *memoBucket, now time.Time) {
	key := h.keys.memos(b.id)
	if ttl := b.id.term.Keep(h.memos.keep); ttl > 0 {
		q.add(redis.NewIntCmd(q.ctx, "pexpire", key, ttl.Milliseconds()), nil)
		b.expires = now.Add(ttl)
	}
	cmd := redis.NewStringSliceCmd(q.ctx, "lrange", key, 0, -1)
	q.add(cmd, func() error {
		if err := b.load(cmd.Val()); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		h.memos.put(b)
		return nil
	})
}

// strings queries a string for each of args, and passes it on with its index; "" if
// it does not exist.
func (q *query) strings(name, key string, args []string, found func(i int, value string) error) {
	start := 0
	for part := range slices.Chunk(args, chunk) {
		first := start
		start += len(part)
		cmd := newStrings(q.ctx, name, key, part)
		q.add(cmd, func() error {
			for i, value := range cmd.Val() {
				if err := found(first+i, value); err != nil {
					return fmt.Errorf("%s, field %q: %w", key, part[i], err)
				}
			}
			return nil
		})
	}
}

// whole queries all entries of a set.
func (q *query) whole(k keys, set store.Set, to map[store.Set][]store.Entry) {
	values := redis.NewZSliceCmd(q.ctx, "zrange", k.score(set), 0, -1, "withscores")
	uniques := redis.NewMapStringIntCmd(q.ctx, "hgetall", k.uniques(set))
	q.add(values, nil)
	q.add(uniques, func() error {
		all := entries(set, values.Val())
		for i := range all {
			all[i].Uniques = uniques.Val()[all[i].Item]
		}
		to[set] = all
		return nil
	})
}

// sets queries the totals of all sets of a shard.
func (q *query) sets(key string, to map[store.Set]store.Totals) {
	cmd := redis.NewMapStringStringCmd(q.ctx, "hgetall", key)
	q.add(cmd, func() error {
		for field, value := range cmd.Val() {
			var t store.Totals
			if err := unpackTotals(value, &t); err != nil {
				return fmt.Errorf("%s, field %q: %w", key, field, err)
			}
			if t != (store.Totals{}) {
				to[parseSet(field)] = t
			}
		}
		return nil
	})
}

// values queries the value of each item; 0 without one.
func (q *query) values(key string, counts bool, items []string, to []store.Tally) {
	for part := range slices.Chunk(items, chunk) {
		dst := to
		to = to[len(part):]
		args := make([]any, 2, 2+len(part))
		args[0], args[1] = "zmscore", key
		for i := range part {
			args = append(args, &part[i])
		}
		cmd := redis.NewFloatSliceCmd(q.ctx, args...)
		q.add(cmd, func() error {
			for i, value := range cmd.Val() {
				dst[i] = store.TallyOf(counts, value, 0)
			}
			return nil
		})
	}
}

// uniques queries the uniques of each item, and passes on those that are not 0.
func (q *query) uniques(key string, items []string, found func(i int, n int64)) {
	q.strings("hmget", key, items, func(i int, value string) error {
		if value == "" {
			return nil
		}
		n, err := strconv.ParseInt(value, 10, 64)
		found(i, n)
		return err
	})
}
