package redisstore

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/e2e/services"
)

func TestMemoCacheIsBounded(t *testing.T) {
	t.Parallel()
	const maxBytes = 20_000
	caches, now := newMemoCaches(4, time.Hour, maxBytes), time.Now()
	id := func(i int) bucketID { return bucketID{"articles", store.Day, 0, i} }
	check := func(when string) {
		t.Helper()
		var all int64
		for _, c := range caches {
			var sum int64
			for _, e := range c.buckets {
				sum += e.Value.(*memoBucket).bytes()
			}
			if c.bytes != sum || len(c.buckets) != c.recent.Len() {
				t.Fatalf("%s a cache says %d bytes and holds %d", when, c.bytes, sum)
			}
			all += sum
		}
		if used := caches[0].budget.used.Load(); used != all || all > maxBytes {
			t.Fatalf("%s the caches say %d bytes, hold %d, and may hold %d", when, used, all, maxBytes)
		}
	}
	fill := func(c *memoCache, n int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for i := range n {
			c.put(id(i), make([]byte, 120), now)
			c.get(id(0), now) // used all the time
			c.trim()
		}
	}
	large := caches[0]
	fill(large, 500)
	check("after one was filled")
	if large.bytes < maxBytes*9/10 {
		t.Errorf("one cache has %d bytes, though the others need nothing", large.bytes)
	}
	for i, want := range map[int]bool{0: true, 499: true, 498: true, 1: false, 250: false} {
		if got := large.get(id(i), now) != nil; got != want {
			t.Errorf("bucket %d is there: %v, want %v", i, got, want)
		}
	}
	// Idle caches give way to the others, down to their share.
	for _, c := range caches[1:] {
		fill(c, 100)
		check("after another was filled")
	}
	for i, c := range caches {
		if c.bytes < maxBytes/4*8/10 {
			t.Errorf("cache %d has %d bytes of its %d", i, c.bytes, maxBytes/4)
		}
	}
	large.clear()
	check("after one was cleared")
}

// memoTest is a store of one shard with a clock that the test moves.
type memoTest struct {
	*testing.T
	s     *Store
	redis *redis.Client
	now   time.Time
	at    store.Position
	term  store.Term
}

func newMemoTest(t *testing.T, o Options) *memoTest {
	r := services.StartRedis(t)
	o.URL, o.Shards, o.Logger = r.URL(), 1, slog.New(slog.DiscardHandler)
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: r.Socket})
	t.Cleanup(func() { _, _ = s.Close(), c.Close() }) // the server ends with the test
	mt := &memoTest{T: t, s: s, redis: c, now: time.Now(), term: store.Day}
	s.now = func() time.Time { return mt.now }
	return mt
}

func (t *memoTest) memo(key uint64) store.Memo {
	return store.Memo{List: "articles", Term: t.term, Start: 86400, Key: key}
}

func (t *memoTest) commit(value uint32, keys ...uint64) {
	t.Helper()
	c := &store.Commit{From: t.at, To: store.Position{Seq: t.at.Seq + 1}}
	for _, key := range keys {
		c.Memos = append(c.Memos, store.MemoValue{Memo: t.memo(key), Value: value})
	}
	if err := t.s.Commit(context.Background(), 0, c); err != nil {
		t.Fatal(err)
	}
	t.at = c.To
}

// expect reads memos.
func (t *memoTest) expect(what string, value int64, keys ...uint64) {
	t.Helper()
	var want store.Want
	for _, key := range keys {
		want.Memos = append(want.Memos, t.memo(key))
	}
	have, err := t.s.Read(context.Background(), 0, &want)
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range have.Memos {
		if got != value {
			t.Errorf("%s: memo %d is %d, want %d", what, keys[i], got, value)
		}
	}
}

func (t *memoTest) key(key uint64) string {
	m := t.memo(key)
	return t.s.shards[0].keys.memos(t.s.shards[0].memos.bucketOf(&m))
}

// ttl returns how long Redis keeps a memo; -1ns means for ever.
func (t *memoTest) ttl(key uint64) time.Duration {
	t.Helper()
	ttl, err := t.redis.PTTL(context.Background(), t.key(key)).Result()
	if err != nil {
		t.Fatal(err)
	}
	return ttl
}

// keep makes a memo of a day live for 28 hours and extends it every 4.
const keep = 4 * time.Hour

// TestBucketThatExpired lets Redis remove a bucket that the process has cached.
func TestBucketThatExpired(t *testing.T) {
	t.Parallel()
	mt := newMemoTest(t, Options{MemoKeep: keep})
	mt.commit(10, 1)
	mt.expect("written", 10, 1)
	mt.commit(20, 1)
	mt.expect("written again", 20, 1)
	if err := mt.redis.Del(t.Context(), mt.key(1)).Err(); err != nil {
		t.Fatal(err)
	}
	mt.now = mt.now.Add(28 * time.Hour)
	mt.commit(30, 1) // must not write into the middle of an expired string
	data, err := mt.redis.Get(t.Context(), mt.key(1)).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if len(data) != recordBytes {
		t.Errorf("the bucket has %d bytes, want the one record of %d", len(data), recordBytes)
	}
	if ttl := mt.ttl(1); ttl <= 0 {
		t.Errorf("the new bucket has no time to live: %v", ttl)
	}
	mt.expect("written after it expired", 30, 1)
	mt.now = mt.now.Add(28 * time.Hour)
	if err := mt.redis.Del(t.Context(), mt.key(1)).Err(); err != nil {
		t.Fatal(err)
	}
	mt.expect("expired", store.NoMemo, 1)
}

// TestBucketInUseStays extends a bucket that is written or read.
func TestBucketInUseStays(t *testing.T) {
	t.Parallel()
	mt := newMemoTest(t, Options{MemoKeep: keep})
	mt.commit(10, 1)
	shorten := func() { // as if hours had passed on the server too
		t.Helper()
		if err := mt.redis.PExpire(t.Context(), mt.key(1), 4*time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
	}
	shorten()
	mt.expect("read for the first time", 10, 1)
	if ttl := mt.ttl(1); ttl < 24*time.Hour {
		t.Errorf("after it was read, the bucket lives %v", ttl)
	}
	shorten()
	mt.now = mt.now.Add(40 * time.Minute)
	mt.commit(20, 1)
	if ttl := mt.ttl(1); ttl > 4*time.Hour {
		t.Errorf("minutes after the last time its end was put off again: %v", ttl)
	}
	mt.now = mt.now.Add(8 * time.Hour)
	mt.commit(30, 1)
	if ttl := mt.ttl(1); ttl < 24*time.Hour {
		t.Errorf("after it was written to, the bucket lives %v", ttl)
	}
	mt.expect("at last", 30, 1)
}

// TestHowLongMemosLive checks the lifetime of every term: memos of a campaign never
// expire, in Redis or in the cache.
func TestHowLongMemosLive(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	mt := newMemoTest(t, Options{MemoKeep: 3 * day})
	for term, want := range map[store.Term]time.Duration{store.Day: 4 * day, store.Week: 10 * day, store.Month: 34 * day, store.Ever: -1} {
		mt.term = term
		mt.commit(10, 1)
		for _, when := range []string{"written", "read from Redis"} {
			if ttl := mt.ttl(1); ttl > want || ttl < want-time.Minute {
				t.Errorf("a memo of a term %s lives %v when %s, want %v", term, ttl, when, want)
			}
			mt.s.shards[0].memos.clear()
			mt.expect("read", 10, 1)
		}
	}
	mt.term = store.Ever
	mt.now = mt.now.Add(1000 * day)
	mt.commit(20, 1)
	mt.expect("years later", 20, 1)
	if ttl := mt.ttl(1); ttl != -1 {
		t.Errorf("years later it lives %v", ttl)
	}
}

// TestTinyCache counts right when nothing stays in the cache between two calls.
func TestTinyCache(t *testing.T) {
	t.Parallel()
	mt := newMemoTest(t, Options{CacheBytes: 1})
	keys := []uint64{1, 2, 3, 4, 5}
	for value := range uint32(5) {
		mt.commit(value, keys...)
		mt.expect("with a tiny cache", int64(value), keys...)
		mt.commit(value+100, keys...)
		mt.expect("with a tiny cache", int64(value)+100, keys...)
	}
	if n := len(mt.s.shards[0].memos.buckets); n != 0 {
		t.Errorf("%d buckets are in the cache", n)
	}
}
