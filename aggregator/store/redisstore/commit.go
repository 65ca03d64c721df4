package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotboard/hotboard/aggregator/store"
)

// Commit implements [store.Store].
func (s *Store) Commit(ctx context.Context, n int, c *store.Commit) error {
	h, err := s.shard(n)
	if err != nil {
		return err
	}
	if err := c.Valid(); err != nil {
		return fmt.Errorf("committing to shard %d: %w", n, err)
	}
	h.memos.mu.Lock()
	defer h.memos.mu.Unlock()
	h.memos.moveTo(c.From)
	if c.From == (store.Position{}) {
		h.memos.clear() // as in Read
	}

	w := &writes{ctx: ctx, keys: h.keys, cmds: make([]redis.Cmder, 0, 64)}
	w.memos(h.memos, c.Memos, s.now()) // the cache anticipates the state of Redis
	w.values(c)
	if err := s.commit(ctx, h, c, w); err != nil {
		h.memos.clear()
		if errors.Is(err, store.ErrConflict) {
			return store.ErrConflict
		}
		return fmt.Errorf("committing to shard %d in Redis: %w", n, err)
	}
	h.memos.at = c.To
	return nil
}

// commit executes the writes if the shard is still at the commit's From.
func (s *Store) commit(ctx context.Context, h *shard, c *store.Commit, w *writes) error {
	// The last command: its reply means that all have been executed.
	state := redis.NewIntCmd(ctx, stateArgs(h, c)...)
	var execErr error
	err := s.writer.Watch(ctx, func(tx *redis.Tx) error {
		fields := newStrings(ctx, "hmget", h.keys.state(), append(positionFields(), fieldCanaries))
		if err := tx.Process(ctx, fields); err != nil {
			return err
		}
		v := fields.Val()
		at, err := parsePosition(h, v)
		if err != nil {
			return err
		}
		if at != c.From {
			return store.ErrConflict
		}
		if v[len(v)-1] == "" {
			w.canaries()
		}
		_, execErr = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			for _, cmd := range w.cmds {
				_ = p.Process(ctx, cmd) // only queues; errors come with the replies
			}
			return p.Process(ctx, state)
		})
		return execErr
	}, h.keys.state())
	switch {
	case errors.Is(err, redis.TxFailedErr):
		return store.ErrConflict
	case execErr != nil && state.Err() == nil:
		return s.damaged(ctx, h, execErr)
	case redis.IsExecAbortError(err):
		// Redis refused to begin. It does not repeat the reason, for example full memory
		// or a demotion to replica; another write gets it.
		return errors.Join(err, s.checkMeta(ctx))
	}
	return err
}

// damaged shuts a shard after the partial execution of a commit: Redis does not
// roll back a transaction when one command fails on a key of another type.
func (s *Store) damaged(ctx context.Context, h *shard, cause error) error {
	err := &DamagedError{Shard: h.n, Pattern: h.keys.prefix + "*", Reason: cause.Error()}
	// Also when the caller has given up: nobody else can record it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	// An operator who removes the keys of the shard would otherwise make canaries look
	// evicted.
	return errors.Join(err, s.writer.HSet(ctx, h.keys.state(), fieldDamaged, err.Reason).Err(), s.withoutCanaries(ctx, h))
}

func stateArgs(h *shard, c *store.Commit) []any {
	args := make([]any, 0, 12+2*len(c.Edges))
	args = append(args, "hset", h.keys.state(), fieldSeq, c.To.Seq, fieldFingerprint, c.To.Fingerprint, fieldVersion, c.To.Version)
	for edge, seq := range c.Edges {
		args = append(args, fieldProducer+edge, seq)
	}
	if c.Rules != nil {
		args = append(args, fieldRevision, c.Rules.Revision, fieldRules, c.Rules.ID.String())
	}
	return args
}

// writes collects the commands of a commit. Each replies with a number.
type writes struct {
	ctx  context.Context
	keys keys
	cmds []redis.Cmder
}

func (w *writes) add(args ...any) { w.cmds = append(w.cmds, redis.NewIntCmd(w.ctx, args...)) }

// many adds a command with any number of arguments, in groups that must stay
// together. It adds none without arguments.
func (w *writes) many(name, key string, args []any, group int) {
	size := chunk / group * group
	for len(args) > 0 {
		part := args[:min(size, len(args))]
		args = args[len(part):]
		w.add(append([]any{name, key}, part...)...)
	}
}

func (w *writes) values(c *store.Commit) {
	gone := make([]any, 0, len(c.Drop))
	for _, set := range c.Drop {
		w.add("unlink", w.keys.score(set), w.keys.uniques(set), w.keys.visitors(set))
		gone = append(gone, setName(set))
	}
	w.many("hdel", w.keys.totals(), gone, 1)
	for list, items := range c.Items {
		w.items(list, items)
	}
	for set, n := range c.Scale {
		w.scale(set, n)
	}
	for set, tallies := range c.Scores {
		w.scores(set, tallies)
	}
	totals := make([]any, 0, 2*len(c.Totals))
	for set, t := range c.Totals {
		totals = append(totals, setName(set), packTotals(make([]byte, 0, maxRecordBytes), &t))
	}
	w.many("hset", w.keys.totals(), totals, 2)
	for set, visitors := range c.Visitors {
		args := make([]any, len(visitors))
		for i := range visitors {
			args[i] = &visitors[i]
		}
		w.many("pfadd", w.keys.visitors(set), args, 1)
	}
	losses := make([]any, 0, 2*len(c.Losses))
	for i := range c.Losses {
		losses = append(losses, c.Losses[i].Edge, formatLoss(&c.Losses[i]))
	}
	w.many("hset", w.keys.losses(), losses, 2)
}

func (w *writes) items(list string, items map[string]store.Item) {
	args := make([]any, 0, 2*len(items))
	names := make([]string, 0, len(items)) // so that an argument is a pointer, not a copy
	data := make([]byte, 0, maxRecordBytes*len(items))
	for item, rec := range items {
		names = append(names, item)
		start := len(data)
		data = packItem(data, &rec)
		args = append(args, &names[len(names)-1], data[start:])
	}
	w.many("hset", w.keys.items(list), args, 2)
}

// number is a float64 argument, written as the shortest text that is exact.
type number struct {
	f    float64
	text [24]byte
}

// MarshalBinary implements [encoding.BinaryMarshaler] for go-redis, which would
// write 1e300 with three hundred zeros.
func (n *number) MarshalBinary() ([]byte, error) {
	return strconv.AppendFloat(n.text[:0], n.f, 'g', -1, 64), nil
}

func (w *writes) scores(set store.Set, tallies map[string]store.Tally) {
	args := make([]any, 0, 2*len(tallies))
	names := make([]string, 0, len(tallies))
	values := make([]number, 0, len(tallies))
	uniques := make([]int64, 0, len(tallies))
	var have, none []any
	for item, t := range tallies {
		names = append(names, item)
		values = append(values, number{f: t.Value()})
		uniques = append(uniques, t.Uniques)
		i := len(names) - 1
		args = append(args, &values[i], &names[i])
		if t.Uniques != 0 {
			have = append(have, &names[i], &uniques[i])
		} else {
			none = append(none, &names[i])
		}
	}
	w.many("zadd", w.keys.score(set), args, 2)
	w.many("hset", w.keys.uniques(set), have, 2)
	w.many("hdel", w.keys.uniques(set), none, 1)
}

// scale multiplies the scores of a set by 2^n, in steps that have an exact factor.
func (w *writes) scale(set store.Set, n int) {
	const step = -1000 // 2^-1022 is the smallest normal number
	n = max(n, 3*step) // any lower exponent also gives 0
	for n != 0 {
		part := max(n, step)
		n -= part
		key := w.keys.score(set)
		w.add("zunionstore", key, 1, key, "weights", &number{f: math.Ldexp(1, part)})
	}
}

// memos writes memos to their buckets in Redis and in the cache.
func (w *writes) memos(c *memoCache, memos []store.MemoValue, now time.Time) {
	type touched struct {
		*memoBucket
		begins bool   // as far as is known
		write  []byte // records for Redis
	}
	byID := make(map[bucketID]*touched, min(len(memos), buckets))
	for i := range memos {
		m := &memos[i]
		id := bucketOf(&m.Memo, c.shards)
		t := byID[id]
		if t == nil {
			b := c.get(id, now)
			t = &touched{memoBucket: b, begins: b.memos == 0}
			byID[id] = t
		}
		t.set(m.Key, m.Value)
		t.write = appendRecord(t.write, m.Key, m.Value)
	}
	for id, t := range byID {
		key := w.keys.memos(id)
		if t.bloated() {
			w.add("unlink", key)
			t.write, t.records, t.begins = t.all(), t.memos, true
		}
		w.add("rpush", key, t.write)
		// A key gets its time to live when it is created, and a longer one from time to
		// time.
		if ttl := id.term.Keep(c.keep); ttl > 0 && (t.begins || t.expires.Sub(now) < ttl*6/7) {
			w.add("pexpire", key, ttl.Milliseconds())
			t.expires = now.Add(ttl)
		}
		if t.cached {
			c.put(t.memoBucket)
		}
	}
}
