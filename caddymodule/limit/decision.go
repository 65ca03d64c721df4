package limit

import (
	"net/http"
	"strconv"
	"time"

	"github.com/hotboard/hotboard/ruleset"
)

// Decision is what the limits say to a hit.
type Decision struct {
	// Refused is the first limit that refuses it; nil when all admit it, and it is
	// charged.
	Refused *ruleset.Limit
	// RetryAfter is when all limits that refuse it would admit the same hit; 0 when
	// never.
	RetryAfter time.Duration
	// Shadowed are the limits in shadow that would have refused it, whether or not
	// another limit does.
	Shadowed []*ruleset.Limit

	// The window with the least room left, of those that are no shadows, and of
	// several the one that is reset last; nil when no limit applies. Max is how many
	// hits of this channel fit at once, for a rate its burst; Remaining how many
	// there is room for after this one; Reset is when all of Max is there again, 0
	// when never.
	Window    *ruleset.Window
	Max       int64
	Remaining int64
	Reset     time.Duration
}

// WriteHeader sets RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset and, when
// the hit is refused but not for ever, Retry-After. Times are in seconds, rounded up.
func (d *Decision) WriteHeader(h http.Header) {
	if d.Window != nil {
		h.Set("RateLimit-Limit", strconv.FormatInt(d.Max, 10))
		h.Set("RateLimit-Remaining", strconv.FormatInt(d.Remaining, 10))
		if d.Window.Per != ruleset.PerCampaign {
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

// consider makes a window that is no shadow the one that is told of, if it has the
// least room left.
func (d *Decision) consider(w *ruleset.Window, max, remaining int64, reset time.Duration) {
	if d.Window == nil || remaining < d.Remaining ||
		remaining == d.Remaining && d.Reset != 0 && (reset == 0 || reset > d.Reset) {
		d.Window, d.Max, d.Remaining, d.Reset = w, max, remaining, reset
	}
}
