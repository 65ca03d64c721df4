// Package board turns the counts of a store into boards: which set holds which
// period, how the hot board scores, ranks, gaps and the terms behind a score.
// It only reads.
package board

import (
	"strconv"
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/ruleset"
)

// PeriodSet is the set of the views of a list's items in the period that begins
// at start. Its scores are counted views.
func PeriodSet(list string, p ruleset.Period, start time.Time) store.Set {
	if p == ruleset.All {
		return AllSet(list)
	}
	return store.Set{List: list, Name: string(p) + ":" + start.UTC().Format("20060102T150405Z")}
}

// AllSet is the set of the views of a list's items over all time. It is always
// kept, because the hot board reads it too.
func AllSet(list string) store.Set { return store.Set{List: list, Name: string(ruleset.All)} }

// PublishedSet is the set of the publish times of a list's items, in
// milliseconds since the Unix epoch.
func PublishedSet(list string) store.Set { return store.Set{List: list, Name: "published"} }

// ScoreSet is the set of scores that the fold adds up for the list's model.
// The parameters that a sum depends on are part of the name, so that sums with
// different parameters are never mixed: after a reload that changes them the
// hot board begins anew. Gravity and count need no such set: ok is false.
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
