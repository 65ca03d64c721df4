package calendar

import (
	"slices"
	"sync/atomic"
	"time"
)

// Starts holds the beginning of each period around one instant, by [Periods].
type Starts [5]time.Time

// Of returns the beginning of the period p.
func (s *Starts) Of(p Period) time.Time { return s[slices.Index(Periods, p)] }

// Cache remembers the periods of the last hour requested in a zone: hits come nearly
// in order. It is safe for concurrent use.
type Cache struct {
	Zone *time.Location

	last atomic.Pointer[cachedStarts]
}

// cachedStarts is valid for the instants from and before to, in milliseconds
// since the Unix epoch.
type cachedStarts struct {
	from, to int64
	starts   Starts
}

// Starts returns the beginning of every period that contains the instant ms, in
// milliseconds since the Unix epoch.
func (c *Cache) Starts(ms int64) *Starts {
	if s := c.last.Load(); s != nil && s.from <= ms && ms < s.to {
		return &s.starts
	}
	s := new(cachedStarts)
	t := time.UnixMilli(ms)
	for i, p := range Periods {
		s.starts[i] = p.Start(t, c.Zone)
	}
	// Only hours and days end within an hour: weeks and months begin with a day.
	hour, day := s.starts.Of(Hour), s.starts.Of(Day)
	s.from = max(hour.UnixMilli(), day.UnixMilli())
	s.to = min(Hour.Add(hour, 1, c.Zone).UnixMilli(), Day.Add(day, 1, c.Zone).UnixMilli())
	c.last.Store(s)
	return &s.starts
}
