package redisstore

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/e2e/services"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// TestBuckets checks that a bucket tells the byte of the key that its records leave
// out, whatever the number of shards, and that all buckets are used.
func TestBuckets(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	for shards := 1; shards <= hit.MaxShards; shards++ {
		for _, kind := range []hit.Kind{hit.View, hit.Vote} {
			n := 1
			if kind == hit.Vote {
				n = shards
			}
			used := map[int]bool{}
			for top := range uint64(256) {
				for _, key := range []uint64{top << 56, top<<56 | r.Uint64()>>8, top<<56 | math.MaxUint64>>8} {
					b := bucketOf(&store.Memo{Kind: kind, Key: key}, shards).bucket
					if b/n != int(top) {
						t.Fatalf("of %d shards, bucket %d of kind %d has the key %#x", shards, b, kind, key)
					}
					used[b] = true
				}
			}
			if len(used) < 256*min(n, 2) {
				t.Errorf("of %d shards, memos of kind %d are in %d buckets", shards, kind, len(used))
			}
		}
	}
}

func TestMemoCacheIsBounded(t *testing.T) {
	t.Parallel()
	const maxBytes = 100_000
	caches := newMemoCaches(4, time.Hour, maxBytes)
	fill := func(c *memoCache, n int) {
		for i := range n {
			b := c.get(bucketID{"articles", calendar.All, 0, i}, time.Now())
			for key := range uint64(32) {
				b.set(key, 1)
			}
			c.put(b)
		}
	}
	check := func(when string) {
		t.Helper()
		caches[0].buckets.CleanUp()
		var bytes uint32
		for _, b := range caches[0].buckets.All() {
			bytes += b.bytes()
		}
		if bytes > maxBytes || bytes < maxBytes*8/10 {
			t.Errorf("%s the caches have %d bytes of %d", when, bytes, maxBytes)
		}
	}
	fill(caches[0], 500)
	check("after one was filled") // though the others need nothing
	for _, c := range caches[1:] {
		fill(c, 500)
	}
	check("after all were filled")
}

// memoTest is a store of one shard with a clock that the test moves.
type memoTest struct {
	*testing.T
	s     *Store
	redis *redis.Client
	now   time.Time
	at    store.Position
	term  calendar.Period
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
	mt := &memoTest{T: t, s: s, redis: c, now: time.Now(), term: calendar.Day}
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
	return t.s.shards[0].keys.memos(bucketOf(&m, 1))
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

// elements returns the elements of the bucket of a memo.
func (t *memoTest) elements(key uint64) []string {
	t.Helper()
	elements, err := t.redis.LRange(context.Background(), t.key(key), 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	return elements
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
	mt.commit(30, 1) // must not write as if the others were still there
	if elements := mt.elements(1); len(elements) != 1 || len(elements[0]) != recordBytes {
		t.Errorf("the bucket has %q, want one record", elements)
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
	for term, want := range map[calendar.Period]time.Duration{calendar.Day: 4 * day, calendar.Week: 10 * day, calendar.Month: 34 * day, calendar.All: -1} {
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
	mt.term = calendar.All
	mt.now = mt.now.Add(1000 * day)
	mt.commit(20, 1)
	mt.expect("years later", 20, 1)
	if ttl := mt.ttl(1); ttl != -1 {
		t.Errorf("years later it lives %v", ttl)
	}
}

// TestOldRecordsGo changes the same memos again and again: a bucket must not keep
// all of their old records, nor lose its time to live when it is written anew.
func TestOldRecordsGo(t *testing.T) {
	t.Parallel()
	mt := newMemoTest(t, Options{MemoKeep: keep})
	const memos, changing = 100, 50
	var keys []uint64 // of one bucket
	for key := range uint64(memos) {
		keys = append(keys, key)
	}
	mt.commit(0, keys...)
	for value := range uint32(100) {
		if value%10 == 9 {
			mt.s.shards[0].memos.clear()
		}
		mt.expect("unchanged", 0, keys[changing:]...)
		mt.commit(value, keys[:changing]...)
		mt.expect("changed", int64(value), keys[:changing]...)
		if n := len(strings.Join(mt.elements(1), "")) / recordBytes; n > memos*5/4+16 {
			t.Fatalf("after %d changes the bucket has %d records of %d memos", value, n, memos)
		}
		if ttl := mt.ttl(1); ttl < 27*time.Hour {
			t.Fatalf("after %d changes the bucket lives %v", value, ttl)
		}
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
	mt.s.shards[0].memos.buckets.CleanUp()
	if n := mt.s.shards[0].memos.buckets.EstimatedSize(); n != 0 {
		t.Errorf("%d buckets are in the cache", n)
	}
}
