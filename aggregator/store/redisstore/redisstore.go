// Package redisstore keeps counts in Redis: one server, a master behind Sentinels,
// or a Redis Cluster. keys.go lists the keys in Redis.
//
// A commit is optimistic: WATCH the shard's position, compare it, and write
// everything in one MULTI. Redis executes or refuses it as a whole, except when a
// key has an unexpected type; then the shard is marked as damaged and stays shut
// until an operator repairs it.
package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
)

// Every error reaches the caller, who logs it once; the client would print each
// connection attempt besides.
func init() { redis.SetLogger(&logging.VoidLogger{}) }

// Store implements [store.Store].
type Store struct {
	reader  redis.UniversalClient
	writer  redis.UniversalClient
	prefix  string
	log     *slog.Logger
	now     func() time.Time
	shards  []*shard
	evicted evicted
	closed  atomic.Bool // the cluster client of go-redis keeps working after Close
}

var _ store.Store = (*Store)(nil)

// shard is this process's state of a shard.
type shard struct {
	n     int
	keys  keys
	memos *memoCache
}

func newStore(o Options, reader, writer redis.UniversalClient) *Store {
	s := &Store{reader: reader, writer: writer, prefix: o.Prefix, log: o.Logger, now: time.Now}
	for n, memos := range newMemoCaches(o.Shards, o.MemoKeep, o.CacheBytes) {
		s.shards = append(s.shards, &shard{
			n: n, keys: newKeys(o.Prefix, n), memos: memos,
		})
	}
	return s
}

// Shards implements [store.Store].
func (s *Store) Shards() int { return len(s.shards) }

func (s *Store) shard(n int) (*shard, error) {
	if s.closed.Load() {
		return nil, redis.ErrClosed
	}
	if n < 0 || n >= len(s.shards) {
		return nil, fmt.Errorf("shard %d: the store has %d shards", n, len(s.shards))
	}
	return s.shards[n], nil
}

// Load implements [store.Store].
func (s *Store) Load(ctx context.Context, n int) (store.State, error) {
	h, err := s.shard(n)
	if err != nil {
		return store.State{}, err
	}
	state, err := s.load(ctx, h)
	if err != nil {
		return store.State{}, fmt.Errorf("loading shard %d from Redis: %w", n, err)
	}
	if state.Position == (store.Position{}) {
		// A flush may have removed the keys together with the store's metadata.
		if err := s.checkMeta(ctx); err != nil {
			return store.State{}, fmt.Errorf("loading shard %d from Redis: %w", n, err)
		}
	}
	return state, nil
}

func (s *Store) load(ctx context.Context, h *shard) (store.State, error) {
	var all *redis.MapStringStringCmd
	// In a transaction, like a commit: if the server refuses MULTI, it shows here,
	// where it does no harm.
	_, err := s.reader.TxPipelined(ctx, func(p redis.Pipeliner) error {
		all = p.HGetAll(ctx, h.keys.state())
		return nil
	})
	if err != nil {
		return store.State{}, err
	}
	fields := all.Val()
	state := store.State{Edges: make(map[string]uint64, len(fields))}
	state.Position, err = parsePosition(h, []string{fields[fieldSeq], fields[fieldFingerprint], fields[fieldVersion], fields[fieldDamaged]})
	if err != nil {
		return store.State{}, err
	}
	if state.Rules, err = parseInForce(fields[fieldRevision], fields[fieldRules]); err != nil {
		return store.State{}, fmt.Errorf("the rules in %s: %w", h.keys.state(), err)
	}
	for field, value := range fields {
		edge, ok := strings.CutPrefix(field, fieldProducer)
		if !ok {
			continue
		}
		if state.Edges[edge], err = strconv.ParseUint(value, 10, 64); err != nil {
			return store.State{}, fmt.Errorf("field %s of %s: %w", field, h.keys.state(), err)
		}
	}
	return state, nil
}

func parseInForce(revision, id string) (r store.InForce, err error) {
	if revision == "" {
		return r, nil
	}
	if r.Revision, err = strconv.ParseUint(revision, 10, 64); err == nil {
		r.ID, err = hit.ParseRulesID(id)
	}
	return r, err
}

// InForce implements [store.Store].
func (s *Store) InForce(ctx context.Context) ([]store.InForce, error) {
	if s.closed.Load() {
		return nil, redis.ErrClosed
	}
	q := &query{ctx: ctx}
	all := make([]store.InForce, len(s.shards))
	for i, h := range s.shards {
		cmd := newStrings(ctx, "hmget", h.keys.state(), []string{fieldRevision, fieldRules})
		q.add(cmd, func() (err error) {
			all[i], err = parseInForce(cmd.Val()[0], cmd.Val()[1])
			return err
		})
	}
	_, err := s.reader.Pipelined(ctx, q.queue)
	if err == nil {
		err = q.finish()
	}
	if err != nil {
		return nil, fmt.Errorf("reading the rules in force from Redis: %w", err)
	}
	return all, nil
}

// positionFields are the fields for parsePosition, in its order.
func positionFields() []string {
	return []string{fieldSeq, fieldFingerprint, fieldVersion, fieldDamaged}
}

func parsePosition(h *shard, fields []string) (p store.Position, err error) {
	if damaged := fields[3]; damaged != "" {
		return p, &DamagedError{Shard: h.n, Pattern: h.keys.prefix + "*", Reason: damaged}
	}
	for i, to := range []*uint64{&p.Seq, &p.Fingerprint, &p.Version} {
		if fields[i] == "" {
			continue
		}
		if *to, err = strconv.ParseUint(fields[i], 10, 64); err != nil {
			return p, fmt.Errorf("the position in %s: %w", h.keys.state(), err)
		}
	}
	return p, nil
}

// DamagedError means that Redis executed a commit only in part, so that the counts
// of a shard do not match its position. The store neither reads nor writes the
// shard until an operator removes its keys; then it is counted again from the log.
type DamagedError struct {
	Shard   int
	Pattern string // matches the shard's keys
	Reason  string
}

// Error describes the damage and the remedy.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("a commit to shard %d was executed in part (%s): the counts of the shard are wrong. Find out which other program writes keys like %s; "+
		"then remove them (redis-cli --scan --pattern '%s' | xargs redis-cli unlink), and the hits still in the log are counted again", e.Shard, e.Reason, e.Pattern, e.Pattern)
}

// Position implements [store.Store].
func (s *Store) Position(ctx context.Context, n int) (store.Position, error) {
	h, err := s.shard(n)
	if err != nil {
		return store.Position{}, err
	}
	cmd := newStrings(ctx, "hmget", h.keys.state(), positionFields())
	if err := s.reader.Process(ctx, cmd); err != nil {
		return store.Position{}, fmt.Errorf("reading the position of shard %d from Redis: %w", n, err)
	}
	return parsePosition(h, cmd.Val())
}

// Applied implements [store.Store].
func (s *Store) Applied(ctx context.Context, edge string) (map[int]uint64, error) {
	cmds := make([]*redis.StringCmd, len(s.shards))
	_, err := s.reader.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, h := range s.shards {
			cmds[i] = p.HGet(ctx, h.keys.state(), fieldProducer+edge)
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("reading the applied sequences of edge %s from Redis: %w", edge, err)
	}
	seqs := map[int]uint64{}
	for i, cmd := range cmds {
		seq, err := cmd.Uint64()
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the applied sequence of edge %s in shard %d from Redis: %w", edge, i, err)
		}
		seqs[i] = seq
	}
	return seqs, nil
}

// Ping implements [store.Store].
func (s *Store) Ping(ctx context.Context) error {
	if s.closed.Load() {
		return redis.ErrClosed
	}
	if err := s.eachMaster(ctx, func(ctx context.Context, c redis.Cmdable) error { return c.Ping(ctx).Err() }); err != nil {
		return fmt.Errorf("redis does not answer: %w", err)
	}
	return s.checkEvictions(ctx)
}

// Close implements [store.Store].
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	return errors.Join(s.reader.Close(), s.writer.Close())
}

// newStrings returns a command with one key and many arguments whose reply is an
// array of strings, with "" for missing values.
func newStrings(ctx context.Context, name, key string, args []string) *redis.StringSliceCmd {
	all := make([]any, 2, 2+len(args))
	all[0], all[1] = name, key
	for i := range args {
		all = append(all, &args[i])
	}
	return redis.NewStringSliceCmd(ctx, all...)
}
