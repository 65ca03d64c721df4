package limit

import (
	"math"
	"math/bits"
	"time"

	"golang.org/x/time/rate"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// scratch is the memory of one call, from a pool.
type scratch struct {
	key   []byte
	marks []mark
	locks [maxShards / 64]uint64 // shards to lock
}

// mostKey is the longest key whose memory the pool keeps.
const mostKey = 4096

func (l *Limiter) get() *scratch { return l.scratch.Get().(*scratch) }

func (l *Limiter) put(s *scratch) {
	if cap(s.key) <= mostKey {
		l.scratch.Put(s)
	}
}

// mark is a window that a hit is charged to.
type mark struct {
	bl     *boundLimit
	w      *boundWindow
	key    uint64
	max    int64
	bounds bounds // of a calendar window, or of the estimate of a rate

	// Set by judge.
	shard     *shard
	bucket    *rate.Limiter // of a rate that is held
	count     *count        // of a calendar window that is held
	estimated bool          // there is or was no room to hold the key
	left      float64       // room in hits, with the bonus
	wait      time.Duration // until there is room for one hit; 0 if there is now
}

// marks finds the windows of h and their keys, without bounds if now is zero. A
// limit's name restricts them to that limit.
func (l *Limiter) marks(s *scratch, list *listLimits, h *Hit, quotas []hit.Quota, now time.Time, only string) {
	s.marks = s.marks[:0]
	clear(s.locks[:])
	for i := range list.limits {
		bl := &list.limits[i]
		if only != "" && bl.limit.Name != only || !bl.limit.Applies(h.List.Name, h.Channel, h.Device) {
			continue
		}
		s.key = bl.dims.append(s.key[:0], h)
		base := l.hash(s.key)
		for j := range bl.windows {
			w := &bl.windows[j]
			m := mark{bl: bl, w: w, max: bl.max(w, h.Channel)}
			m.key = bl.key(w, base)
			if !w.isRate && len(quotas) > 0 {
				m.key = bl.key(w, quotaKey(quotas, bl.limit.Name, w.window, base))
			}
			if !now.IsZero() {
				m.bounds = *w.boundsAt(now, list.zone)
			}
			n := l.shardOf(m.key)
			s.locks[n/64] |= 1 << (n % 64)
			s.marks = append(s.marks, m)
		}
	}
}

// quotaKey returns the key of the quota for a window, or base if there is none.
func quotaKey(quotas []hit.Quota, limit string, w *ruleset.Window, base uint64) uint64 {
	for i := range quotas {
		if q := &quotas[i]; q.Window == w.ID() && q.Limit == limit {
			return q.Key
		}
	}
	return base
}

// lock locks the needed shards, always in the same order, and sets their time
// unless it is zero.
func (l *Limiter) lock(s *scratch, now time.Time) {
	for i, set := range s.locks {
		for ; set != 0; set &= set - 1 {
			sh := &l.shards[i*64+bits.TrailingZeros64(set)]
			sh.mu.Lock()
			if !now.IsZero() {
				sh.tick(now)
			}
		}
	}
}

func (l *Limiter) unlock(s *scratch) {
	for i, set := range s.locks {
		for ; set != 0; set &= set - 1 {
			l.shards[i*64+bits.TrailingZeros64(set)].mu.Unlock()
		}
	}
}

// Take charges a hit to all limits that apply, or to none if one refuses it.
// quotas are the result of AppendQuotas; nil for a view.
func (r *Limits) Take(h *Hit, quotas []hit.Quota, now time.Time) Decision {
	var d Decision
	list := r.list(h)
	if list == nil {
		return d
	}
	l := r.limiter
	s := l.get()
	defer l.put(s)
	l.marks(s, list, h, quotas, now, "")
	l.lock(s, now)
	for i := range s.marks {
		m := &s.marks[i]
		m.find(l)
		m.judge()
		if m.wait == 0 {
			continue
		}
		if m.estimated {
			m.shard.estimated++
		}
		if m.bl.limit.Shadow {
			d.shadowed(m.bl.limit)
		} else {
			d.refused(m)
		}
	}
	if d.Refused == nil {
		l.charge(s, &d)
	}
	for i := range s.marks {
		if m := &s.marks[i]; !m.bl.limit.Shadow {
			left := m.left
			if d.Refused == nil {
				left--
			}
			d.consider(m.w.window, m.max, m.whole(left), m.reset(left))
		}
	}
	l.unlock(s)
	return d
}

// charge charges the hit to all windows, except those of limits in shadow that
// would refuse it.
func (l *Limiter) charge(s *scratch, d *Decision) {
	// Charge existing counts first: making room for new ones may forget counts
	// without effect before they are charged.
	for i := range s.marks {
		if m := &s.marks[i]; m.held() && !d.shadows(m.bl.limit) {
			m.add()
		}
	}
	for i := range s.marks {
		if m := &s.marks[i]; !m.held() && !d.shadows(m.bl.limit) {
			m.enter(l)
		}
	}
}

func (d *Decision) shadows(limit *ruleset.Limit) bool {
	for _, l := range d.Shadowed {
		if l == limit {
			return true
		}
	}
	return false
}

func (d *Decision) shadowed(limit *ruleset.Limit) {
	if !d.shadows(limit) {
		d.Shadowed = append(d.Shadowed, limit)
	}
}

func (d *Decision) refused(m *mark) {
	w := m.wait
	if w == never {
		w = 0
	}
	if d.Refused == nil {
		d.Refused, d.RetryAfter = m.bl.limit, w
	} else if d.RetryAfter != 0 && (w == 0 || w > d.RetryAfter) {
		d.RetryAfter = w
	}
}

func (m *mark) held() bool { return m.bucket != nil || m.count != nil }

// find looks up the count of the key.
func (m *mark) find(l *Limiter) {
	m.shard = &l.shards[l.shardOf(m.key)]
	m.at(m.shard.find(m.key, m.w.counter))
}

func (m *mark) at(at cell) {
	switch {
	case at == 0:
	case at&isBucket != 0:
		m.bucket = m.shard.buckets.at(at.index())
	default:
		m.count = m.shard.counts.at(at.index())
	}
}

// judge computes the room of the window.
func (m *mark) judge() {
	c := m.w.counter
	if !m.held() && m.shard.estimate(m) > 0 {
		m.estimated = true
		room := m.max
		if m.w.isRate {
			room += c.estimateMax() - int64(c.burst)
		}
		m.left = float64(max(room-m.shard.estimate(m), 0))
	} else if m.w.isRate {
		m.left = float64(m.max)
		if m.bucket != nil {
			m.left = m.bucket.TokensAt(m.shard.latest) + float64(m.max-int64(c.burst))
		}
		if m.wait = wait(c.rate, m.left, 1); m.wait > 0 && m.wait < never {
			m.wait++ // round up the last nanosecond
		}
		return
	} else {
		m.left = float64(m.max)
		if m.count != nil {
			if m.bounds.isOther(m.count.start) {
				*m.count = count{start: m.bounds.start}
			}
			m.left = float64(max(m.max-m.count.n, 0))
		}
	}
	if m.left < 1 {
		m.wait = m.untilEnd()
	}
}

func (m *mark) untilEnd() time.Duration {
	if m.bounds.end == never {
		return never
	}
	return max(time.Unix(m.bounds.end, 0).Sub(m.shard.latest), 1)
}

// add charges a hit to an existing count.
func (m *mark) add() {
	if m.bucket != nil {
		// Not AllowN, which does not go below empty.
		m.bucket.ReserveN(m.shard.latest, 1)
		return
	}
	m.count.n++
}

// enter charges a hit to a key without a count.
func (m *mark) enter(l *Limiter) {
	n := m.shard.estimate(m) // hits counted while there was no room
	at := m.shard.insert(l, m.key, m.w.counter)
	if at == 0 {
		m.shard.estimated++
		m.estimated = true
		m.shard.charge(m, 0)
		return
	}
	m.at(at)
	m.estimated = false
	if m.bucket == nil {
		*m.count = count{start: m.bounds.start, n: n}
	} else if burst := int64(m.w.counter.burst); n > 0 {
		m.bucket.ReserveN(m.shard.latest, int(min(n, burst)))
	}
	m.add()
}

// whole returns the number of whole hits that there is room for.
func (m *mark) whole(left float64) int64 {
	if m.w.isRate {
		left += float64(m.w.counter.rate) * 1e-9 // as in wait
	}
	return min(max(int64(math.Floor(left)), 0), m.max)
}

// reset returns the time until all of max is free again; 0 if never.
func (m *mark) reset(left float64) time.Duration {
	var d time.Duration
	if m.w.isRate && !m.estimated {
		d = wait(m.w.counter.rate, left, float64(m.max))
	} else {
		d = m.untilEnd()
	}
	if d == never {
		return 0
	}
	return d
}

// Undo reverses the charge of an admitted hit that was not stored. at is the time
// passed to Take, and shadowed are the limits in shadow from its decision.
// Charges to an estimate stay. A bucket that has refilled since then has room for
// one hit too many for a while.
func (r *Limits) Undo(h *Hit, quotas []hit.Quota, at time.Time, shadowed ...*ruleset.Limit) {
	list := r.list(h)
	if list == nil {
		return
	}
	l := r.limiter
	s := l.get()
	defer l.put(s)
	l.marks(s, list, h, quotas, time.Time{}, "")
	l.lock(s, time.Time{})
	d := Decision{Shadowed: shadowed}
	for i := range s.marks {
		m := &s.marks[i]
		if d.shadows(m.bl.limit) {
			continue
		}
		m.find(l)
		switch {
		case m.bucket != nil:
			m.bucket.ReserveN(m.shard.latest, -1)
		case m.count != nil && m.count.n > m.count.known && m.count.start == boundsOf(m.w.window, at, list.zone).start:
			m.count.n--
		}
	}
	l.unlock(s)
}
