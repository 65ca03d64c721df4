package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/redisstore"
	"github.com/hotboard/hotboard/e2e/services"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

var all, seeded = store.Set{List: "articles", Name: "all"}, store.Set{List: "articles", Name: "halflife:24h"}

func position(seq int) store.Position {
	if seq == 0 {
		return store.Position{}
	}
	return store.Position{Seq: uint64(seq), Fingerprint: uint64(seq) * 1000}
}

// memoCommit moves a shard from one position to another and sets memos to a value.
// Each brings a revision into force and begins a set anew.
func memoCommit(from, to int, value uint32, keys ...uint64) *store.Commit {
	c := &store.Commit{
		From: position(from), To: position(to),
		Rules:  &store.InForce{Revision: uint64(to)},
		Drop:   []store.Set{seeded},
		Scores: map[store.Set]map[string]store.Tally{all: {"a": {Views: int64(to)}}, seeded: {fmt.Sprint("item", to): {Score: 1}}},
	}
	for _, key := range keys {
		c.Memos = append(c.Memos, store.MemoValue{Memo: memo(key), Value: value})
	}
	return c
}

func memo(key uint64) store.Memo {
	return store.Memo{List: "articles", Term: calendar.Day, Start: 86400, Key: key}
}

// memos reads memos; -1 means none.
func memos(t *testing.T, s store.Store, wantAt int, keys ...uint64) []int64 {
	t.Helper()
	want := store.Want{Whole: []store.Set{seeded}}
	for _, key := range keys {
		want.Memos = append(want.Memos, memo(key))
	}
	have, err := s.Read(context.Background(), 0, &want)
	if err != nil {
		t.Fatal(err)
	}
	if have.Position != position(wantAt) {
		t.Fatalf("read at %+v, want %+v", have.Position, position(wantAt))
	}
	rules, err := s.InForce(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if rules[0].Revision != uint64(wantAt) || len(have.Whole[seeded]) > 1 {
		t.Errorf("at %d revision %d is in force, and a set that each commit begins anew has %d items", wantAt, rules[0].Revision, len(have.Whole[seeded]))
	}
	return have.Memos
}

func commit(t *testing.T, s store.Store, c *store.Commit) {
	t.Helper()
	if err := s.Commit(context.Background(), 0, c); err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, what string, got, want []int64) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestTwoStoresTakeTurns covers the hardest case for the cache of memos: another
// aggregator moves the shard on, without any conflict.
func TestTwoStoresTakeTurns(t *testing.T) {
	t.Parallel()
	r := services.StartRedis(t)
	o := redisstore.Options{URL: r.URL(), Shards: 1}
	a, b := open(t, o), open(t, o)
	commit(t, a, memoCommit(0, 1, 10, 1, 2, 3))
	same(t, "a's own", memos(t, a, 1, 1, 2, 3, 4), []int64{10, 10, 10, -1}) // cached now
	commit(t, b, memoCommit(1, 2, 20, 1, 4))
	same(t, "after b's turn", memos(t, a, 2, 1, 2, 3, 4), []int64{20, 10, 10, 20})

	// Nor may cached values overwrite those of b.
	commit(t, b, memoCommit(2, 3, 30, 5, 6, 1))
	commit(t, a, memoCommit(3, 4, 40, 2, 5))
	for _, s := range []store.Store{a, b} {
		same(t, "after a's turn", memos(t, s, 4, 1, 2, 3, 4, 5, 6), []int64{30, 40, 10, 20, 40, 30})
	}
}

func TestConflictDropsTheCache(t *testing.T) {
	t.Parallel()
	r := services.StartRedis(t)
	o := redisstore.Options{URL: r.URL(), Shards: 1}
	a, b := open(t, o), open(t, o)
	commit(t, a, memoCommit(0, 1, 10, 1, 2))
	memos(t, a, 1, 1, 2, 3)
	commit(t, b, memoCommit(1, 2, 20, 3))
	if err := a.Commit(t.Context(), 0, memoCommit(1, 9, 99, 1, 7)); !errors.Is(err, store.ErrConflict) {
		t.Fatalf("commit returned %v, want ErrConflict", err)
	}
	same(t, "after the conflict", memos(t, a, 2, 1, 2, 3, 7), []int64{10, 10, 20, -1})
}

func TestFlushIsAConflict(t *testing.T) {
	t.Parallel()
	r := services.StartRedis(t)
	o := redisstore.Options{URL: r.URL(), Shards: 1}
	s := open(t, o)
	commit(t, s, memoCommit(0, 1, 10, 1, 2))
	memos(t, s, 1, 1, 2)
	if err := client(t, r).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), 0, memoCommit(1, 2, 20, 1)); !errors.Is(err, store.ErrConflict) {
		t.Fatalf("commit returned %v, want ErrConflict", err)
	}
	state, err := s.Load(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if state.Position != (store.Position{}) || len(state.Edges) != 0 {
		t.Errorf("after the flush the state is %+v", state)
	}
	same(t, "after the flush", memos(t, s, 0, 1, 2), []int64{-1, -1})
	commit(t, s, memoCommit(0, 1, 30, 1)) // counted again
	same(t, "counted again", memos(t, s, 1, 1, 2), []int64{30, -1})
	// The store's metadata was written again too.
	o.Shards = 2
	if other, err := redisstore.Open(t.Context(), o); err == nil {
		_ = other.Close()
		t.Error("after the flush the store was opened with another number of shards")
	}
}

// TestFlushAtTheBeginning flushes where no position shows it: nothing was ever
// committed, or the log is read again from its beginning.
func TestFlushAtTheBeginning(t *testing.T) {
	t.Parallel()
	r := services.StartRedis(t)
	s := open(t, redisstore.Options{URL: r.URL(), Shards: 1})
	commit(t, s, memoCommit(0, 1, 10, 1, 2))
	commit(t, s, memoCommit(1, 0, 20, 3))
	same(t, "back at the beginning", memos(t, s, 0, 1, 2, 3), []int64{10, 10, 20})
	if err := client(t, r).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	same(t, "after the flush", memos(t, s, 0, 1, 2, 3), []int64{-1, -1, -1})
	commit(t, s, memoCommit(0, 1, 30, 2))
	same(t, "counted again", memos(t, s, 1, 1, 2, 3), []int64{-1, 30, -1})
}

func TestKillAndRestart(t *testing.T) {
	t.Parallel()
	r := services.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	s := open(t, redisstore.Options{URL: r.URL(), Shards: 1})
	at := 0
	for round := range 5 {
		commit(t, s, memoCommit(at, at+1, uint32(at+1), 1, uint64(100+at)))
		at++
		r.Kill()
		if err := s.Commit(t.Context(), 0, memoCommit(at, at+1, 99, 1)); err == nil {
			t.Fatal("a commit to a dead server went through")
		}
		if _, err := s.Load(t.Context(), 0); err == nil {
			t.Fatal("a dead server was read")
		}
		r.Restart()
		// The client finds the new server by itself.
		eventually(t, fmt.Sprint("restart ", round), func() bool {
			p, err := s.Position(context.Background(), 0)
			return err == nil && p == position(at)
		})
		same(t, "after the restart", memos(t, s, at, 1, uint64(99+at), 7), []int64{int64(at), int64(at), -1})
	}
}

// TestRollback puts the server back to an older copy of its data, like a failover
// to a lagging replica.
func TestRollback(t *testing.T) {
	t.Parallel()
	r := services.StartRedis(t)
	s, c := open(t, redisstore.Options{URL: r.URL(), Shards: 1}), client(t, r)
	commit(t, s, memoCommit(0, 1, 10, 1))
	if err := c.Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	same(t, "before", memos(t, s, 1, 1, 2), []int64{10, -1})
	commit(t, s, memoCommit(1, 2, 20, 2))
	r.Kill()
	r.Restart()
	eventually(t, "the server is back", func() bool { return s.Ping(context.Background()) == nil })
	if err := s.Commit(t.Context(), 0, memoCommit(2, 3, 30, 3)); !errors.Is(err, store.ErrConflict) {
		t.Fatalf("commit returned %v, want ErrConflict", err)
	}
	same(t, "rolled back", memos(t, s, 1, 1, 2, 3), []int64{10, -1, -1})
	commit(t, s, memoCommit(1, 2, 20, 2))
	same(t, "again", memos(t, s, 2, 1, 2, 3), []int64{10, 20, -1})
}

func TestFullMemoryRefusesTheWholeCommit(t *testing.T) {
	t.Parallel()
	r := services.StartRedis(t)
	s, c := open(t, redisstore.Options{URL: r.URL(), Shards: 1}), client(t, r)
	commit(t, s, memoCommit(0, 1, 10, 1))
	if err := c.ConfigSet(t.Context(), "maxmemory", "1mb").Err(); err != nil {
		t.Fatal(err)
	}
	err := s.Commit(t.Context(), 0, memoCommit(1, 2, 20, 1, 2))
	if err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Fatalf("commit returned %v, want OOM", err)
	}
	if err := c.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	same(t, "after the refusal", memos(t, s, 1, 1, 2), []int64{10, -1})
	commit(t, s, memoCommit(1, 2, 20, 1, 2))
}

// TestPartOfACommit makes Redis execute a transaction in part, because a key has an
// unexpected type.
func TestPartOfACommit(t *testing.T) {
	t.Parallel()
	r := services.StartRedis(t)
	s, c := open(t, redisstore.Options{URL: r.URL(), Shards: 2}), client(t, r)
	commit(t, s, memoCommit(0, 1, 10, 1))
	if err := c.Set(t.Context(), "hotboard:{s0}:score:articles:all", "not ours", 0).Err(); err != nil {
		t.Fatal(err)
	}
	var damaged *redisstore.DamagedError
	if err := s.Commit(t.Context(), 0, memoCommit(1, 2, 20, 1)); !errors.As(err, &damaged) {
		t.Fatalf("commit returned %v, want DamagedError", err)
	}
	if damaged.Shard != 0 || !strings.Contains(damaged.Error(), "WRONGTYPE") || !strings.Contains(damaged.Error(), "hotboard:{s0}:*") {
		t.Errorf("the error is %v", damaged)
	}
	_, err := s.Load(t.Context(), 0)
	for name, err := range map[string]error{
		"Load":   err,
		"Commit": s.Commit(t.Context(), 0, memoCommit(2, 3, 30, 1)),
		"Read":   func() error { _, err := s.Read(t.Context(), 0, &store.Want{}); return err }(),
		"Open": func() error {
			_, err := redisstore.Open(context.Background(), redisstore.Options{URL: r.URL(), Shards: 2})
			return err
		}(),
	} {
		if !errors.As(err, &damaged) {
			t.Errorf("%s of the damaged shard returned %v", name, err)
		}
	}
	if _, err := s.Load(t.Context(), 1); err != nil {
		t.Errorf("another shard: %v", err)
	}

	// The remedy in the error.
	keys, err := c.Keys(t.Context(), damaged.Pattern).Result()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Unlink(t.Context(), keys...).Err(); err != nil {
		t.Fatal(err)
	}
	commit(t, s, memoCommit(0, 1, 10, 1))
}

// TestMemosExpire checks that memos expire, but not too early, and that the
// store refuses records that it did not write.
func TestMemosExpire(t *testing.T) {
	t.Parallel()
	r := services.StartRedis(t)
	s, c := open(t, redisstore.Options{URL: r.URL(), Shards: 1, MemoKeep: time.Hour}), client(t, r)
	commit(t, s, memoCommit(0, 1, 10, 1, 2, 3))
	commit(t, s, memoCommit(1, 2, 20, 1, 4))
	keys, err := c.Keys(t.Context(), "hotboard:{s0}:day:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) != 1 {
		t.Fatalf("buckets %v, want 1", keys)
	}
	for _, key := range keys {
		ttl, err := c.TTL(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(ttl.Minutes()-25*60) > 1 {
			t.Errorf("%s lives %v, want a day and an hour", key, ttl)
		}
	}
	if err := c.RPush(t.Context(), keys[0], "x").Err(); err != nil {
		t.Fatal(err)
	}
	other := open(t, redisstore.Options{URL: r.URL(), Shards: 1})
	if _, err := other.Read(t.Context(), 0, &store.Want{Memos: []store.Memo{memo(1), memo(2), memo(3), memo(4)}}); err == nil || !strings.Contains(err.Error(), keys[0]) {
		t.Errorf("a bucket that somebody else wrote to was read: %v", err)
	}
}
