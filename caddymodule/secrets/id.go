package secrets

import (
	"slices"
	"strings"
	"time"

	"github.com/hotboard/hotboard/ruleset/calendar"
)

// secretID identifies a secret by its term.
type secretID struct {
	term  calendar.Period // one of calendar.Terms, in the zone of a list
	start int64           // its beginning, as calendar.Seconds
}

func secretOf(term calendar.Period, start time.Time) secretID {
	return secretID{term, calendar.Seconds(start)}
}

// utcDay returns the id of the secret for the UTC day of t. Every view asks for it,
// and no zone changes how long a day in UTC is: no calendar is needed.
func utcDay(t time.Time) secretID {
	return secretOf(calendar.Day, t.Truncate(24*time.Hour))
}

// over reports whether the edge may forget the secret: a day after the end of its
// term, because clocks differ.
func (id secretID) over(now time.Time) bool {
	kept := id.term.Keep(24 * time.Hour)
	return kept > 0 && now.Sub(time.Unix(id.start, 0)) > kept
}

// String returns the shared name of the secret: 2026-11-20 for a UTC day,
// otherwise the term and its beginning, such as week-20261115T230000Z.
func (id secretID) String() string {
	name, start := id.term.Name(calendar.Lasting), time.Unix(id.start, 0).UTC()
	switch {
	case id.term == calendar.All:
		return name
	case id == utcDay(start):
		return start.Format(time.DateOnly)
	}
	return name + "-" + start.Format(calendar.StartLayout)
}

// parseSecretID is the inverse of String.
func parseSecretID(name string) (id secretID, ok bool) {
	if t, err := time.Parse(time.DateOnly, name); err == nil {
		return utcDay(t), true
	}
	term, start, _ := strings.Cut(name, "-")
	id.term, _ = calendar.Parse(term, calendar.Lasting)
	if t, err := time.Parse(calendar.StartLayout, start); err == nil {
		id.start = t.Unix()
	}
	return id, slices.Contains(calendar.Terms, id.term) && id.String() == name
}
