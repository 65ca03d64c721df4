package api

import (
	"container/list"
	"sync"
)

// cache keeps the answers of the current time slice, the least recently used
// ones only as long as there is room.
type cache struct {
	mu      sync.Mutex
	max     int
	bytes   int
	entries map[request]*list.Element
	used    *list.List // of *entry; the most recently used one first
	cleared uint64
}

type entry struct {
	request request
	slice   int64
	answer  answer
}

// entryBytes is about what an entry takes beside its body and strings.
const entryBytes = 400

func (e *entry) size() int {
	return entryBytes + len(e.answer.body) + 2*len(e.request.list) + 2*len(e.request.id)
}

func newCache(maxBytes int) *cache {
	return &cache{max: maxBytes, entries: map[request]*list.Element{}, used: list.New()}
}

// get returns the answer of a time slice.
func (c *cache) get(r request, slice int64) (answer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el, ok := c.entries[r]
	if !ok {
		return answer{}, false
	}
	e := el.Value.(*entry)
	if e.slice != slice {
		return answer{}, false
	}
	c.used.MoveToFront(el)
	return e.answer, true
}

// age tells the time between two clears from another.
func (c *cache) age() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cleared
}

// put keeps an answer that was made in an age. One of an earlier age is dropped:
// it was made under other rules.
func (c *cache) put(r request, slice int64, age uint64, ans answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if age != c.cleared {
		return
	}
	if el, ok := c.entries[r]; ok {
		c.remove(el)
	}
	e := &entry{request: r, slice: slice, answer: ans}
	c.entries[r] = c.used.PushFront(e)
	c.bytes += e.size()
	for c.bytes > c.max {
		c.remove(c.used.Back())
	}
}

func (c *cache) remove(el *list.Element) {
	e := c.used.Remove(el).(*entry)
	delete(c.entries, e.request)
	c.bytes -= e.size()
}

// clear drops everything and begins a new age.
func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.entries)
	c.used.Init()
	c.bytes = 0
	c.cleared++
}
