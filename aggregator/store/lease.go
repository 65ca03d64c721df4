package store

import (
	"sync"
	"time"
)

// Leases are the leases of a store that only one process can have open. They
// are kept in memory and end with the process. The zero value has none.
type Leases struct {
	mu   sync.Mutex
	held map[int]lease
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
