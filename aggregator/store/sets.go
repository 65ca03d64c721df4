package store

import (
	"strings"
	"time"

	"github.com/hotboard/hotboard/ruleset/calendar"
)

// PeriodSet is the set of a list's items in the period that begins at start. It
// counts hits.
func PeriodSet(list string, p calendar.Period, start time.Time) Set {
	if p == calendar.All {
		return AllSet(list)
	}
	return Set{List: list, Name: string(p) + ":" + start.UTC().Format(calendar.StartLayout)}
}

// ParsePeriodSet returns the period of a set, and its beginning. ok is false for
// other sets, including [AllSet].
func ParsePeriodSet(set Set) (p calendar.Period, start time.Time, ok bool) {
	name, text, _ := strings.Cut(set.Name, ":")
	start, err := time.Parse(calendar.StartLayout, text)
	p = calendar.Period(name)
	return p, start, err == nil && p.Valid() && p != calendar.All
}

// AllSet is the set of a list's items over all time. It counts hits. The store
// always keeps it, because the hot board reads it too.
func AllSet(list string) Set { return Set{List: list, Name: string(calendar.All)} }

// PublishedSet is the set of a list's items whose scores are their publish times,
// in milliseconds since the Unix epoch.
func PublishedSet(list string) Set { return Set{List: list, Name: "published"} }

// Counts reports whether a set counts hits, like [AllSet] and every [PeriodSet]. Any
// other set has scores.
func (s Set) Counts() bool {
	name, _, _ := strings.Cut(s.Name, ":")
	return calendar.Period(name).Valid()
}
