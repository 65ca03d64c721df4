package fold

import (
	"time"

	"github.com/hotboard/hotboard/aggregator/board"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/ruleset"
)

// keep computes the kept periods, as of the newest hit so far.
func (lw *listWork) keep() {
	starts := lw.list.Starts(lw.all.totals.Newest)
	if lw.keptStarts != nil && *starts == *lw.keptStarts {
		return
	}
	lw.keptStarts = starts
	lw.kept = map[ruleset.Period]time.Time{}
	for _, p := range lw.list.Boards {
		if p != ruleset.All {
			lw.kept[p] = p.Add(starts.Of(p), -lw.list.Keep[p], lw.list.Location())
		}
	}
}

func (lw *listWork) keeps(s *setWork) bool {
	from, bounded := lw.kept[s.period]
	return !bounded || !s.start.Before(from)
}

// drop returns the sets of the periods that expire with this fold.
func (lw *listWork) drop() []store.Set {
	l := lw.list
	if lw.newestBefore == 0 || lw.newestBefore == lw.all.totals.Newest {
		return nil
	}
	var sets []store.Set
	before := *l.Starts(lw.newestBefore)
	for p, from := range lw.kept {
		start := p.Add(before.Of(p), -l.Keep[p], l.Location())
		// Never more than were kept, however far the newest hit has moved.
		for n := 0; n <= l.Keep[p] && start.Before(from); n++ {
			sets = append(sets, board.PeriodSet(l.Name, p, start))
			start = p.Add(start, 1, l.Location())
		}
	}
	return sets
}
