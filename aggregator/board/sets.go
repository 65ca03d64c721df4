// Package board turns the counts of a store into boards: the set of each period,
// the scores of the hot board, ranks, gaps and the terms behind a score. It only
// reads.
package board

import (
	"strconv"
	"strings"
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// PeriodSet is the set of a list's items in the period that begins at start. Its
// scores are counted hits.
func PeriodSet(list string, p calendar.Period, start time.Time) store.Set {
	if p == calendar.All {
		return AllSet(list)
	}
	return store.Set{List: list, Name: string(p) + ":" + start.UTC().Format(calendar.StartLayout)}
}

// ParsePeriodSet returns the period of a set, and its beginning. ok is false for
// other sets, including [AllSet].
func ParsePeriodSet(set store.Set) (p calendar.Period, start time.Time, ok bool) {
	name, text, _ := strings.Cut(set.Name, ":")
	start, err := time.Parse(calendar.StartLayout, text)
	p = calendar.Period(name)
	return p, start, err == nil && p.Valid() && p != calendar.All
}

// AllSet is the set of a list's items over all time, scored by counted hits. The
// store always keeps it, because the hot board reads it too.
func AllSet(list string) store.Set { return store.Set{List: list, Name: string(calendar.All)} }

// PublishedSet is the set of the publish times of a list's items, in
// milliseconds since the Unix epoch.
func PublishedSet(list string) store.Set { return store.Set{List: list, Name: "published"} }

// ScoreSet is the set of scores that the fold adds up for the list's model. Its
// name includes the parameters of the sums and the weights, so that sums with
// different ones never mix. Gravity and count need no such set: ok is false.
func ScoreSet(l *ruleset.List) (set store.Set, ok bool) {
	num := func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
	weights := ":" + num(l.Weights.PV) + ":" + num(l.Weights.UV)
	switch l.Score.Model {
	case ruleset.Accumulate:
		return store.Set{List: l.Name, Name: "accumulate:" + num(l.Score.Base) + ":" + num(l.Score.Gamma) + weights}, true
	case ruleset.HalfLife:
		return store.Set{List: l.Name, Name: "halflife:" + time.Duration(l.Score.HalfLife).String() + weights}, true
	}
	return store.Set{}, false
}
