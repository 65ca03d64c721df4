package fold

import (
	"context"
	"time"

	"github.com/hotboard/hotboard/aggregator/scoring"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// Each hit is judged by the document that its batch names. Lists of one name in
// several documents share items, memos and sets, and differ in their settings.

// document is the working memory for the hits of one document.
type document struct {
	rules *ruleset.Rules
	lists map[string]*ruledList // nil for a list that the document lacks
}

// document returns the working memory of a document.
func (t *tallies) document(ctx context.Context, id hit.RulesID) (*document, error) {
	if d := t.documents[id]; d != nil {
		return d, nil
	}
	rules, err := t.folder.Rules(ctx, id)
	if err != nil {
		return nil, err
	}
	d := &document{rules: rules, lists: map[string]*ruledList{}}
	t.documents[id] = d
	return d, nil
}

// listWork is what all documents share of a list.
type listWork struct {
	items map[string]*itemWork
	terms map[termID]*term
	all   *setWork
	drop  []store.Set // periods that expire with this fold
}

// ruledList is a list by the settings of one document.
type ruledList struct {
	*listWork
	rules *ruleset.Rules
	list  *ruleset.List
	// keeper is the list by the rules in force, which decide what is kept and which
	// sums there are; list itself if they lack it.
	keeper *ruleset.List
	score  *setWork // nil when the keeper's model keeps no sums

	// The current starts and their sets, kept because hits come nearly in order.
	starts  *calendar.Starts
	periods []*setWork
	day     *term
	nextDay int64 // milliseconds

	windows map[windowID]*window // of limits

	// The oldest kept period of each kind, as of the newest hit so far.
	keptStarts *calendar.Starts
	kept       map[calendar.Period]time.Time
}

// list returns the list with a name, or nil if the document lacks it.
func (t *tallies) list(d *document, name string) *ruledList {
	rl, ok := d.lists[name]
	if ok {
		return rl
	}
	if l := d.rules.List(name); l != nil {
		lw := t.lists[name]
		if lw == nil {
			lw = &listWork{items: map[string]*itemWork{}, terms: map[termID]*term{}}
			lw.all = t.setWork(store.AllSet(name), calendar.All, time.Time{})
			t.lists[name] = lw
		}
		rl = &ruledList{listWork: lw, rules: d.rules, list: l, keeper: t.inForce.List(name), windows: map[windowID]*window{}}
		if rl.keeper == nil {
			rl.keeper = l
		}
		if set, ok := scoring.ScoreSet(rl.keeper); ok {
			rl.score = t.setWork(set, "", time.Time{})
		}
	}
	d.lists[name] = rl
	return rl
}

// turnTo sets periods, day and nextDay of the list to those that begin at starts.
func (t *tallies) turnTo(rl *ruledList, starts *calendar.Starts) {
	if rl.starts == starts {
		return
	}
	var sets []*setWork
	for _, p := range rl.list.Boards {
		if p != calendar.All {
			start := starts.Of(p)
			sets = append(sets, t.setWork(store.PeriodSet(rl.list.Name, p, start), p, start))
		}
	}
	sets = append(sets, rl.all)
	if rl.score != nil {
		sets = append(sets, rl.score)
	}
	day := starts.Of(calendar.Day)
	rl.starts, rl.periods, rl.day = starts, sets, rl.term(calendar.Day, day)
	rl.nextDay = calendar.Day.Add(day, 1, rl.list.Location()).UnixMilli()
}
