package limit

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/hotboard/hotboard/ruleset"
)

// counter is the shared identity of all counts of one window of one limit in one
// list. Configurations with the same window share it.
type counter struct {
	identity string
	id       uint32
	class    class
	refs     int // guarded by Limiter.mu

	// Of a rate.
	rate  rate.Limit
	burst int

	current atomic.Pointer[bounds] // the window of the last judged hit
}

// bounds is the beginning and end of a window, in seconds since the Unix epoch. A
// campaign begins at 0 and has no end.
type bounds struct{ start, end int64 }

const never = math.MaxInt64

func boundsOf(w *ruleset.Window, t time.Time, zone *time.Location) *bounds {
	start, end := w.Period().Bounds(t, zone)
	if end.IsZero() {
		return &bounds{0, never}
	}
	return &bounds{start.Unix(), end.Unix()}
}

// isOther reports whether a count that began at start does not apply to b. A
// count that began a little later still applies: another edge's clock is ahead,
// or the list's zone has changed. If it began much later, this clock was wrong
// before.
func (b *bounds) isOther(start int64) bool { return start < b.start || start > b.end }

// isOver reports whether the window that began at start counts no hits at sec or
// later.
func (c *counter) isOver(start, sec int64) bool {
	b := c.current.Load()
	switch {
	case b == nil:
		return false
	case sec >= b.end:
		return start < b.end
	}
	return b.isOther(start)
}

// limitIdentity names the properties that make two limits count alike. They may
// refuse different hits, or none.
func limitIdentity(l *ruleset.Limit, list string) string {
	d := dimensionsOf(l)
	return fmt.Sprintf("%s/%s/%v", l.Name, list, d)
}

// windowIdentity does the same for a window among those of its limit. A bucket
// with another rate or burst has another identity. A calendar window only counts:
// its max may change.
func windowIdentity(w *ruleset.Window) string {
	if w.IsRate() {
		return fmt.Sprintf("rate %v %d/%d", w.Rate(), w.Max, w.Burst)
	}
	return w.ID()
}

// acquire returns the counter of an identity; release drops it. The caller holds
// Limiter.mu and must call publish.
func (l *Limiter) acquire(identity string, w *ruleset.Window, zone *time.Location) *counter {
	c := l.counters[identity]
	if c == nil {
		l.lastID++
		c = &counter{identity: identity, id: l.lastID}
		if w.IsRate() {
			c.burst = int(w.Burst)
			if c.burst == 0 {
				c.burst = int(w.Max)
			}
			c.rate = rate.Limit(float64(w.Max) / w.Rate().Seconds())
			c.class = rateClass(c.rate, c.burst)
		} else {
			c.class = class{period: w.Period(), zone: zone.String()}
		}
		l.counters[identity] = c
	}
	c.refs++
	return c
}

// publish passes the counters to the shards. The caller holds Limiter.mu.
func (l *Limiter) publish() {
	byID := make(map[uint32]*counter, len(l.counters))
	for _, c := range l.counters {
		byID[c.id] = c
	}
	l.byID.Store(&byID)
}

// release drops counters, and forgets the counts of unused ones.
func (l *Limiter) release(counters []*counter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	dropped := false
	for _, c := range counters {
		if c.refs--; c.refs == 0 {
			delete(l.counters, c.identity)
			dropped = true
		}
	}
	if !dropped {
		return
	}
	l.publish()
	classes := make(map[class]bool)
	for _, c := range l.counters {
		classes[c.class] = true
	}
	for i := range l.shards {
		l.shards[i].purge(l, classes)
	}
}
