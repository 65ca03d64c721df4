package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotboard/hotboard/aggregator/store"
)

// A server that evicts keys loses counts and memos. Its policy can change at any
// time, so Ping checks three things: the policy; the number of keys that the server
// has evicted; and canaries, which also reveal evictions between checks, or where
// INFO is not allowed.
//
// Canaries are keys that belong to a shard's state and that nobody touches after
// writing them: a policy by age or by frequency of use evicts them before others.
// Half of them have a time to live, for the policies that evict no other keys. Only
// volatile-ttl never evicts one.
const (
	canaryCount    = 16
	canaryLifetime = 100 * 365 * 24 * time.Hour
)

// canaries writes the canaries of a shard.
func (w *writes) canaries() {
	for i, key := range w.keys.canaries() {
		w.add("setrange", key, 0, "1") // a SET whose reply is a number
		if i%2 == 0 {
			w.add("expire", key, int64(canaryLifetime.Seconds()))
		}
	}
	w.add("hset", w.keys.state(), fieldCanaries, canaryCount)
}

// lostKeys returns whether canaries of a shard are gone while its state exists, or
// the reverse. Both are written in one commit, and both vanish when a store is
// emptied.
var lostKeys = redis.NewScript(`
local left = redis.call('EXISTS', unpack(KEYS, 2))
if redis.call('EXISTS', KEYS[1]) == 0 then return left > 0 end
local written = redis.call('HGET', KEYS[1], '` + fieldCanaries + `')
return written and left < tonumber(written)`)

// withoutCanaries removes the canaries of a shard until its next commit, so that no
// check misses them.
func (s *Store) withoutCanaries(ctx context.Context, h *shard) error {
	_, err := s.writer.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.HDel(ctx, h.keys.state(), fieldCanaries)
		p.Unlink(ctx, h.keys.canaries()...)
		return nil
	})
	return err
}

// evicted holds the number of keys that each server had evicted at the last Ping,
// by its run_id.
type evicted struct {
	mu   sync.Mutex
	keys map[string]int64
}

// since returns how many keys were evicted since the last check. Evictions before
// the first one may not concern this store.
func (e *evicted) since(now map[string]int64) (n int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for server, count := range now {
		last, known := e.keys[server]
		switch {
		case !known:
		case count < last: // CONFIG RESETSTAT
			n += count
		default:
			n += count - last
		}
	}
	return n
}

func (e *evicted) set(now map[string]int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.keys == nil {
		e.keys = map[string]int64{}
	}
	maps.Copy(e.keys, now)
}

// checkEvictions returns an error that wraps [store.ErrEvicts] while a server may
// evict keys, and after an eviction until an operator acts.
func (s *Store) checkEvictions(ctx context.Context) error {
	policies, counts, err := s.askAboutEvictions(ctx)
	if err != nil {
		return err
	}
	gone, err := s.shardsWithLostKeys(ctx)
	if err != nil {
		return err
	}
	var found []string
	if n := s.evicted.since(counts); n > 0 {
		found = append(found, fmt.Sprintf("Redis has evicted %d keys", n))
	}
	if len(gone) > 0 {
		found = append(found, fmt.Sprintf("keys of shards %v are gone", gone))
	}
	var record string
	if len(found) > 0 {
		record = strings.Join(found, " and ") + ", seen at " + s.now().UTC().Format(time.RFC3339)
		if s.recordEvictions(ctx, record, gone) == nil { // otherwise the next check finds it again
			s.evicted.set(counts)
		}
	} else {
		s.evicted.set(counts)
		record, err = s.reader.HGet(ctx, metaKey(s.prefix), fieldEvicted).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return fmt.Errorf("reading %s: %w", metaKey(s.prefix), err)
		}
	}

	var wrong []string
	if len(policies) > 0 {
		wrong = append(wrong, fmt.Sprintf("Redis may evict keys (maxmemory-policy %s), which would lose counts silently: "+
			"set it with: CONFIG SET maxmemory-policy noeviction", strings.Join(policies, ", ")))
	}
	if record != "" {
		wrong = append(wrong, fmt.Sprintf("keys were evicted (%s), so counts are missing and hits could count twice; counting has stopped: "+
			"stop the aggregators; then restore a backup, or remove all keys (redis-cli --scan --pattern '%s:*' | xargs redis-cli unlink) "+
			"and the hits still in the log are counted again. To go on with the remaining keys: redis-cli HDEL %s %s",
			record, s.prefix, metaKey(s.prefix), fieldEvicted))
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%w: %s", store.ErrEvicts, strings.Join(wrong, "; "))
	}
	return nil
}

// askAboutEvictions returns the policies of servers that may evict keys, and how
// many keys each server has evicted, by its run_id. It returns nothing where INFO
// is not allowed, which Open logs.
func (s *Store) askAboutEvictions(ctx context.Context) (policies []string, counts map[string]int64, err error) {
	var mu sync.Mutex // servers are asked in parallel
	counts = map[string]int64{}
	err = s.eachMaster(ctx, func(ctx context.Context, c redis.Cmdable) error {
		info, err := serverInfo(ctx, c)
		var refused redis.Error
		switch {
		case errors.As(err, &refused):
			return nil
		case err != nil:
			return fmt.Errorf("checking whether Redis evicts keys: %w", err)
		}
		mu.Lock()
		defer mu.Unlock()
		if policy := info["maxmemory_policy"]; info["maxmemory"] != "0" && policy != "" && policy != "noeviction" {
			policies = append(policies, policy)
		}
		if n, err := strconv.ParseInt(info["evicted_keys"], 10, 64); err == nil {
			counts[info["run_id"]] = n
		}
		return nil
	})
	return policies, counts, err
}

func (s *Store) shardsWithLostKeys(ctx context.Context) ([]int, error) {
	cmds := make([]*redis.Cmd, len(s.shards))
	_, err := s.reader.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, h := range s.shards {
			cmds[i] = lostKeys.Eval(ctx, p, append([]string{h.keys.state()}, h.keys.canaries()...))
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("checking whether Redis has evicted keys: %w", err)
	}
	var gone []int
	for i, cmd := range cmds {
		// A script's false is Nil.
		if lost, err := cmd.Bool(); err != nil && !errors.Is(err, redis.Nil) {
			return nil, fmt.Errorf("checking whether Redis has evicted keys of shard %d: %w", i, err)
		} else if lost {
			gone = append(gone, i)
		}
	}
	return gone, nil
}

// recordEvictions stores the findings, so that they survive restarts. The next
// commits of the shards whose canaries are gone write new ones.
func (s *Store) recordEvictions(ctx context.Context, what string, gone []int) error {
	if err := s.writer.HSetNX(ctx, metaKey(s.prefix), fieldEvicted, what).Err(); err != nil {
		return err
	}
	for _, shard := range gone {
		if err := s.withoutCanaries(ctx, s.shards[shard]); err != nil {
			return err
		}
	}
	return nil
}
