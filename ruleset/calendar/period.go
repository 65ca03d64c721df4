// Package calendar divides time into periods by the clock of a zone: the periods of
// boards, the calendar windows of limits, and the terms of memos and secrets.
package calendar

import (
	"slices"
	"time"
)

// Period is a calendar period in the zone of a list.
type Period string

// The periods. A week is an ISO 8601 week and begins on Monday. Only limits count
// by calendar minutes. All time has no end.
const (
	Minute Period = "minute"
	Hour   Period = "hour"
	Day    Period = "day"
	Week   Period = "week"
	Month  Period = "month"
	All    Period = "all"
)

// Configurations, messages and stores have other names for [All], which must not
// change.
const (
	Campaign = "campaign" // the window of a limit
	Ever     = "ever"     // the term of a memo
	Lasting  = "lasting"  // the term of a secret
)

// StartLayout is the format of a period's beginning, in UTC, in the names of boards
// and secrets. Keys of a bucket cannot contain a colon.
const StartLayout = "20060102T150405Z"

var (
	// Periods lists the periods of boards, shortest first.
	Periods = []Period{Hour, Day, Week, Month, All}
	// Terms lists the periods that memos and secrets may belong to.
	Terms = []Period{Day, Week, Month, All}
)

// Valid reports whether p is one of [Periods].
func (p Period) Valid() bool { return slices.Contains(Periods, p) }

// Parse returns the period with a name, where all is the name of [All].
func Parse(name, all string) (p Period, ok bool) {
	switch p = Period(name); {
	case name == all:
		return All, true
	case p == Minute, p != All && p.Valid():
		return p, true
	}
	return "", false
}

// Name returns the name of the period, where all is the name of [All].
func (p Period) Name(all string) string {
	if p == All {
		return all
	}
	return string(p)
}

// Term returns the period that memos and secrets of p belong to: minutes and hours
// belong to the day in which they begin.
func (p Period) Term() Period {
	if p == Minute || p == Hour {
		return Day
	}
	return p
}

// Keep returns how long to keep what belongs to a term, if it is needed for some
// time after the term has ended. 0 means for ever.
func (p Period) Keep(after time.Duration) time.Duration {
	const day = 24 * time.Hour
	switch p.Term() {
	case Day:
		return day + after
	case Week:
		return 7*day + after
	case Month:
		return 31*day + after
	}
	return 0
}

// Seconds returns the beginning of a period as messages and stores have it: in
// seconds since the Unix epoch, 0 for [All].
func Seconds(start time.Time) int64 {
	if start.IsZero() {
		return 0
	}
	return start.Unix()
}

// Bounds returns the beginning and end of the period that contains t, in zone, as
// UTC. Both are the zero time for All.
func (p Period) Bounds(t time.Time, zone *time.Location) (start, end time.Time) {
	start = p.Start(t, zone)
	return start, p.Add(start, 1, zone)
}

// Start returns the beginning of the period that contains t, in zone, as UTC. All
// begins at the zero time.
//
// The periods of one kind follow each other without gap or overlap, even when
// clocks change:
//   - An hour begins when the zone's clock shows a full hour and has 3600
//     seconds: the hour that clocks repeat in autumn is two hours. Only a change
//     of the clock by part of an hour (Lord Howe Island) cuts an hour short.
//   - A day, week or month begins when the zone's clock enters its first date
//     for good: at midnight, or at the change that skips midnight.
func (p Period) Start(t time.Time, zone *time.Location) time.Time {
	switch p {
	case Minute:
		return t.Truncate(time.Minute).UTC() // zones have had whole minutes since 1972
	case Hour:
		return hourStart(t, zone)
	case Day, Week, Month:
		l := t.In(zone)
		start := p.dateStart(l, 0, zone)
		if start.After(t) {
			// The clock shows the date already, but will go back to the day
			// before.
			start = p.dateStart(l, -1, zone)
		}
		return start
	}
	return time.Time{}
}

// Add returns the beginning of the period n periods after the one that begins
// at start; n may be negative. All has no other period: it returns start.
func (p Period) Add(start time.Time, n int, zone *time.Location) time.Time {
	switch p {
	case Minute:
		return start.Add(time.Duration(n) * time.Minute)
	case Hour:
		return addHours(start, n, zone)
	case Day, Week, Month:
		l := start.In(zone)
		t := p.dateStart(l, n, zone)
		if n < 0 && p == Day && t.Equal(p.dateStart(l, n+1, zone)) {
			// A zone that crosses the date line skips a date.
			t = p.dateStart(l, n-1, zone)
		}
		return t
	}
	return start
}

// dateStart returns the beginning of the day, week or month n after the one of
// l's date.
func (p Period) dateStart(l time.Time, n int, zone *time.Location) time.Time {
	year, month, day := l.Date()
	switch p {
	case Day:
		day += n
	case Week:
		day += 7*n - (int(l.Weekday())+6)%7
	case Month:
		month += time.Month(n)
		day = 1
	}
	return enters(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix(), zone)
}

// enters returns the first instant from which the zone's clock shows clock or
// later, for good. The clock is in seconds as if it were UTC. (time.Date does not
// define which instant it returns when clocks change.)
func enters(clock int64, zone *time.Location) time.Time {
	// No zone is further than 26 hours from UTC, so the clock is past by then.
	t := time.Unix(clock+26*3600, 0).In(zone)
	for {
		_, offset := t.Zone()
		begin, end := t.ZoneBounds()
		at := clock - int64(offset)
		if begin.IsZero() || begin.Unix() < at {
			// (On 31 December of a leap year after 2037 ZoneBounds says that the zone
			// ended when the day began: it takes every year to have 365 days.)
			if end.After(t) && end.Unix() < at {
				at = end.Unix()
			}
			return time.Unix(at, 0).UTC()
		}
		t = begin.Add(-1)
	}
}

func hourStart(t time.Time, zone *time.Location) time.Time {
	l := t.In(zone)
	start := time.Unix(l.Unix()-mod(clockOf(l), 3600), 0).UTC()
	if begin, _ := l.ZoneBounds(); begin.After(start) && cutsHour(begin) {
		return begin.UTC()
	}
	return start
}

// cutsHour reports whether the clock changes at t by part of an hour.
func cutsHour(t time.Time) bool {
	_, before := t.Add(-1).Zone()
	_, after := t.Zone()
	return mod(int64(after-before), 3600) != 0
}

// addHours steps hour by hour only near a change of the clock.
func addHours(start time.Time, n int, zone *time.Location) time.Time {
	t := start.In(zone)
	for ; n > 0; n-- {
		_, end := t.ZoneBounds()
		if target := t.Add(time.Duration(n) * time.Hour); onHour(t) && (end.IsZero() || !target.After(end)) {
			return target.UTC()
		}
		next := time.Unix(t.Unix()+3600-mod(clockOf(t), 3600), 0)
		if !end.IsZero() && end.Before(next) && cutsHour(end) {
			next = end
		}
		t = next.In(zone)
	}
	for ; n < 0; n++ {
		begin, _ := t.ZoneBounds()
		if target := t.Add(time.Duration(n) * time.Hour); onHour(t) && !target.Before(begin) {
			return target.UTC()
		}
		t = hourStart(t.Add(-1), zone).In(zone)
	}
	return t.UTC()
}

func onHour(t time.Time) bool { return mod(clockOf(t), 3600) == 0 }

// clockOf returns the reading of the clock in t's zone, in seconds as if it were
// UTC.
func clockOf(t time.Time) int64 {
	_, offset := t.Zone()
	return t.Unix() + int64(offset)
}

func mod(a, b int64) int64 { return (a%b + b) % b }
