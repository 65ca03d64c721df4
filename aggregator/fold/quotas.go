package fold

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// The fold enforces the calendar windows of limits exactly: one shard gets every
// vote of a list, in the order of the log, and the fold reads and writes the count
// of each key in each window.

// quota is a count that a pending vote uses up.
type quota struct {
	*window
	start int64 // of the window, as in [hit.UsedQuota]
	key   uint64
	memo  int // index into the tallies' values
}

// windowID identifies a calendar window of a limit.
type windowID struct{ limit, window string }

// window is a calendar window of a limit, for one list.
type window struct {
	limit *ruleset.Limit
	rules *ruleset.Window
	hash  uint64

	// The current window, which holds the instants from and before to, in
	// milliseconds. It is kept because votes come nearly in order.
	from, to int64
	start    int64 // as calendar.Seconds
	seed     uint64
	term     *term
}

// window returns a window, or nil if the rules do not have it.
func (t *tallies) window(rl *ruledList, id windowID) *window {
	w, ok := rl.windows[id]
	if ok {
		return w
	}
	if l := rl.rules.Limit(id.limit); l != nil && l.AppliesToList(rl.list.Name) {
		if rules := l.Window(id.window); rules != nil {
			f := fnv.New64a()
			f.Write([]byte(id.limit + "\x00" + id.window))
			w = &window{limit: l, rules: rules, hash: f.Sum64()}
		}
	}
	rl.windows[id] = w
	return w
}

// turnTo sets from, to, start, seed and term to those of the window that holds an
// instant, in milliseconds.
func (w *window) turnTo(rl *ruledList, ms int64) {
	if w.from <= ms && ms < w.to {
		return
	}
	p, zone := w.rules.Period(), rl.list.Location()
	start, end := p.Bounds(time.UnixMilli(ms), zone)
	w.from, w.to, w.start = start.UnixMilli(), end.UnixMilli(), calendar.Seconds(start)
	if p == calendar.All {
		w.from, w.to = math.MinInt64, math.MaxInt64
	}
	w.term = rl.term(p.Term(), p.Term().Start(start, zone))
	w.seed = pairOf(w.hash, uint64(w.start))
}

// wantQuotas queues the counts that a vote uses up. It ignores quotas missing from
// the rules.
func (t *tallies) wantQuotas(p *pending) {
	first := len(t.quotas)
quotas:
	for i := range p.hit.Quotas {
		q := &p.hit.Quotas[i]
		w := t.window(p.list, windowID{q.Limit, q.Window})
		if w == nil {
			continue
		}
		w.turnTo(p.list, p.time)
		memo := t.memo(p.list, w.term, pairOf(w.seed, q.Key))
		for _, other := range t.quotas[first:] {
			if other.memo == memo {
				continue quotas // named twice: charged once
			}
		}
		t.quotas = append(t.quotas, quota{window: w, start: w.start, key: q.Key, memo: memo})
	}
}

// full reports whether a quota has no room for one more vote from a channel.
func (t *tallies) full(q *quota, channel string) bool {
	return t.values[q.memo] >= q.limit.Max(q.rules, channel)
}

// overQuota returns the first limit that refuses a vote, or "" when all have room.
// Limits in shadow refuse nothing: overQuota counts their refusals, and leaves the
// limits in t.shadows for charge.
func (t *tallies) overQuota(p *pending) (limit string) {
	t.shadows = t.shadows[:0]
	for i := p.quotasFrom; i < p.quotasTo; i++ {
		q := &t.quotas[i]
		switch {
		case !t.full(q, p.hit.Channel):
		case !q.limit.Shadow:
			t.usedUp(i)
			limit = cmp.Or(limit, q.limit.Name)
		case !slices.Contains(t.shadows, q.limit): // once for all of its windows
			t.shadows = append(t.shadows, q.limit)
			t.shadowed[Shadowed{List: p.list.list.Name, Limit: q.limit.Name}]++
		}
	}
	return limit
}

// charge uses up the quotas of an accepted vote. It does not charge a limit in
// shadow that would have refused the vote: its counts stay those that it would have
// in force.
func (t *tallies) charge(p *pending) {
	for i := p.quotasFrom; i < p.quotasTo; i++ {
		q := &t.quotas[i]
		if slices.Contains(t.shadows, q.limit) {
			continue
		}
		n := max(0, t.values[q.memo]) + 1
		t.set(q.memo, n)
		if !q.limit.Shadow && n >= q.rules.Max {
			t.usedUp(i)
		}
	}
}

// usedUp queues a count for the edges, once for all votes of a fold.
func (t *tallies) usedUp(quota int) {
	if memo := t.quotas[quota].memo; !t.told[memo] {
		t.told[memo] = true
		t.used = append(t.used, quota)
	}
}

// usedQuotas returns the used quotas for the edges, with the counts at the end of
// the fold.
func (t *tallies) usedQuotas() []hit.UsedQuota {
	used := make([]hit.UsedQuota, len(t.used))
	for i, n := range t.used {
		q := &t.quotas[n]
		used[i] = hit.UsedQuota{
			List: t.memos[q.memo].List, Limit: q.limit.Name, Window: q.rules.ID(),
			Start: q.start, Key: q.key, Count: t.values[q.memo],
		}
	}
	return used
}
