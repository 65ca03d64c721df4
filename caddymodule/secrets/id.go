package secrets

import (
	"strings"
	"time"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// secretKind is the kind of a secret's period.
type secretKind uint8

// Kinds of secrets. A day, week or month begins in the zone of a list.
const (
	daySecret secretKind = iota
	weekSecret
	monthSecret
	lastingSecret // never ends
)

// secretKinds describes each kind.
var secretKinds = [...]struct {
	name   string
	period ruleset.Period
	bucket hit.Bucket
	// kept is how long after its beginning an edge keeps a secret: a day longer
	// than the period, because clocks differ. 0: forever.
	kept time.Duration
}{
	daySecret:     {"day", ruleset.Day, hit.DayBucket, 2 * 24 * time.Hour},
	weekSecret:    {"week", ruleset.Week, hit.WeekBucket, 8 * 24 * time.Hour},
	monthSecret:   {"month", ruleset.Month, hit.MonthBucket, 32 * 24 * time.Hour},
	lastingSecret: {"lasting", ruleset.All, hit.LastingBucket, 0},
}

// kindOf returns the kind of secret for the keys of a window.
func kindOf(p ruleset.Span) secretKind {
	switch p {
	case ruleset.PerWeek:
		return weekSecret
	case ruleset.PerMonth:
		return monthSecret
	case ruleset.PerCampaign:
		return lastingSecret
	}
	return daySecret
}

func (k secretKind) period() ruleset.Period { return secretKinds[k].period }
func (k secretKind) bucket() hit.Bucket     { return secretKinds[k].bucket }

// secretID identifies a secret.
type secretID struct {
	kind  secretKind
	start int64 // beginning of the period, in seconds since the Unix epoch; 0 for the lasting one
}

func secretOf(kind secretKind, start time.Time) secretID {
	if kind == lastingSecret {
		return secretID{kind: lastingSecret}
	}
	return secretID{kind, start.Unix()}
}

// utcDay returns the id of the secret for the UTC day of t.
func utcDay(t time.Time) secretID {
	const seconds = 24 * 60 * 60
	sec := t.Unix()
	return secretID{daySecret, sec - (sec%seconds+seconds)%seconds}
}

// over reports whether the edge may forget the secret.
func (id secretID) over(now time.Time) bool {
	kept := secretKinds[id.kind].kept
	return kept > 0 && now.Sub(time.Unix(id.start, 0)) > kept
}

// startLayout is the format of a period's beginning in the name of a secret. Keys
// of a bucket cannot contain a colon.
const startLayout = "20060102T150405Z"

// String returns the shared name of the secret: 2026-11-20 for a UTC day,
// otherwise the kind and the beginning, such as week-20261115T230000Z.
func (id secretID) String() string {
	if id.kind == lastingSecret {
		return secretKinds[lastingSecret].name
	}
	start := time.Unix(id.start, 0).UTC()
	if id == utcDay(start) {
		return start.Format(time.DateOnly)
	}
	return secretKinds[id.kind].name + "-" + start.Format(startLayout)
}

// parseSecretID is the inverse of String.
func parseSecretID(name string) (id secretID, ok bool) {
	if t, err := time.Parse(time.DateOnly, name); err == nil {
		return utcDay(t), true
	}
	kind, start, _ := strings.Cut(name, "-")
	for k, v := range secretKinds {
		if v.name != kind {
			continue
		}
		id = secretID{kind: secretKind(k)}
		if id.kind != lastingSecret {
			t, err := time.Parse(startLayout, start)
			if err != nil {
				return id, false
			}
			id.start = t.Unix()
		}
		return id, id.String() == name
	}
	return id, false
}
