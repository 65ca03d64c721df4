package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/redisstore"
	"github.com/hotboard/hotboard/e2e/services"
)

// evicts fails the test unless Ping reports an eviction, or the danger of one, with
// the remedy.
func evicts(t *testing.T, what string, s store.Store, remedy string) {
	t.Helper()
	err := s.Ping(t.Context())
	if !errors.Is(err, store.ErrEvicts) || !strings.Contains(err.Error(), remedy) {
		t.Errorf("%s: Ping returned %v, want ErrEvicts with %q", what, err, remedy)
	}
}

func keepsAll(t *testing.T, what string, s store.Store) {
	t.Helper()
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("%s: Ping returned %v", what, err)
	}
}

func configure(t *testing.T, c *redis.Client, settings ...string) {
	t.Helper()
	for i := 0; i < len(settings); i += 2 {
		if err := c.ConfigSet(t.Context(), settings[i], settings[i+1]).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// evict fills a server with other keys, so that its policy evicts about half of the
// existing keys. (Without all of them the store would look empty.)
func evict(t *testing.T, c *redis.Client, policy string) {
	t.Helper()
	const others = 2000
	fill := func(from, n int) error {
		_, err := c.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for i := range n {
				p.Set(t.Context(), fmt.Sprintf("other:%d", from+i), strings.Repeat("x", 200), 0)
			}
			return nil
		})
		return err
	}
	if err := fill(0, others); err != nil {
		t.Fatal(err)
	}
	used := info(t, c, "used_memory")
	configure(t, c, "maxmemory", strconv.Itoa(used), "maxmemory-policy", policy)
	for i := 0; info(t, c, "evicted_keys") < others*7/10; i += 50 {
		if err := fill(others+i, 50); err != nil && strings.Contains(err.Error(), "OOM") {
			break // no more keys that the policy evicts
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n := info(t, c, "evicted_keys"); n == 0 {
		t.Fatal("the server has evicted nothing")
	}
	configure(t, c, "maxmemory", "0", "maxmemory-policy", "noeviction")
}

func info(t *testing.T, c *redis.Client, name string) int {
	t.Helper()
	text, err := c.Info(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(text, "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\r")
	n, err := strconv.Atoi(value)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

func TestPolicyThatEvicts(t *testing.T) {
	t.Parallel()
	r := services.StartRedis(t)
	s, c := open(t, redisstore.Options{URL: r.URL(), Shards: 2}), client(t, r)
	commit(t, s, memoCommit(0, 1, 10, 1))
	keepsAll(t, "by default", s)
	configure(t, c, "maxmemory-policy", "allkeys-lru")
	keepsAll(t, "a policy without a limit", s)
	configure(t, c, "maxmemory", "100mb")
	evicts(t, "a policy with a limit", s, "CONFIG SET maxmemory-policy noeviction")
	configure(t, c, "maxmemory-policy", "noeviction")
	keepsAll(t, "put right before anything was evicted", s)
}

// TestEvictedKeysAreNoticed evicts keys between two checks; at the second the
// policy is right again.
func TestEvictedKeysAreNoticed(t *testing.T) {
	t.Parallel()
	r := services.StartRedis(t)
	o := redisstore.Options{URL: r.URL(), Shards: 2}
	s, c := open(t, o), client(t, r)
	for i := range 3 { // keys older than the filling ones
		commit(t, s, memoCommit(i, i+1, 10, uint64(i)))
	}
	if err := c.Do(t.Context(), "CONFIG", "RESETSTAT").Err(); err != nil {
		t.Fatal(err)
	}
	evict(t, c, "allkeys-random")
	const remedy = "redis-cli HDEL hotboard:meta evicted"
	evicts(t, "after evictions", s, "Redis has evicted")
	evicts(t, "at the next look", s, remedy)
	if other, err := redisstore.Open(t.Context(), o); err == nil {
		_ = other.Close()
		t.Error("another aggregator opened the store")
	} else if !errors.Is(err, store.ErrEvicts) {
		t.Errorf("another aggregator got %v", err)
	}
	if err := c.HDel(t.Context(), "hotboard:meta", "evicted").Err(); err != nil {
		t.Fatal(err)
	}
	keepsAll(t, "once an operator has decided", s)
	keepsAll(t, "and later", s)
}

// TestCanaries evicts keys where INFO is not allowed, by each policy.
func TestCanaries(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-lfu", "volatile-random"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			r := services.StartRedis(t)
			admin := client(t, r)
			if err := admin.Do(t.Context(), "ACL", "SETUSER", "hotboard", "on", "nopass", "~*", "+@all", "-info").Err(); err != nil {
				t.Fatal(err)
			}
			o := redisstore.Options{URL: strings.Replace(r.URL(), "unix://", "unix://hotboard:x@", 1), Shards: 8}
			s := open(t, o)
			for shard := range o.Shards {
				if err := s.Commit(t.Context(), shard, memoCommit(0, 1, 10, 1)); err != nil {
					t.Fatal(err)
				}
			}
			keepsAll(t, "canaries are there", s)
			evict(t, admin, policy)
			evicts(t, "after evictions", s, "keys of shards [")
			evicts(t, "at the next look", s, "redis-cli HDEL hotboard:meta evicted")

			// After emptying, the store is whole again.
			if err := admin.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			keepsAll(t, "an emptied store", s)
			commit(t, s, memoCommit(0, 1, 10, 1))
			keepsAll(t, "counted again", s)
			if err := admin.Unlink(t.Context(), "hotboard:{s0}:canary:3").Err(); err != nil {
				t.Fatal(err)
			}
			evicts(t, "a canary of the new ones", s, "keys of shards [0] are gone")
		})
	}
}

// TestLostState removes the state of a shard alone: the remaining values would be
// counted twice.
func TestLostState(t *testing.T) {
	t.Parallel()
	r := services.StartRedis(t)
	s, c := open(t, redisstore.Options{URL: r.URL(), Shards: 2}), client(t, r)
	commit(t, s, memoCommit(0, 1, 10, 1))
	if err := c.Unlink(t.Context(), "hotboard:{s0}:state").Err(); err != nil {
		t.Fatal(err)
	}
	evicts(t, "without its state", s, "keys of shards [0] are gone")
	if err := c.HDel(t.Context(), "hotboard:meta", "evicted").Err(); err != nil {
		t.Fatal(err)
	}
	keepsAll(t, "once an operator has decided", s)
}

// TestCanariesAreWrittenAgain goes on with a store without canaries, like one of an
// earlier build.
func TestCanariesAreWrittenAgain(t *testing.T) {
	t.Parallel()
	r := services.StartRedis(t)
	s, c := open(t, redisstore.Options{URL: r.URL(), Shards: 1}), client(t, r)
	commit(t, s, memoCommit(0, 1, 10, 1))
	keys, err := c.Keys(t.Context(), "hotboard:{s0}:canary:*").Result()
	if err != nil || len(keys) == 0 {
		t.Fatalf("canaries %v, %v", keys, err)
	}
	if err := errors.Join(c.HDel(t.Context(), "hotboard:{s0}:state", "canaries").Err(), c.Unlink(t.Context(), keys...).Err()); err != nil {
		t.Fatal(err)
	}
	keepsAll(t, "no canaries yet", s)
	commit(t, s, memoCommit(1, 2, 20, 1))
	if n := c.Exists(context.Background(), keys...).Val(); n != int64(len(keys)) {
		t.Errorf("%d of %d canaries were written again", n, len(keys))
	}
}
