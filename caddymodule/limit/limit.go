// Package limit refuses what comes too often, by the limits of a ruleset.
//
// # What is counted
//
// A limit counts the hits of each key, that is of each combination of what it
// counts by, in each list apart and in one or more windows. A hit is admitted when
// every window of every limit that applies has room for it, and only then is it
// charged to all of them; both happen in one step, whatever else happens at the
// same time. A hit that is refused uses up nothing.
//
// A window up to a minute is a rate: a token bucket of golang.org/x/time/rate that
// holds Burst hits and fills up evenly with Max hits per Per. A calendar window
// holds Max hits from its beginning to its end on the clock of the list's zone; a
// campaign has neither.
//
// A bonus raises the max for hits of a channel. It does not count them apart: all
// hits of a key share one count. A bucket goes as far below empty as the bonus of
// the hit's channel is large, and has to fill up again from there.
//
// A limit in shadow is judged as if it were added to those that are none: what
// they refuse, or it would refuse itself, is not charged to it. Whether it would
// refuse is told either way. Limits in shadow know nothing of each other.
//
// # Where the counts are
//
// Views are counted by this edge alone, under a hash that means nothing outside
// this process. The calendar windows of a vote are counted under the keys of its
// quotas, which all edges share and aggregators count exactly: [Rules.Learn] takes
// over what they found.
//
// # When there are too many keys
//
// A [Limiter] holds a count for as many keys as it may. When there is no room for
// another one it forgets those that are worth nothing: a window that is over, a
// bucket that is full again. It never forgets one that is worth something, so no
// flood of keys gives anybody a fresh start. A key that still finds no room is
// judged by an estimate, see sketch, until there is room again: it gets as much as
// the limit says, or a little more, but neither everything nor nothing.
package limit

import (
	"hash/maphash"
	"math/bits"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/hotboard/hotboard/ruleset"
)

// Hit is what limits look at.
type Hit struct {
	List    *ruleset.List
	Item    string
	Channel string
	Device  string
	IP      netip.Addr
	// User is whom the site knows; "" where it knows nobody, and the visitor stands in.
	User string
	// VisitorIP and VisitorText tell visitors apart, together.
	VisitorIP   netip.Addr
	VisitorText string
}

const (
	maxShards = 256
	// shardKeys is how many keys there may be for each shard, so that few keys
	// are not scattered over many shards, of which each has its own least size.
	shardKeys = 1024
)

// Limiter holds the counts. It outlives configurations.
type Limiter struct {
	seed      maphash.Seed
	shards    []shard
	shardBits uint
	maxKeys   atomic.Int64
	keys      atomic.Int64
	scratch   sync.Pool

	mu       sync.Mutex          // held to change the counters
	counters map[string]*counter // by identity
	lastID   uint32
	byID     atomic.Pointer[map[uint32]*counter] // never written in place
}

// New returns a Limiter that holds the counts of at most maxKeys keys. A key is
// one for each window that a hit is charged to.
func New(maxKeys int) *Limiter {
	l := &Limiter{
		seed:     maphash.MakeSeed(),
		counters: make(map[string]*counter),
	}
	n := min(max(maxKeys/shardKeys, 1), maxShards)
	l.shardBits = uint(bits.Len(uint(n - 1)))
	l.shards = make([]shard, 1<<l.shardBits)
	l.scratch.New = func() any { return new(scratch) }
	l.byID.Store(&map[uint32]*counter{})
	l.SetMaxKeys(maxKeys)
	return l
}

// SetMaxKeys changes how many keys there may be. Keys that are held already are
// not forgotten.
func (l *Limiter) SetMaxKeys(n int) { l.maxKeys.Store(int64(n)) }

// Stats is how a [Limiter] is doing.
type Stats struct {
	// Keys is how many keys are held, MaxKeys how many there may be.
	Keys, MaxKeys int
	// Estimated is how often a hit was judged by an estimate, because there was no
	// room for its key; Reclaimed how many keys were forgotten that were worth nothing.
	Estimated, Reclaimed uint64
}

// Stats returns how the Limiter is doing.
func (l *Limiter) Stats() Stats {
	s := Stats{Keys: int(l.keys.Load()), MaxKeys: int(l.maxKeys.Load())}
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		s.Estimated += sh.estimated
		s.Reclaimed += sh.reclaimed
		sh.mu.Unlock()
	}
	return s
}

func (l *Limiter) shardOf(key uint64) uint64 { return key >> 32 >> (32 - l.shardBits) }

// counterOf returns the counter of an id, or nil when it was dropped.
func (l *Limiter) counterOf(id uint32) *counter { return (*l.byID.Load())[id] }
