// Package limit refuses what comes too often, by the limits of a ruleset.
package limit

import (
	"net/netip"
	"time"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// Hit is what limits look at.
type Hit struct {
	List    *ruleset.List
	Item    string
	Channel string
	Device  string
	IP      netip.Addr
	// User is whom the site knows; "" where it knows nobody, and the visitor stands in.
	User string
	// VisitorIP and VisitorText tell visitors apart, together.
	VisitorIP   netip.Addr
	VisitorText string
}

// Limiter holds the counts. It outlives configurations.
type Limiter struct{}

// New returns a Limiter that holds the counts of at most maxKeys keys.
func New(maxKeys int) *Limiter { return &Limiter{} }

// SetMaxKeys changes how many keys there may be.
func (l *Limiter) SetMaxKeys(n int) {}

// Bind returns the limits of a configuration with the counts that are held for
// them. Release gives them up; both may overlap with those of another.
func (l *Limiter) Bind(limits []*ruleset.Limit) *Rules { return &Rules{} }

// Rules are the limits of one configuration.
type Rules struct{}

// Release gives up the counts, unless another configuration has the same limits.
func (r *Rules) Release() {}

// AppendQuotas appends the counts that the aggregator holds a vote to: one for
// each calendar window of each limit that applies. secret returns the secret of
// the period that begins at start, the zero time for a campaign.
func (r *Rules) AppendQuotas(dst []hit.Quota, h *Hit, now time.Time, secret func(p ruleset.Span, start time.Time) []byte) []hit.Quota {
	return dst
}

// Decision is what the limits say to a hit.
type Decision struct {
	// Refused is the limit that refuses it; nil when all admit it, and it is charged.
	Refused *ruleset.Limit
	// RetryAfter is when the same hit would be admitted; 0 when never.
	RetryAfter time.Duration
	// Shadowed are the limits in shadow that would have refused it.
	Shadowed []*ruleset.Limit

	// The window with the least room left, of those that are no shadows; nil
	// when no limit applies. Max and Remaining are hits, Reset is when all of Max
	// is there again.
	Window    *ruleset.Window
	Max       int64
	Remaining int64
	Reset     time.Duration
}

// Take charges a hit to all limits that apply, or to none when one refuses it.
// quotas are those of AppendQuotas, nil for a view.
func (r *Rules) Take(h *Hit, quotas []hit.Quota, now time.Time) Decision { return Decision{} }

// Undo takes back the charge of a hit that was admitted and came to nothing.
func (r *Rules) Undo(h *Hit, quotas []hit.Quota, now time.Time) {}

// Learn takes over what an aggregator has counted.
func (r *Rules) Learn(used hit.UsedQuota) {}
