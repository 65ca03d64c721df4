package fold

import (
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// oldest returns the beginning of the oldest period of each kind that a list keeps
// when its newest hit is in the periods that begin at starts.
func oldest(l *ruleset.List, starts *calendar.Starts) map[calendar.Period]time.Time {
	kept := make(map[calendar.Period]time.Time, len(l.Boards))
	for _, p := range l.Boards {
		if p != calendar.All {
			kept[p] = p.Add(starts.Of(p), -l.Keep[p], l.Location())
		}
	}
	return kept
}

// reach moves the list's newest hit to ms, if that is later, and drops the periods
// that expire with it. Each drop follows from the hit alone, so the grouping of
// messages does not matter.
func (t *tallies) reach(rl *ruledList, ms int64) {
	totals := &rl.all.totals
	before := totals.Newest
	if ms > before {
		totals.Newest = ms
		rl.all.touched = true
	}
	starts := rl.keeper.Starts(totals.Newest)
	if starts == rl.keptStarts || rl.keptStarts != nil && *starts == *rl.keptStarts {
		return
	}
	rl.keptStarts, rl.kept = starts, oldest(rl.keeper, starts)
	if before != 0 && ms > before {
		t.expire(rl, oldest(rl.keeper, rl.keeper.Starts(before)))
	}
}

// expire drops the periods that began before rl.kept. from is the oldest that was
// kept of each kind.
func (t *tallies) expire(rl *ruledList, from map[calendar.Period]time.Time) {
	for p, start := range from {
		// Never more than were kept, however far the newest hit has moved.
		for n := 0; n <= rl.keeper.Keep[p] && start.Before(rl.kept[p]); n++ {
			set := store.PeriodSet(rl.list.Name, p, start)
			rl.drop = append(rl.drop, set)
			if s := t.sets[set]; s != nil {
				s.clear()
			}
			start = p.Add(start, 1, rl.keeper.Location())
		}
	}
}

// clear empties a set that is dropped.
func (s *setWork) clear() {
	s.totals, s.touched, s.visitors = store.Totals{}, false, nil
	for _, c := range s.cells {
		c.tally, c.changed = store.Tally{}, false
	}
}

// keeps reports whether a set has not expired. The rules in force bound the kinds of
// periods that they have; hits of other documents may add more.
func (rl *ruledList) keeps(s *setWork) bool {
	from, bounded := rl.kept[s.period]
	return !bounded || !s.start.Before(from)
}
