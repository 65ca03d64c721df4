package limit

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/hotboard/hotboard/ruleset"
)

// Limits are the limits of one configuration. They are safe for concurrent use.
type Limits struct {
	limiter  *Limiter
	lists    map[string]*listLimits
	counters []*counter
	released atomic.Bool
}

// listLimits are the limits for some or all hits of a list.
type listLimits struct {
	zone   *time.Location
	limits []boundLimit
}

// boundLimit is a limit in one list.
type boundLimit struct {
	limit   *ruleset.Limit
	dims    dimensions
	salt    uint64
	windows []boundWindow
}

// boundWindow is a window of a limit in one list.
type boundWindow struct {
	window  *ruleset.Window
	counter *counter
	isRate  bool
	salt    uint32
	bounds  atomic.Pointer[bounds] // as of the last judged hit
}

// Bind returns the limits of a configuration for its lists, with their existing
// counts. Hits of other lists have no limits. Release releases the counts.
// Configurations may overlap, so that a new one inherits the counts of the old
// one: it does so if the limit has the same name, dimensions and prefixes, the
// window the same length, and a rate the same max and burst.
func (l *Limiter) Bind(limits []*ruleset.Limit, lists []*ruleset.List) *Limits {
	r := &Limits{limiter: l, lists: make(map[string]*listLimits, len(lists))}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, list := range lists {
		lr := &listLimits{zone: list.Location()}
		if lr.zone == nil {
			lr.zone = time.UTC
		}
		for _, rl := range limits {
			if rl.AppliesToList(list.Name) {
				lr.limits = append(lr.limits, r.bind(rl, list.Name, lr.zone))
			}
		}
		r.lists[list.Name] = lr
	}
	l.publish()
	return r
}

func (r *Limits) bind(rl *ruleset.Limit, list string, zone *time.Location) boundLimit {
	l := r.limiter
	identity := limitIdentity(rl, list)
	bl := boundLimit{
		limit:   rl,
		dims:    dimensionsOf(rl),
		salt:    maphash.String(l.seed, identity),
		windows: make([]boundWindow, len(rl.Windows)),
	}
	for i := range rl.Windows {
		w := &rl.Windows[i]
		id := windowIdentity(w)
		c := l.acquire(identity+"/"+id, w, zone)
		r.counters = append(r.counters, c)
		bw := &bl.windows[i]
		bw.window, bw.counter, bw.isRate = w, c, w.IsRate()
		bw.salt = uint32(maphash.String(l.seed, id))
	}
	return bl
}

// Release releases the counts, unless another configuration has the same limits.
// A second call does nothing.
func (r *Limits) Release() {
	if !r.released.Swap(true) {
		r.limiter.release(r.counters)
	}
}

// list returns the limits of h's list, or nil if there are none.
func (r *Limits) list(h *Hit) *listLimits {
	if lr := r.lists[h.List.Name]; lr != nil && len(lr.limits) > 0 {
		return lr
	}
	return nil
}

// key returns the key of one of the limit's windows. Windows of hits with the
// same base are in the same shard.
func (bl *boundLimit) key(w *boundWindow, base uint64) uint64 {
	return mix(base^bl.salt) ^ uint64(w.salt)
}

// boundsAt returns the window that contains now; for a rate, the window of its
// estimate.
func (w *boundWindow) boundsAt(now time.Time, zone *time.Location) *bounds {
	sec := now.Unix()
	b := w.bounds.Load()
	if b == nil || sec < b.start || sec >= b.end {
		if w.isRate {
			b = w.counter.class.boundsAt(sec)
		} else {
			b = boundsOf(w.window, now, zone)
		}
		w.bounds.Store(b)
		w.counter.current.Store(b)
	}
	return b
}

// max returns the number of hits of a channel that fit at once.
func (bl *boundLimit) max(w *boundWindow, channel string) int64 {
	n := w.window.Max
	if w.isRate {
		n = int64(w.counter.burst)
	}
	if len(bl.limit.Bonus) > 0 {
		n += bl.limit.Bonus[channel]
	}
	return n
}

// wait returns how long a bucket with tokens takes to reach want; 0 if it already
// has. As in package rate, a wait below one nanosecond counts as none.
func wait(r rate.Limit, tokens, want float64) time.Duration {
	if tokens >= want {
		return 0
	}
	ns := (want - tokens) / float64(r) * 1e9
	if ns >= float64(never) {
		return never
	}
	return time.Duration(ns)
}
