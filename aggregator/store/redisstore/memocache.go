package redisstore

import (
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/hotboard/hotboard/aggregator/store"
)

// memoCache holds the buckets of memos that recent folds of a shard used, so that
// only new ones are read from Redis.
//
// It equals Redis as long as nobody else writes to the shard. All of it belongs to
// one position, and it is only used while the shard in Redis is at that position:
// two aggregators that take turns, a conflict, a restored copy or a flush of Redis
// each empty it.
type memoCache struct {
	mu sync.Mutex // held during a whole Read or Commit of the shard

	at            store.Position
	epoch         uint64 // how often the cache was emptied
	shard, shards int
	keep          time.Duration // how long a memo is needed after its term
	// All shards share the memory: a large poll is all in one, which may need most of
	// it.
	buckets *otter.Cache[cacheKey, *memoBucket]
}

// cacheKey identifies a bucket in the cache. Those of an earlier epoch are never
// found, and make room for others in time.
type cacheKey struct {
	shard int
	epoch uint64
	bucketID
}

// newMemoCaches returns a cache for each shard.
func newMemoCaches(shards int, keep time.Duration, maxBytes int64) []*memoCache {
	all := otter.Must(&otter.Options[cacheKey, *memoBucket]{
		MaximumWeight: uint64(maxBytes),
		Weigher:       func(_ cacheKey, b *memoBucket) uint32 { return b.bytes() },
	})
	caches := make([]*memoCache, shards)
	for n := range caches {
		caches[n] = &memoCache{shard: n, shards: shards, keep: keep, buckets: all}
	}
	return caches
}

// moveTo makes p the cache's position, and empties the cache if it was at another
// one.
func (c *memoCache) moveTo(p store.Position) {
	if c.at != p {
		c.clear()
		c.at = p
	}
}

func (c *memoCache) clear() {
	c.epoch++
	c.at = store.Position{}
}

// get returns a bucket. It is new, and not cached, when it must be read, also
// because Redis may have removed the key or is about to.
func (c *memoCache) get(id bucketID, now time.Time) *memoBucket {
	b, ok := c.buckets.GetIfPresent(cacheKey{c.shard, c.epoch, id})
	if ttl := id.term.Keep(c.keep); !ok || ttl > 0 && b.expires.Sub(now) < ttl/7 {
		return &memoBucket{id: id}
	}
	return b
}

// put caches a bucket that is as in Redis, or has changed.
func (c *memoCache) put(b *memoBucket) {
	b.cached = true
	c.buckets.Set(cacheKey{c.shard, c.epoch, b.id}, b)
}
