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

func TestSeenCacheIsBounded(t *testing.T) {
	t.Parallel()
	const maxBytes = 20_000
	c, now := newSeenCache(time.Hour, maxBytes), time.Now()
	id := func(i int) bucketID { return bucketID{seenDay{"articles", 0}, i} }
	for i := range 500 {
		c.put(id(i), make([]byte, 120), now)
		c.get(id(0), now) // used all the time
		c.trim()
		var sum int64
		for _, e := range c.buckets {
			sum += e.Value.(*seenBucket).bytes()
		}
		if c.bytes != sum || sum > maxBytes {
			t.Fatalf("after %d buckets the cache says %d bytes, holds %d, and may hold %d", i+1, c.bytes, sum, maxBytes)
		}
	}
	for i, want := range map[int]bool{0: true, 499: true, 498: true, 1: false, 250: false} {
		if got := c.get(id(i), now) != nil; got != want {
			t.Errorf("bucket %d is there: %v, want %v", i, got, want)
		}
	}
}

// seenTest is a store of one shard with a clock that the test moves.
type seenTest struct {
	*testing.T
	s     *Store
	redis *redis.Client
	now   time.Time
	at    store.Position
}

const seenTestDay = 86400

func newSeenTest(t *testing.T, o Options) *seenTest {
	r := services.StartRedis(t)
	o.URL, o.Shards, o.Logger = r.URL(), 1, slog.New(slog.DiscardHandler)
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: r.Socket})
	t.Cleanup(func() { _, _ = s.Close(), c.Close() }) // the server ends with the test
	st := &seenTest{T: t, s: s, redis: c, now: time.Now()}
	s.now = func() time.Time { return st.now }
	return st
}

func (t *seenTest) commit(ms int64, pairs ...uint64) {
	t.Helper()
	c := &store.Commit{From: t.at, To: store.Position{Seq: t.at.Seq + 1}}
	for _, pair := range pairs {
		c.Seen = append(c.Seen, store.SeenAt{Seen: store.Seen{List: "articles", Day: seenTestDay, Pair: pair}, Time: seenTestDay*1000 + ms})
	}
	if err := t.s.Commit(context.Background(), 0, c); err != nil {
		t.Fatal(err)
	}
	t.at = c.To
}

// expect reads pairs; ms is -1 for a pair that was not seen.
func (t *seenTest) expect(what string, ms int64, pairs ...uint64) {
	t.Helper()
	var want store.Want
	for _, pair := range pairs {
		want.Seen = append(want.Seen, store.Seen{List: "articles", Day: seenTestDay, Pair: pair})
	}
	have, err := t.s.Read(context.Background(), 0, &want)
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range have.Seen {
		wantAt := seenTestDay*1000 + ms
		if ms < 0 {
			wantAt = store.NotSeen
		}
		if at != wantAt {
			t.Errorf("%s: pair %d was seen at %d, want %d", what, pairs[i], at, wantAt)
		}
	}
}

func (t *seenTest) key(pair uint64) string {
	return t.s.shards[0].keys.seen(seenDay{"articles", seenTestDay}, bucketOf(pair))
}

func (t *seenTest) ttl(pair uint64) time.Duration {
	t.Helper()
	ttl, err := t.redis.PTTL(context.Background(), t.key(pair)).Result()
	if err != nil {
		t.Fatal(err)
	}
	return ttl
}

// TestBucketThatExpired lets Redis remove a bucket that the process remembers.
func TestBucketThatExpired(t *testing.T) {
	t.Parallel()
	st := newSeenTest(t, Options{SeenTTL: 7 * time.Hour})
	st.commit(10, 1)
	st.expect("written", 10, 1)
	st.commit(20, 1)
	st.expect("written again", 20, 1)
	if err := st.redis.Del(t.Context(), st.key(1)).Err(); err != nil {
		t.Fatal(err)
	}
	st.now = st.now.Add(7 * time.Hour)
	st.commit(30, 1) // must not write into the middle of a string that is gone
	data, err := st.redis.Get(t.Context(), st.key(1)).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if len(data) != recordBytes {
		t.Errorf("the bucket has %d bytes, want the one record of %d", len(data), recordBytes)
	}
	if ttl := st.ttl(1); ttl <= 0 {
		t.Errorf("the new bucket has no time to live: %v", ttl)
	}
	st.expect("written after it expired", 30, 1)
	st.now = st.now.Add(7 * time.Hour)
	if err := st.redis.Del(t.Context(), st.key(1)).Err(); err != nil {
		t.Fatal(err)
	}
	st.expect("expired", -1, 1)
}

// TestBucketInUseStays puts off the end of a bucket that is written to or read.
func TestBucketInUseStays(t *testing.T) {
	t.Parallel()
	st := newSeenTest(t, Options{SeenTTL: 7 * time.Hour})
	st.commit(10, 1)
	shorten := func() { // as if hours had passed on the server too
		t.Helper()
		if err := st.redis.PExpire(t.Context(), st.key(1), time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
	}
	shorten()
	st.expect("read for the first time", 10, 1)
	if ttl := st.ttl(1); ttl < 6*time.Hour {
		t.Errorf("after it was read, the bucket lives %v", ttl)
	}
	shorten()
	st.now = st.now.Add(10 * time.Minute)
	st.commit(20, 1)
	if ttl := st.ttl(1); ttl > time.Hour {
		t.Errorf("minutes after the last time its end was put off again: %v", ttl)
	}
	st.now = st.now.Add(2 * time.Hour)
	st.commit(30, 1)
	if ttl := st.ttl(1); ttl < 6*time.Hour {
		t.Errorf("after it was written to, the bucket lives %v", ttl)
	}
	st.expect("at last", 30, 1)
}

// TestTinyCache counts right when nothing stays in the cache from one call to
// the next.
func TestTinyCache(t *testing.T) {
	t.Parallel()
	st := newSeenTest(t, Options{CacheBytes: 1})
	pairs := []uint64{1, 2, 3, 4, 5}
	for ms := range int64(5) {
		st.commit(ms, pairs...)
		st.expect("with a tiny cache", ms, pairs...)
		st.commit(ms+100, pairs...)
		st.expect("with a tiny cache", ms+100, pairs...)
	}
	if n := len(st.s.shards[0].seen.buckets); n != 0 {
		t.Errorf("%d buckets are in the cache", n)
	}
}
