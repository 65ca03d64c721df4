package ruleset

import "time"

// Periods lists every period, shortest first.
var Periods = []Period{Hour, Day, Week, Month, All}

// Valid reports whether p is one of [Periods].
func (p Period) Valid() bool {
	switch p {
	case Hour, Day, Week, Month, All:
		return true
	}
	return false
}

// Start returns the beginning of the period that holds t, in zone, as UTC.
// All begins at the zero time.
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
