// Package limit refuses excessive hits, by the limits of the rules.
//
// # Counting
//
// A limit counts the hits of each key, which is a combination of the values that
// it counts by. It counts each list separately and in one or more windows. The
// limiter admits a hit if every window of every limit that applies has room for
// it, and only then charges the hit to all of them. Both happen in one atomic
// step. A refused hit uses up nothing.
//
// A window up to a minute is a rate: a token bucket of golang.org/x/time/rate
// that holds Burst hits and refills evenly with Max hits per Per. A calendar
// window admits Max hits from its beginning to its end on the clock of the list's
// zone; a campaign has no beginning and no end.
//
// A bonus raises the max for hits of a channel. It does not count them
// separately: all hits of a key share one count. With a bonus, a bucket may go
// below empty by the bonus of the hit's channel, and has to refill from there.
//
// The limiter judges a limit in shadow as if it were added to the active limits:
// hits that they or it refuse are not charged to it. A decision always reports
// whether a limit in shadow would refuse. Limits in shadow do not affect each
// other.
//
// # Location of the counts
//
// This edge alone counts views, under a hash that has no meaning outside this
// process. It counts the calendar windows of a vote under the keys of its quotas,
// which all edges share and aggregators count exactly: [Limits.Learn] adopts the
// aggregators' counts.
//
// # Too many keys
//
// A [Limiter] holds a bounded number of counts. To make room it forgets only
// counts without effect: a window that is over, a bucket that is full again. It
// never forgets any other count, so a flood of keys gives nobody a fresh start.
// If there is no room for a key, the limiter uses an estimate, see sketch: the
// key gets as much as its limit allows or a little more, but neither everything
// nor nothing.
package limit

import (
	"hash/maphash"
	"math/bits"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/hotboard/hotboard/ruleset"
)

// Hit has the properties of a hit that limits use.
type Hit struct {
	List    *ruleset.List
	Item    string
	Channel string
	Device  string
	IP      netip.Addr
	// User is the signed-in user; "" if there is none, and the visitor stands in.
	User string
	// VisitorIP and VisitorText together distinguish visitors.
	VisitorIP   netip.Addr
	VisitorText string
}

const (
	maxShards = 256
	// shardKeys is the number of keys per shard, so that a small table has few
	// shards, because each shard has a minimum size.
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
	byID     atomic.Pointer[map[uint32]*counter] // copied on write
}

// New returns a Limiter that holds the counts of at most maxKeys keys. Each
// window of a hit has a key of its own.
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

// SetMaxKeys changes the maximum number of keys. It does not forget existing
// keys.
func (l *Limiter) SetMaxKeys(n int) { l.maxKeys.Store(int64(n)) }

// Stats is the state of a [Limiter].
type Stats struct {
	// Keys is the number of keys held, MaxKeys their maximum.
	Keys, MaxKeys int
	// Estimated is the number of decisions by an estimate, because there was no
	// room for a key. Reclaimed is the number of forgotten keys without effect.
	Estimated, Reclaimed uint64
}

// Stats returns the state of the Limiter.
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

// counterOf returns the counter of an id, or nil if it was dropped.
func (l *Limiter) counterOf(id uint32) *counter { return (*l.byID.Load())[id] }
