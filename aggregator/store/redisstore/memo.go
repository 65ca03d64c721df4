package redisstore

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// buckets is the number of Redis keys for the memos of a term of a list of views in
// a shard. A list of votes, all in one shard, has as many there as a list of views
// has in all shards. Each costs about 250 bytes: with 250 memos in it, a byte a memo.
const buckets = 256

// bucketID identifies a Redis key that holds memos: one bucket of a list and term.
type bucketID struct {
	list   string
	term   calendar.Period
	start  int64 // seconds since the Unix epoch
	bucket int
}

// bucketOf returns the bucket of a memo. Its number implies the highest byte of the
// key, because n is a multiple of 256.
func bucketOf(m *store.Memo, shards int) bucketID {
	n := buckets
	if m.Kind == hit.Vote {
		n *= shards
	}
	b, _ := bits.Mul64(m.Key, uint64(n))
	return bucketID{m.List, m.Term, m.Start, int(b)}
}

// A record is a memo in a bucket, little-endian: the key without its highest byte,
// and the value.
const (
	recordBytes = 11
	keyBytes    = 7
)

func appendRecord(dst []byte, key uint64, value uint32) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, key)
	return binary.LittleEndian.AppendUint32(dst[:len(dst)-1], value)
}

// memoBucket is the content of a bucket. It may be empty, which is worth caching.
type memoBucket struct {
	id    bucketID
	parts [16][]byte // records by the lowest bits of their keys, so that a search is short
	memos int
	// records is how many Redis has, with the old ones of memos that changed.
	records int
	cached  bool
	expires time.Time // when Redis removes the key, unless extended; meaningless where it never does
}

// find returns the part and the start of a key's record in it, or -1.
func (b *memoBucket) find(key uint64) (part *[]byte, at int) {
	const mask = 1<<(8*keyBytes) - 1
	part = &b.parts[key%16]
	for at = len(*part) - recordBytes; at >= 0; at -= recordBytes {
		if (binary.LittleEndian.Uint64((*part)[at:])^key)&mask == 0 {
			return part, at
		}
	}
	return part, -1
}

// value returns the value of a key, or [store.NoMemo].
func (b *memoBucket) value(key uint64) int64 {
	part, at := b.find(key)
	if at < 0 {
		return store.NoMemo
	}
	return int64(binary.LittleEndian.Uint32((*part)[at+keyBytes:]))
}

func (b *memoBucket) set(key uint64, value uint32) {
	b.records++
	part, at := b.find(key)
	if at < 0 {
		b.memos++
		*part = appendRecord(*part, key, value)
		return
	}
	binary.LittleEndian.PutUint32((*part)[at+keyBytes:], value)
}

// load adds the elements of the bucket in Redis.
func (b *memoBucket) load(elements []string) error {
	for _, records := range elements {
		if len(records)%recordBytes != 0 {
			return fmt.Errorf("an element has %d bytes, not a multiple of %d: another program has written to it; remove the key", len(records), recordBytes)
		}
		for ; records != ""; records = records[recordBytes:] {
			var key [8]byte
			copy(key[:], records[:keyBytes])
			b.set(binary.LittleEndian.Uint64(key[:]), binary.LittleEndian.Uint32([]byte(records[keyBytes:recordBytes])))
		}
	}
	return nil
}

// bloated reports that Redis has so many old records that the bucket should be
// written anew.
func (b *memoBucket) bloated() bool { return b.cached && b.records > b.memos+b.memos/4+16 }

// all returns a record of each memo.
func (b *memoBucket) all() []byte {
	all := make([]byte, 0, b.memos*recordBytes)
	for _, part := range b.parts {
		all = append(all, part...)
	}
	return all
}

// bytes returns roughly the memory of a cached bucket.
func (b *memoBucket) bytes() uint32 {
	bytes := 800
	for _, part := range b.parts {
		bytes += cap(part)
	}
	return uint32(bytes)
}
