package limit

import (
	"math"

	"golang.org/x/time/rate"

	"github.com/hotboard/hotboard/ruleset/calendar"
)

// sketch estimates the counts of keys that do not fit into the table: a count-min
// sketch with conservative update (Cormode and Muthukrishnan 2005; Estan and
// Varghese 2002). A key has a cell in each row. A hit raises the lowest of its
// cells, and the lowest cell is the estimate. The estimate is never below the
// key's count, and above it only if the key shares each of its cells with others.
//
// The share of other keys is about hits/sketchCells, the mean of a row, and is
// subtracted. Otherwise a long flood would fill all cells, and the limiter would
// refuse every new key. With the subtraction, a key gets its limit and up to that
// mean more: some hits for every million of the flood.
//
// Each shard has one sketch for each class of windows that needs it: 4 MiB a
// class for all shards of a large Limiter. Windows of a class begin and end
// together and have different keys, so they can share a sketch.
type sketch struct {
	start int64 // of the window, in seconds since the Unix epoch
	hits  uint64
	rows  [sketchRows][sketchCells]uint32
}

const (
	sketchRows  = 4
	sketchCells = 1024 // a power of two
)

// class identifies windows that begin and end together.
type class struct {
	// Of calendar windows.
	period calendar.Period
	zone   string
	// Of rates: the time in seconds in which an empty bucket refills. The
	// estimate treats it as a window that admits a whole bucket.
	fill int64
}

// longestFill bounds the window of a rate's estimate.
const longestFill = 24 * 3600

func rateClass(r rate.Limit, burst int) class {
	seconds := math.Ceil(float64(burst) / float64(r))
	return class{fill: int64(min(max(seconds, 1), longestFill))}
}

// boundsAt returns the window of a rate's estimate.
func (c class) boundsAt(sec int64) *bounds {
	start := sec - sec%c.fill
	return &bounds{start, start + c.fill}
}

// estimateMax returns the number of hits that fit into the window of a rate's
// estimate: a whole bucket, or more if the bucket refills in less than a second.
func (c *counter) estimateMax() int64 {
	return max(int64(c.burst), int64(float64(c.rate)*float64(c.class.fill)))
}

// estimate returns the estimated count of the key in its window.
func (s *shard) estimate(m *mark) int64 {
	if len(s.sketches) == 0 {
		return 0
	}
	c := m.w.counter.class
	k := s.sketches[c]
	switch {
	case k == nil:
		return 0
	case m.bounds.isOther(k.start):
		// The window is over. If the flood continues, the next charge makes a new
		// sketch.
		delete(s.sketches, c)
		return 0
	}
	return k.estimate(m.key)
}

// charge counts a hit of a key without a count, or raises the estimate to a known
// minimum.
func (s *shard) charge(m *mark, atLeast int64) {
	c := m.w.counter.class
	k := s.sketches[c]
	if k == nil {
		if s.sketches == nil {
			s.sketches = make(map[class]*sketch)
		}
		k = &sketch{start: m.bounds.start}
		s.sketches[c] = k
	}
	k.charge(m.key, atLeast)
}

func (k *sketch) lowest(key uint64) uint32 {
	lowest := uint32(math.MaxUint32)
	h := mix(key)
	for r := range k.rows {
		lowest = min(lowest, k.rows[r][h%sketchCells])
		h /= sketchCells
	}
	return lowest
}

func (k *sketch) estimate(key uint64) int64 {
	return max(int64(k.lowest(key))-int64(k.hits/sketchCells), 0)
}

func (k *sketch) charge(key uint64, atLeast int64) {
	n := k.lowest(key)
	if n < math.MaxUint32 {
		n++
	}
	if m := atLeast + int64(k.hits/sketchCells); m > int64(n) {
		n = uint32(min(m, math.MaxUint32))
	}
	h := mix(key)
	for r := range k.rows {
		cell := &k.rows[r][h%sketchCells]
		*cell = max(*cell, n)
		h /= sketchCells
	}
	k.hits++
}
