package ruleset

import (
	"sync/atomic"
	"time"
)

// Starts holds the beginning of each period around one instant, by [Periods].
type Starts [5]time.Time

// Of returns the beginning of the period p.
func (s *Starts) Of(p Period) time.Time {
	for i, q := range Periods {
		if p == q {
			return s[i]
		}
	}
	return time.Time{}
}

// periodCache remembers the periods of the last hour requested: hits come nearly
// in order.
type periodCache struct{ last atomic.Pointer[cachedStarts] }

// cachedStarts is valid for the instants from and before to, in milliseconds
// since the Unix epoch.
type cachedStarts struct {
	from, to int64
	starts   Starts
}

// Starts returns the beginning of every period that contains the instant ms, in
// milliseconds since the Unix epoch, in the list's zone.
func (l *List) Starts(ms int64) *Starts {
	if c := l.periods.last.Load(); c != nil && c.from <= ms && ms < c.to {
		return &c.starts
	}
	c := new(cachedStarts)
	t := time.UnixMilli(ms)
	for i, p := range Periods {
		c.starts[i] = p.Start(t, l.zone)
	}
	// Only hours and days end within an hour: weeks and months begin with a day.
	hour, day := c.starts.Of(Hour), c.starts.Of(Day)
	c.from = max(hour.UnixMilli(), day.UnixMilli())
	c.to = min(Hour.Add(hour, 1, l.zone).UnixMilli(), Day.Add(day, 1, l.zone).UnixMilli())
	l.periods.last.Store(c)
	return &c.starts
}

// Location returns the list's zone.
func (l *List) Location() *time.Location { return l.zone }
