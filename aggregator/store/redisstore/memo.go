package redisstore

import (
	"container/list"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
)

// bucketID identifies a Redis key that holds memos: one bucket of a list and term.
type bucketID struct {
	list   string
	term   store.Term
	start  int64 // seconds since the Unix epoch
	bucket int
}

// memoCache holds the buckets of memos that recent folds of a shard used, so that
// only new ones are read from Redis.
//
// It equals Redis as long as nobody else writes to the shard. All of it belongs to
// one position, and it is only used while the shard in Redis is at that position:
// two aggregators that take turns, a conflict, a restored copy or a flush of Redis
// each empty it.
type memoCache struct {
	mu sync.Mutex // held during a whole Read or Commit of the shard

	at      store.Position
	buckets map[bucketID]*list.Element // of *memoBucket
	recent  *list.List                 // most recently used first
	bytes   int64

	keep   time.Duration // how long a memo is needed after its term
	budget *budget
}

// budget is the memory that the caches of all shards share. A large poll is all in
// one shard, which may need most of it.
type budget struct {
	max    int64
	used   atomic.Int64
	caches []*memoCache
}

// memoBucket is the content of one key. It may be empty, which is worth caching.
type memoBucket struct {
	id      bucketID
	records []byte
	expires time.Time // when Redis removes the key, unless extended; meaningless where it never does
}

// bucketOverhead is roughly the memory of a bucket beside its records.
const bucketOverhead = 200

// newMemoCaches returns a cache for each shard.
func newMemoCaches(shards int, keep time.Duration, maxBytes int64) []*memoCache {
	b := &budget{max: maxBytes}
	for range shards {
		b.caches = append(b.caches, &memoCache{buckets: map[bucketID]*list.Element{}, recent: list.New(), keep: keep, budget: b})
	}
	return b.caches
}

// bucketOf returns the bucket of a memo.
func (c *memoCache) bucketOf(m *store.Memo) bucketID {
	n := buckets
	if m.Kind == hit.Vote {
		n *= len(c.budget.caches)
	}
	return bucketID{m.List, m.Term, m.Start, bucketOf(m.Key, n)}
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
	clear(c.buckets)
	c.recent.Init()
	c.grow(-c.bytes)
	c.at = store.Position{}
}

// get returns a bucket, or nil when it must be read, also because Redis may have
// removed the key or is about to.
func (c *memoCache) get(id bucketID, now time.Time) *memoBucket {
	e, ok := c.buckets[id]
	if !ok {
		return nil
	}
	b := e.Value.(*memoBucket)
	if ttl := id.term.Keep(c.keep); ttl > 0 && b.expires.Sub(now) < ttl/7 {
		c.remove(e)
		return nil
	}
	c.recent.MoveToFront(e)
	return b
}

func (c *memoCache) put(id bucketID, records []byte, now time.Time) *memoBucket {
	b := &memoBucket{id: id, records: records, expires: now.Add(id.term.Keep(c.keep))}
	c.buckets[id] = c.recent.PushFront(b)
	c.grow(b.bytes())
	return b
}

func (c *memoCache) remove(e *list.Element) {
	b := e.Value.(*memoBucket)
	c.recent.Remove(e)
	delete(c.buckets, b.id)
	c.grow(-b.bytes())
}

func (c *memoCache) grow(bytes int64) {
	c.bytes += bytes
	c.budget.used.Add(bytes)
}

// trim brings the caches back into their budget after this one has grown.
func (c *memoCache) trim() {
	c.shrink()
	for _, other := range c.budget.caches {
		if c.budget.fits() {
			return
		}
		// A busy shard trims its cache itself; an idle one would keep its memory.
		if other != c && other.mu.TryLock() {
			other.shrink()
			other.mu.Unlock()
		}
	}
}

func (b *budget) fits() bool { return b.used.Load() <= b.max }

// shrink drops the least recently used buckets until the budget has room, or the
// cache is down to its share.
func (c *memoCache) shrink() {
	share := c.budget.max / int64(len(c.budget.caches))
	for c.bytes > share && !c.budget.fits() {
		c.remove(c.recent.Back())
	}
}

func (b *memoBucket) bytes() int64 { return int64(cap(b.records)) + bucketOverhead }

// find returns the start of the last record of a key, or -1.
func (b *memoBucket) find(key uint64) int {
	for i := len(b.records) - recordBytes; i >= 0; i -= recordBytes {
		if binary.LittleEndian.Uint64(b.records[i:]) == key {
			return i
		}
	}
	return -1
}

// value returns the value of a key, or [store.NoMemo].
func (b *memoBucket) value(key uint64) int64 {
	i := b.find(key)
	if i < 0 {
		return store.NoMemo
	}
	return int64(binary.LittleEndian.Uint32(b.records[i+8:]))
}

func appendRecord(dst []byte, m *store.MemoValue) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, m.Key)
	return binary.LittleEndian.AppendUint32(dst, m.Value)
}
