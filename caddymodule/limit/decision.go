package limit

import (
	"net/http"
	"strconv"
	"time"

	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// Decision is the verdict of the limits on a hit.
type Decision struct {
	// Refused is the first limit that refuses the hit; nil if all limits admit it
	// and charge it.
	Refused *ruleset.Limit
	// RetryAfter is the time until all limits that refuse the hit would admit it;
	// 0 if they never will.
	RetryAfter time.Duration
	// Shadowed are the limits in shadow that would have refused the hit, whether
	// or not another limit refuses it.
	Shadowed []*ruleset.Limit

	// The window with the least room left, among windows not in shadow; of
	// several, the one with the latest reset; nil if no limit applies. Max is the
	// number of hits of this channel that fit at once: for a rate, its burst.
	// Remaining is the room left after this hit. Reset is the time until all of
	// Max is free again, 0 if never.
	Window    *ruleset.Window
	Max       int64
	Remaining int64
	Reset     time.Duration
}

// WriteHeader sets RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset and, if
// the hit is refused but not forever, Retry-After. Times are in seconds, rounded
// up.
func (d *Decision) WriteHeader(h http.Header) {
	if d.Window != nil {
		h.Set("RateLimit-Limit", strconv.FormatInt(d.Max, 10))
		h.Set("RateLimit-Remaining", strconv.FormatInt(d.Remaining, 10))
		if d.Window.Period() != calendar.All {
			h.Set("RateLimit-Reset", strconv.FormatInt(seconds(d.Reset), 10))
		}
	}
	if d.Refused != nil && d.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(seconds(d.RetryAfter), 10))
	}
}

// seconds returns d in seconds, rounded up.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

// consider selects a window for the response header if it is not in shadow and
// has the least room left.
func (d *Decision) consider(w *ruleset.Window, max, remaining int64, reset time.Duration) {
	if d.Window == nil || remaining < d.Remaining ||
		remaining == d.Remaining && d.Reset != 0 && (reset == 0 || reset > d.Reset) {
		d.Window, d.Max, d.Remaining, d.Reset = w, max, remaining, reset
	}
}
