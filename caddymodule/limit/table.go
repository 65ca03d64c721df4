package limit

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// shard holds the counts of keys with the same prefix.
type shard struct {
	mu     sync.Mutex
	latest time.Time // see tick

	// A hash table with open addressing: slots map a key to its count.
	slots []slot // a power of two, or none
	used  int
	hand  int // next slot of sweep

	buckets pages[rate.Limiter]
	counts  pages[count]

	sketches map[class]*sketch

	estimated, reclaimed uint64
	_                    [64]byte // keep shards of two processors on different cache lines
}

// slot is one key of the table; the zero slot is free.
type slot struct {
	key     uint64
	counter uint32 // id
	cell    cell
}

// cell is the location of a key's bucket or count; 0 is nowhere.
type cell uint32

const isBucket cell = 1 << 31

func (c cell) index() uint32 { return uint32(c&^isBucket) - 1 }

// count is the count of a calendar window that began at start.
type count struct {
	start, n int64
	// known is the part of n that an aggregator has reported: Undo must not
	// subtract it.
	known int64
}

// pages hold cells that never move, in sizes that waste no memory of the
// allocator.
type pages[T any] struct {
	pages []*[pageCells]T
	used  uint32
	free  []uint32
}

const pageCells = 64

func (p *pages[T]) at(i uint32) *T { return &p.pages[i/pageCells][i%pageCells] }

func (p *pages[T]) take() uint32 {
	if n := len(p.free); n > 0 {
		i := p.free[n-1]
		p.free = p.free[:n-1]
		return i
	}
	if int(p.used) == len(p.pages)*pageCells {
		p.pages = append(p.pages, new([pageCells]T))
	}
	p.used++
	return p.used - 1
}

func (p *pages[T]) give(i uint32) { p.free = append(p.free, i) }

// find returns the cell of a key's count, or 0 if there is none.
func (s *shard) find(key uint64, c *counter) cell {
	if s.used == 0 {
		return 0
	}
	mask := uint64(len(s.slots) - 1)
	for i := key & mask; ; i = (i + 1) & mask {
		sl := &s.slots[i]
		if sl.cell == 0 || sl.key == key && sl.counter == c.id {
			return sl.cell
		}
	}
}

const (
	leastSlots = 8
	sweepSlots = 8 // slots examined for each key that finds no room
)

// insert makes room for the count of a new key and returns its cell: a full
// bucket, or a count of 0. It returns 0 if there is no room.
func (s *shard) insert(l *Limiter, key uint64, c *counter) cell {
	if !l.reserve() {
		s.sweep(l, min(sweepSlots, len(s.slots)))
		if !l.reserve() {
			return 0
		}
	}
	if s.used >= len(s.slots)/8*7 {
		s.grow(l)
	}
	var at cell
	if c.rate != 0 {
		i := s.buckets.take()
		fill(s.buckets.at(i), c, s.latest)
		at = isBucket | cell(i+1)
	} else {
		i := s.counts.take()
		*s.counts.at(i) = count{}
		at = cell(i + 1)
	}
	s.place(slot{key: key, counter: c.id, cell: at})
	s.used++
	return at
}

// reserve takes one of the available keys.
func (l *Limiter) reserve() bool {
	if l.keys.Add(1) <= l.maxKeys.Load() {
		return true
	}
	l.keys.Add(-1)
	return false
}

// fill fills b in place. A new bucket is full, but a bucket must not be copied.
func fill(b *rate.Limiter, c *counter, now time.Time) {
	*b = rate.Limiter{}
	b.SetBurstAt(time.Time{}, c.burst)
	b.SetLimitAt(time.Time{}, 1e12) // a rate that has filled anything by now
	b.SetLimitAt(now, c.rate)
}

// place stores sl where find looks for it.
func (s *shard) place(sl slot) {
	mask := uint64(len(s.slots) - 1)
	i := sl.key & mask
	for s.slots[i].cell != 0 {
		i = (i + 1) & mask
	}
	s.slots[i] = sl
}

// grow makes room in the table. It forgets keys without effect if they are a
// large part of it.
func (s *shard) grow(l *Limiter) {
	s.sweep(l, len(s.slots))
	if s.used > len(s.slots)/2 || len(s.slots) == 0 {
		old := s.slots
		s.slots = make([]slot, max(2*len(old), leastSlots))
		for _, sl := range old {
			if sl.cell != 0 {
				s.place(sl)
			}
		}
		s.hand = 0
	}
}

// sweep examines the next n slots and forgets the keys without effect.
func (s *shard) sweep(l *Limiter, n int) {
	for range n {
		if s.hand >= len(s.slots) {
			s.hand = 0
		}
		// A later slot may move into the slot that becomes free.
		if sl := s.slots[s.hand]; sl.cell != 0 && s.worthless(l, sl) {
			s.remove(l, uint64(s.hand))
			s.reclaimed++
		} else {
			s.hand++
		}
	}
}

// worthless reports whether the limiter would treat the key the same without its
// count.
func (s *shard) worthless(l *Limiter, sl slot) bool {
	c := l.counterOf(sl.counter)
	switch {
	case c == nil:
		return true
	case sl.cell&isBucket != 0:
		return s.buckets.at(sl.cell.index()).TokensAt(s.latest) >= float64(c.burst)
	}
	n := s.counts.at(sl.cell.index())
	return n.n == 0 || c.isOver(n.start, s.latest.Unix())
}

// remove forgets the key in slot i.
func (s *shard) remove(l *Limiter, i uint64) {
	if at := s.slots[i].cell; at&isBucket != 0 {
		s.buckets.give(at.index())
	} else {
		s.counts.give(at.index())
	}
	// Move up the slots that find would no longer reach past the free slot.
	mask := uint64(len(s.slots) - 1)
	for j := (i + 1) & mask; s.slots[j].cell != 0; j = (j + 1) & mask {
		if home := s.slots[j].key & mask; (j-home)&mask >= (j-i)&mask {
			s.slots[i] = s.slots[j]
			i = j
		}
	}
	s.slots[i] = slot{}
	s.used--
	l.keys.Add(-1)
}

// forget removes one key, if it is held.
func (s *shard) forget(l *Limiter, key uint64, c *counter) bool {
	for i := range s.slots {
		if sl := &s.slots[i]; sl.cell != 0 && sl.key == key && sl.counter == c.id {
			s.remove(l, uint64(i))
			return true
		}
	}
	return false
}

// purge removes the keys of dropped counters, and the sketches of unused classes.
func (s *shard) purge(l *Limiter, classes map[class]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 0; i < len(s.slots); {
		if sl := s.slots[i]; sl.cell != 0 && l.counterOf(sl.counter) == nil {
			s.remove(l, uint64(i))
		} else {
			i++
		}
	}
	if s.used == 0 {
		s.slots, s.hand = nil, 0
		s.buckets, s.counts = pages[rate.Limiter]{}, pages[count]{}
	}
	for c := range s.sketches {
		if !classes[c] {
			delete(s.sketches, c)
		}
	}
}

// tick advances the shard's time. Concurrent hits may arrive out of order, and a
// bucket whose time goes back would refill twice: so the limiter judges them at
// the latest time seen. A step back of more than a minute is a corrected clock;
// buckets continue from there.
func (s *shard) tick(now time.Time) {
	back := s.latest.Sub(now)
	if back >= 0 && back < time.Minute {
		return
	}
	s.latest = now
	if back > 0 {
		for _, sl := range s.slots {
			if sl.cell&isBucket != 0 {
				b := s.buckets.at(sl.cell.index())
				b.SetBurstAt(now, b.Burst()) // unchanged, but as of now
			}
		}
	}
}
