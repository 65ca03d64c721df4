package calendar

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// testZones are zones whose clocks do unusual things.
var testZones = []string{
	"UTC", "Europe/Berlin", "America/New_York",
	"Asia/Kolkata",        // 5:30
	"Asia/Kathmandu",      // 5:30, then 5:45 from 1986
	"Australia/Lord_Howe", // changes by half an hour
	"America/Sao_Paulo",   // skipped and repeated midnight until 2019
	"America/Havana",      // repeats midnight to one
	"America/St_Johns",    // changed at one minute past midnight until 2011
	"Africa/Monrovia",     // -0:44:30 until 1972
	"Pacific/Apia",        // skipped 30 December 2011
	"Pacific/Kwajalein",   // skipped a day in 1993
	"Pacific/Chatham",     // 12:45
	"America/Caracas",     // changes by half an hour in 2007 and 2016
	"Asia/Pyongyang",      // the same in 2015 and 2018
	"Asia/Gaza", "Africa/Casablanca", "Asia/Tehran", "Antarctica/Troll",
}

func loadZone(t testing.TB, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func utc(t testing.TB, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return v.UTC()
}

func TestPeriodStart(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		period Period
		zone   string
		at     string
		from   string
		to     string
	}{
		{"hour", Hour, "UTC", "2026-11-20T13:59:59Z", "2026-11-20T13:00:00Z", "2026-11-20T14:00:00Z"},
		{"hour in a half-hour zone", Hour, "Asia/Kolkata", "2026-11-20T13:29:59Z", "2026-11-20T12:30:00Z", "2026-11-20T13:30:00Z"},
		{"hour in a quarter-hour zone", Hour, "Asia/Kathmandu", "2026-11-20T13:29:59Z", "2026-11-20T13:15:00Z", "2026-11-20T14:15:00Z"},
		{"first of the repeated hour", Hour, "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"},
		{"second of the repeated hour", Hour, "Europe/Berlin", "2026-10-25T01:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"},
		{"hour after the skipped one", Hour, "Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"},
		// Lord Howe: 2:00 at +11 becomes 1:30 at +10:30 on 5 April 2026, 15:00 UTC the day before.
		{"hour before a half-hour change", Hour, "Australia/Lord_Howe", "2026-04-04T14:59:59Z", "2026-04-04T14:00:00Z", "2026-04-04T15:00:00Z"},
		{"hour cut by a half-hour change", Hour, "Australia/Lord_Howe", "2026-04-04T15:29:59Z", "2026-04-04T15:00:00Z", "2026-04-04T15:30:00Z"},
		{"hour after a half-hour change", Hour, "Australia/Lord_Howe", "2026-04-04T15:30:00Z", "2026-04-04T15:30:00Z", "2026-04-04T16:30:00Z"},
		{"hour in Liberia in 1971", Hour, "Africa/Monrovia", "1971-06-01T00:44:29Z", "1971-05-31T23:44:30Z", "1971-06-01T00:44:30Z"},

		{"day", Day, "UTC", "2026-11-20T23:59:59.999Z", "2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z"},
		{"day in another zone", Day, "Europe/Berlin", "2026-11-20T23:30:00Z", "2026-11-20T23:00:00Z", "2026-11-21T23:00:00Z"},
		{"day of 25 hours", Day, "Europe/Berlin", "2026-10-25T22:59:59Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"},
		{"day of 23 hours", Day, "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},
		{"day without a midnight", Day, "America/Sao_Paulo", "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"},
		{"day before it", Day, "America/Sao_Paulo", "2018-11-04T02:59:59Z", "2018-11-03T03:00:00Z", "2018-11-04T03:00:00Z"},
		{"day whose 23 o'clock is repeated", Day, "America/Sao_Paulo", "2018-02-18T02:30:00Z", "2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z"},
		{"day with two midnights", Day, "America/Havana", "2026-11-01T05:30:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
		{"minute that is taken back", Day, "America/St_Johns", "2010-11-07T02:30:30Z", "2010-11-06T02:30:00Z", "2010-11-07T03:30:00Z"},
		{"day before a skipped day", Day, "Pacific/Apia", "2011-12-30T09:00:00Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"},
		{"day after a skipped day", Day, "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"},

		{"week", Week, "UTC", "2026-11-20T12:00:00Z", "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z"},
		{"Sunday ends a week", Week, "UTC", "2026-11-22T23:59:59Z", "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z"},
		{"week 53 over the turn of the year", Week, "UTC", "2027-01-02T00:00:00Z", "2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z"},
		{"week 1 begins in the old year", Week, "UTC", "2024-12-31T00:00:00Z", "2024-12-30T00:00:00Z", "2025-01-06T00:00:00Z"},
		{"week with a change of the clock", Week, "Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-18T22:00:00Z", "2026-10-25T23:00:00Z"},

		{"month of 31 days", Month, "UTC", "2026-01-31T12:00:00Z", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"},
		{"February", Month, "UTC", "2026-02-28T12:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		{"February of a leap year", Month, "UTC", "2024-02-29T12:00:00Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"},
		{"December", Month, "America/New_York", "2027-01-01T04:59:59Z", "2026-12-01T05:00:00Z", "2027-01-01T05:00:00Z"},
		{"month that begins in summer time", Month, "Europe/Berlin", "2026-10-31T12:00:00Z", "2026-09-30T22:00:00Z", "2026-10-31T23:00:00Z"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			zone := loadZone(t, tt.zone)
			from := tt.period.Start(utc(t, tt.at), zone)
			if want := utc(t, tt.from); !from.Equal(want) || from.Location() != time.UTC {
				t.Errorf("Start = %v, want %v", from, want)
			}
			to := tt.period.Add(from, 1, zone)
			if want := utc(t, tt.to); !to.Equal(want) {
				t.Errorf("Add(1) = %v, want %v", to, want)
			}
			if back := tt.period.Add(to, -1, zone); !back.Equal(from) {
				t.Errorf("Add(-1) of the next = %v, want %v", back, from)
			}
		})
	}
}

func TestPeriodAll(t *testing.T) {
	t.Parallel()
	if got := All.Start(time.Now(), time.UTC); !got.IsZero() {
		t.Errorf("Start = %v, want the zero time", got)
	}
	if got := All.Add(time.Time{}, 3, time.UTC); !got.IsZero() {
		t.Errorf("Add = %v, want the zero time", got)
	}
	if Period("year").Valid() || !All.Valid() {
		t.Error("Valid is wrong")
	}
}

// Names and terms are part of configurations, messages and stores.
func TestNamesAndTerms(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, tt := range []struct {
		name   string
		period Period
		term   Period
		keep   time.Duration
	}{
		{"minute", Minute, Day, 2 * day},
		{"hour", Hour, Day, 2 * day},
		{"day", Day, Day, 2 * day},
		{"week", Week, Week, 8 * day},
		{"month", Month, Month, 32 * day},
		{"campaign", All, All, 0},
	} {
		if p, ok := Parse(tt.name, Campaign); !ok || p != tt.period || p.Name(Campaign) != tt.name {
			t.Errorf("Parse(%q) = %q, %v", tt.name, p, ok)
		}
		if got := tt.period.Term(); got != tt.term {
			t.Errorf("the term of %s is %s, want %s", tt.period, got, tt.term)
		}
		if got := tt.period.Keep(day); got != tt.keep {
			t.Errorf("%s: Keep = %v, want %v", tt.period, got, tt.keep)
		}
	}
	for _, name := range []string{"", "all", "second", "10s", "year", Ever, Lasting} {
		if p, ok := Parse(name, Campaign); ok || p != "" {
			t.Errorf("Parse(%q) = %q, %v", name, p, ok)
		}
	}
	if got := []string{All.Name(Ever), All.Name(Lasting)}; !slices.Equal(got, []string{"ever", "lasting"}) {
		t.Errorf("names of all time: %q", got)
	}
	if all, before := Seconds(All.Start(time.Now(), time.UTC)), Seconds(time.Unix(-60, 0)); all != 0 || before != -60 {
		t.Errorf("Seconds = %d, %d", all, before)
	}
}

// checkPeriods verifies what Start and Add promise about the instant at.
func checkPeriods(t interface {
	Helper()
	Errorf(string, ...any)
}, c *Cache, at time.Time) {
	t.Helper()
	starts := c.Starts(at.UnixMilli())
	for _, p := range Periods {
		from := p.Start(at, c.Zone)
		if got := starts.Of(p); !got.Equal(from) {
			t.Errorf("%v %s %v: Starts has %v, Start %v", c.Zone, p, at, got, from)
		}
		if p == All {
			continue
		}
		to := p.Add(from, 1, c.Zone)
		switch {
		case from.After(at) || !to.After(at):
			t.Errorf("%v %s %v is not in %v to %v", c.Zone, p, at, from, to)
		case !p.Start(from, c.Zone).Equal(from):
			t.Errorf("%v %s: the period that begins at %v begins at %v", c.Zone, p, from, p.Start(from, c.Zone))
		case !p.Start(to.Add(-1), c.Zone).Equal(from):
			t.Errorf("%v %s: the end of %v to %v is in %v", c.Zone, p, from, to, p.Start(to.Add(-1), c.Zone))
		case !p.Start(to, c.Zone).Equal(to):
			t.Errorf("%v %s: %v follows %v but is in %v", c.Zone, p, to, from, p.Start(to, c.Zone))
		case !p.Add(to, -1, c.Zone).Equal(from):
			t.Errorf("%v %s: %v is before %v, want %v", c.Zone, p, p.Add(to, -1, c.Zone), to, from)
		}
	}
}

// Around every change of the clock since 1970, periods join without a gap or
// an overlap, and the cache agrees with the calendar.
func TestPeriodsAroundClockChanges(t *testing.T) {
	t.Parallel()
	for _, name := range testZones {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &Cache{Zone: loadZone(t, name)}
			end := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
			for change := time.Date(1970, 1, 3, 0, 0, 0, 0, time.UTC); ; {
				_, next := change.In(c.Zone).ZoneBounds()
				if next.IsZero() || next.After(end) {
					return
				}
				change = next
				for minutes := -26 * 60; minutes <= 26*60; minutes += 13 {
					at := change.Add(time.Duration(minutes) * time.Minute)
					checkPeriods(t, c, at)
				}
				for _, d := range []time.Duration{-time.Minute, -time.Second, -time.Millisecond, 0, time.Second, time.Minute} {
					checkPeriods(t, c, change.Add(d))
				}
			}
		})
	}
}

func TestPeriodsProperties(t *testing.T) {
	t.Parallel()
	caches := make([]*Cache, len(testZones))
	for i, name := range testZones {
		caches[i] = &Cache{Zone: loadZone(t, name)}
	}
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(caches).Draw(t, "zone")
		ms := rapid.Int64Range(1, 4102444800000).Draw(t, "ms") // 1970 to 2100
		checkPeriods(t, c, time.UnixMilli(ms))
		// Nearby, so that the cache is hit and missed.
		near := max(1, ms+rapid.Int64Range(-2*3600_000, 2*3600_000).Draw(t, "near"))
		checkPeriods(t, c, time.UnixMilli(near))
	})
}

// The standard library's bounds of a zone are wrong at the end of these years.
func TestPeriodsOfLateLeapYears(t *testing.T) {
	t.Parallel()
	for _, name := range testZones {
		c := &Cache{Zone: loadZone(t, name)}
		for year := 2036; year <= 2096; year += 4 {
			for at := time.Date(year, 11, 29, 0, 30, 0, 0, time.UTC); at.Year() == year || at.Month() == 1 && at.Day() < 4; at = at.Add(11 * time.Hour) {
				checkPeriods(t, c, at)
			}
		}
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		period           Period
		zone, at         string
		wantFrom, wantTo string
	}{
		{Minute, "Asia/Kathmandu", "2026-11-20T13:29:59.9Z", "2026-11-20T13:29:00Z", "2026-11-20T13:30:00Z"},
		{Hour, "Asia/Kolkata", "2026-11-20T13:29:59Z", "2026-11-20T12:30:00Z", "2026-11-20T13:30:00Z"},
		{Day, "Europe/Berlin", "2026-11-20T22:59:59Z", "2026-11-19T23:00:00Z", "2026-11-20T23:00:00Z"},
		{Day, "Europe/Berlin", "2026-11-20T23:00:00Z", "2026-11-20T23:00:00Z", "2026-11-21T23:00:00Z"},
		{Day, "Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"}, // of 25 hours
		{Week, "UTC", "2027-01-01T00:00:00Z", "2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z"},
		{Month, "America/New_York", "2026-12-01T04:59:59Z", "2026-11-01T04:00:00Z", "2026-12-01T05:00:00Z"},
	} {
		from, to := c.period.Bounds(utc(t, c.at), loadZone(t, c.zone))
		if !from.Equal(utc(t, c.wantFrom)) || !to.Equal(utc(t, c.wantTo)) || from.Location() != time.UTC || to.Location() != time.UTC {
			t.Errorf("%s of %s in %s: %v to %v, want %s to %s", c.period, c.at, c.zone, from, to, c.wantFrom, c.wantTo)
		}
	}
	if from, to := All.Bounds(utc(t, "2026-11-20T13:00:00Z"), time.UTC); !from.IsZero() || !to.IsZero() {
		t.Errorf("all time has bounds: %v to %v", from, to)
	}
}

// The bounds of a period contain the requested time, and every time between them
// has the same bounds: otherwise a count would restart in the middle, or one hit
// would count in two windows.
func TestBoundsDivideTime(t *testing.T) {
	t.Parallel()
	periods := []Period{Minute, Hour, Day, Week, Month}
	rapid.Check(t, func(t *rapid.T) {
		zone, err := time.LoadLocation(rapid.SampledFrom(testZones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		p := rapid.SampledFrom(periods).Draw(t, "period")
		at := time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "at")) // 1970 to 2096
		from, to := p.Bounds(at, zone)
		if at.Before(from) || !at.Before(to) {
			t.Fatalf("%s of %v: %v to %v", p, at.UTC(), from, to)
		}
		within := from.Add(time.Duration(rapid.Int64Range(0, int64(to.Sub(from))-1).Draw(t, "within")))
		for _, other := range []time.Time{from, within, to.Add(-1)} {
			if f, e := p.Bounds(other, zone); !f.Equal(from) || !e.Equal(to) {
				t.Fatalf("%s of %v: %v to %v, and of %v, which is in it: %v to %v", p, at.UTC(), from, to, other, f, e)
			}
		}
		if next, _ := p.Bounds(to, zone); !next.Equal(to) {
			t.Fatalf("%s: one ends at %v, the next begins at %v", p, to, next)
		}
	})
}

// Adding n at once is the same as adding 1 n times. (A zone that crossed the
// date line is left out: n counts dates.)
func TestPeriodAddSteps(t *testing.T) {
	t.Parallel()
	zones := []string{"UTC", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Sao_Paulo", "America/St_Johns"}
	rapid.Check(t, func(t *rapid.T) {
		zone, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		p := rapid.SampledFrom(Periods).Draw(t, "period")
		start := p.Start(time.Unix(rapid.Int64Range(1, 4102444800).Draw(t, "at"), 0), zone)
		n := rapid.IntRange(-60, 60).Draw(t, "n")
		step := 1
		if n < 0 {
			step = -1
		}
		want := start
		for i := 0; i != n; i += step {
			want = p.Add(want, step, zone)
		}
		if got := p.Add(start, n, zone); !got.Equal(want) {
			t.Fatalf("%s %v: Add(%v, %d) = %v, in steps %v", p, zone, start, n, got, want)
		}
	})
}

func TestStartsIsConcurrent(t *testing.T) {
	t.Parallel()
	c := &Cache{Zone: time.UTC}
	done := make(chan struct{})
	for g := range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			for i := range 2000 {
				ms := int64(1763596800000) + int64((i*7+g)%5)*3600_000
				if got, want := c.Starts(ms).Of(Hour).UnixMilli(), ms-ms%3600_000; got != want {
					t.Errorf("Starts(%d) = %d, want %d", ms, got, want)
				}
			}
		}()
	}
	for range 4 {
		<-done
	}
}

func BenchmarkStarts(b *testing.B) {
	c := &Cache{Zone: loadZone(b, "Europe/Berlin")}
	b.Run("same hour", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			c.Starts(1763596800000 + int64(i%3600))
		}
	})
	b.Run("other hour", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			c.Starts(1763596800000 + int64(i%2)*3600_000)
		}
	})
}
