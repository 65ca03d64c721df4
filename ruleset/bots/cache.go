package bots

import (
	"hash/maphash"
	"strings"
	"sync"
)

// cacheShards spreads the lock of the cache over requests on several cores.
const cacheShards = 16

// cache remembers verdicts. It is bounded: each shard has two generations of
// entries, and when the young one is full, the old one is forgotten. An entry
// that is asked for again moves to the young one, so a flood of new strings
// cannot push out those in use.
type cache struct {
	seed   maphash.Seed
	shards [cacheShards]cacheShard
}

type cacheShard struct {
	mu         sync.RWMutex
	limit      int // entries in a generation
	young, old map[string]remembered
}

// remembered holds its own key: a string that a caller passes may be part of a
// larger one, such as a line of a log, which must not be kept alive.
type remembered struct {
	key string
	agent
}

func newCache(size int) *cache {
	c := &cache{seed: maphash.MakeSeed()}
	for i := range c.shards {
		c.shards[i].limit = (size + 2*cacheShards - 1) / (2 * cacheShards)
		c.shards[i].young = make(map[string]remembered)
	}
	return c
}

func (c *cache) shard(key string) *cacheShard {
	return &c.shards[maphash.String(c.seed, key)%cacheShards]
}

func (c *cache) get(key string) (agent, bool) {
	s := c.shard(key)
	s.mu.RLock()
	r, ok := s.young[key]
	if ok {
		s.mu.RUnlock()
		return r.agent, true
	}
	r, ok = s.old[key]
	s.mu.RUnlock()
	if ok {
		s.put(r)
	}
	return r.agent, ok
}

func (c *cache) put(key string, a agent) {
	c.shard(key).put(remembered{strings.Clone(key), a})
}

func (s *cacheShard) put(r remembered) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.young[r.key]; !ok && len(s.young) >= s.limit {
		s.old, s.young = s.young, make(map[string]remembered)
	}
	s.young[r.key] = r
}
