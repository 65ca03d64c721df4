package redisstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// acquire and release compare the owner and act on it atomically.
var (
	acquire = redis.NewScript(`
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`)
	release = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`)
	// members uses the server's time, so that the members' clocks need not agree.
	members = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
return redis.call('ZRANGE', KEYS[1], 0, -1)`)
)

// Lease implements [store.Store].
func (s *Store) Lease(ctx context.Context, n int, owner string, ttl time.Duration) (bool, error) {
	h, err := s.shard(n)
	if err != nil {
		return false, err
	}
	got, err := acquire.Eval(ctx, s.writer, []string{h.keys.lease()}, owner, max(ttl.Milliseconds(), 1)).Bool()
	if err != nil {
		return false, fmt.Errorf("taking the lease of shard %d in Redis: %w", n, err)
	}
	return got, nil
}

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, n int, owner string) error {
	h, err := s.shard(n)
	if err != nil {
		return err
	}
	if err := release.Eval(ctx, s.writer, []string{h.keys.lease()}, owner).Err(); err != nil {
		return fmt.Errorf("giving up the lease of shard %d in Redis: %w", n, err)
	}
	return nil
}

// Members implements [store.Store].
func (s *Store) Members(ctx context.Context, owner string, ttl time.Duration) ([]string, error) {
	if s.closed.Load() {
		return nil, redis.ErrClosed
	}
	all, err := members.Eval(ctx, s.writer, []string{membersKey(s.prefix)}, owner, ttl.Milliseconds()).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("announcing this aggregator to the others in Redis: %w", err)
	}
	slices.Sort(all)
	return all, nil
}
