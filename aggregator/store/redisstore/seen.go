package redisstore

import (
	"container/list"
	"encoding/binary"
	"sync"
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
)

// seenDay is a day of a list.
type seenDay struct {
	list  string
	start int64 // seconds since the Unix epoch
}

type bucketID struct {
	day    seenDay
	bucket int
}

// seenCache holds the buckets of remembered visits that recent folds of a shard
// asked for, so that only new ones are read from Redis.
//
// It is as good as Redis itself as long as nobody else writes to the shard. All
// of it is of one position, and it is only used where Redis has the shard at
// that position: two aggregators that take turns, a conflict, a restored copy
// or a flush of Redis each empty it.
type seenCache struct {
	mu sync.Mutex // held over a whole Read or Commit of the shard

	at      store.Position
	buckets map[bucketID]*list.Element // of *seenBucket
	recent  *list.List                 // the one used last is in front
	bytes   int64

	ttl      time.Duration
	maxBytes int64
}

// seenBucket is the content of one key. It may be empty, which is worth knowing.
type seenBucket struct {
	id      bucketID
	records []byte
	expires time.Time // when Redis removes the key, unless it is put off
}

// bucketOverhead is about what a bucket takes in memory beside its records.
const bucketOverhead = 200

func newSeenCache(ttl time.Duration, maxBytes int64) *seenCache {
	return &seenCache{buckets: map[bucketID]*list.Element{}, recent: list.New(), ttl: ttl, maxBytes: maxBytes}
}

// moveTo makes the cache one of the position p, and empties it if it was of another.
func (c *seenCache) moveTo(p store.Position) {
	if c.at != p {
		c.clear()
		c.at = p
	}
}

func (c *seenCache) clear() {
	clear(c.buckets)
	c.recent.Init()
	c.bytes = 0
	c.at = store.Position{}
}

// get returns a bucket, or nil when it has to be read: also when Redis may have
// removed the key by now, or is about to.
func (c *seenCache) get(id bucketID, now time.Time) *seenBucket {
	e, ok := c.buckets[id]
	if !ok {
		return nil
	}
	b := e.Value.(*seenBucket)
	if b.expires.Sub(now) < c.ttl/7 {
		c.remove(e)
		return nil
	}
	c.recent.MoveToFront(e)
	return b
}

func (c *seenCache) put(id bucketID, records []byte, now time.Time) *seenBucket {
	b := &seenBucket{id: id, records: records, expires: now.Add(c.ttl)}
	c.buckets[id] = c.recent.PushFront(b)
	c.bytes += b.bytes()
	return b
}

func (c *seenCache) remove(e *list.Element) {
	b := e.Value.(*seenBucket)
	c.recent.Remove(e)
	delete(c.buckets, b.id)
	c.bytes -= b.bytes()
}

// trim drops the buckets that were not used for longest until the rest fits.
func (c *seenCache) trim() {
	for c.bytes > c.maxBytes && c.recent.Len() > 0 {
		c.remove(c.recent.Back())
	}
}

func (b *seenBucket) bytes() int64 { return int64(cap(b.records)) + bucketOverhead }

// find returns where the last record of a pair begins, or -1.
func (b *seenBucket) find(pair uint64) int {
	for i := len(b.records) - recordBytes; i >= 0; i -= recordBytes {
		if binary.LittleEndian.Uint64(b.records[i:]) == pair {
			return i
		}
	}
	return -1
}

// lastSeen returns when a pair was seen last, in milliseconds since the Unix epoch.
func (b *seenBucket) lastSeen(pair uint64) int64 {
	i := b.find(pair)
	if i < 0 {
		return store.NotSeen
	}
	return b.id.day.start*1000 + int64(binary.LittleEndian.Uint32(b.records[i+8:]))
}

func appendRecord(dst []byte, s *store.SeenAt) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, s.Pair)
	return binary.LittleEndian.AppendUint32(dst, uint32(s.Time-s.Day*1000)) // fits: Commit.Valid
}
