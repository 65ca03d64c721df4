// Package board turns the counts of a store into boards: the set of each period,
// the scores of the hot board, ranks, gaps and the terms behind a score. It only
// reads.
package board

import (
	"strconv"
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/ruleset"
)

// PeriodSet is the set of a list's items in the period that begins at start. Its
// scores are counted hits.
func PeriodSet(list string, p ruleset.Period, start time.Time) store.Set {
	if p == ruleset.All {
		return AllSet(list)
	}
	return store.Set{List: list, Name: string(p) + ":" + start.UTC().Format("20060102T150405Z")}
}

// AllSet is the set of a list's items over all time, scored by counted hits. The
// store always keeps it, because the hot board reads it too.
func AllSet(list string) store.Set { return store.Set{List: list, Name: string(ruleset.All)} }

// PublishedSet is the set of the publish times of a list's items, in
// milliseconds since the Unix epoch.
func PublishedSet(list string) store.Set { return store.Set{List: list, Name: "published"} }

// ScoreSet is the set of scores that the fold adds up for the list's model. Its
// name includes the parameters of the sums, so that sums with different parameters
// never mix: after a reload with other parameters the hot board begins anew.
// Gravity and count need no such set: ok is false.
func ScoreSet(l *ruleset.List) (set store.Set, ok bool) {
	num := func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
	switch l.Score.Model {
	case ruleset.Accumulate:
		return store.Set{List: l.Name, Name: "accumulate:" + num(l.Score.Base) + ":" + num(l.Score.Gamma)}, true
	case ruleset.HalfLife:
		return store.Set{List: l.Name, Name: "halflife:" + time.Duration(l.Score.HalfLife).String()}, true
	}
	return store.Set{}, false
}
