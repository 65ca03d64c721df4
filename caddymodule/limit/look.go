package limit

import (
	"time"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// State is the count of a key in one window.
type State struct {
	Window *ruleset.Window
	// Max, Remaining and Reset are as in [Decision], before another hit.
	Max, Remaining int64
	Reset          time.Duration
	// Held reports that the key has a count, Estimated that it is an estimate.
	Held, Estimated bool
}

// Look returns the counts of the hit's key in each window of a limit, and charges
// nothing. It returns nil if no limit of that name applies to the hit. quotas are
// as for Take.
func (r *Limits) Look(limitName string, h *Hit, quotas []hit.Quota, now time.Time) []State {
	list := r.list(h)
	if list == nil {
		return nil
	}
	l := r.limiter
	s := l.get()
	defer l.put(s)
	l.marks(s, list, h, quotas, now, limitName)
	var states []State
	l.lock(s, now)
	for i := range s.marks {
		m := &s.marks[i]
		m.find(l)
		m.judge()
		state := State{
			Window: m.w.window, Max: m.max, Remaining: m.whole(m.left), Reset: m.reset(m.left),
			Held: m.held(), Estimated: m.estimated,
		}
		if m.left >= float64(m.max) {
			state.Reset = 0
		}
		states = append(states, state)
	}
	l.unlock(s)
	return states
}

// Reset forgets the hit's key in each window of a limit, and reports whether any
// window held it. It does not change estimates or the counts of aggregators.
func (r *Limits) Reset(limitName string, h *Hit, quotas []hit.Quota) bool {
	list := r.list(h)
	if list == nil {
		return false
	}
	l := r.limiter
	s := l.get()
	defer l.put(s)
	l.marks(s, list, h, quotas, time.Time{}, limitName)
	l.lock(s, time.Time{})
	held := false
	for i := range s.marks {
		m := &s.marks[i]
		sh := &l.shards[l.shardOf(m.key)]
		held = sh.forget(l, m.key, m.w.counter) || held
	}
	l.unlock(s)
	return held
}

// Learn adopts an aggregator's count: key has had at least n hits in that window.
// It ignores past windows, and limits missing from this configuration.
func (r *Limits) Learn(used hit.UsedQuota) {
	list := r.lists[used.List]
	if list == nil || used.Count <= 0 {
		return
	}
	for i := range list.limits {
		bl := &list.limits[i]
		for j := range bl.windows {
			w := &bl.windows[j]
			if bl.limit.Name == used.Limit && !w.isRate && w.window.ID() == used.Window {
				m := mark{bl: bl, w: w, key: bl.key(w, used.Key), bounds: bounds{used.Start, never}}
				m.learn(r.limiter, used.Count)
			}
		}
	}
}

// learn raises the count in the window that begins at m.bounds.start to n.
func (m *mark) learn(l *Limiter, n int64) {
	s := &l.shards[l.shardOf(m.key)]
	s.mu.Lock()
	defer s.mu.Unlock()
	start := m.bounds.start
	if b := m.w.counter.current.Load(); b != nil && start < b.start {
		return // the window is over
	}
	m.find(l)
	if m.count == nil {
		if at := s.insert(l, m.key, m.w.counter); at != 0 {
			m.at(at)
		} else {
			s.charge(m, n)
			return
		}
	}
	if start > m.count.start {
		*m.count = count{start: start}
	}
	if start == m.count.start {
		m.count.n = max(m.count.n, n)
		m.count.known = max(m.count.known, n)
	}
}
