package store

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Leases holds the leases and the members of a store that only one process can
// open. They are in memory and end with the process. The zero value is empty.
type Leases struct {
	mu      sync.Mutex
	held    map[int]lease
	members map[string]time.Time // until when
}

type lease struct {
	owner string
	until time.Time
}

// Acquire makes owner the holder of a shard until now+ttl, or returns false when
// another owner holds it at now.
func (l *Leases) Acquire(shard int, owner string, ttl time.Duration, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h, ok := l.held[shard]; ok && h.owner != owner && now.Before(h.until) {
		return false
	}
	if l.held == nil {
		l.held = make(map[int]lease)
	}
	l.held[shard] = lease{owner: owner, until: now.Add(ttl)}
	return true
}

// Release ends the lease of a shard if owner holds it.
func (l *Leases) Release(shard int, owner string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[shard].owner == owner {
		delete(l.held, shard)
	}
}

// Members makes owner a member until now+ttl, or no longer one when ttl is 0. It
// returns all members at now, in ascending order.
func (l *Leases) Members(owner string, ttl time.Duration, now time.Time) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.members == nil {
		l.members = make(map[string]time.Time)
	}
	l.members[owner] = now.Add(ttl)
	maps.DeleteFunc(l.members, func(_ string, until time.Time) bool { return !now.Before(until) })
	return slices.Sorted(maps.Keys(l.members))
}
