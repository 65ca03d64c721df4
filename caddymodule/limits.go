package caddymodule

import (
	"github.com/hotboard/hotboard/caddymodule/limit"
	"github.com/hotboard/hotboard/ruleset"
)

// uncharged are the limits in shadow that would have refused a view, and so did
// not charge it.
type uncharged []*ruleset.Limit

// charge charges a view of an item to the limits. It returns nothing, or the
// reason of the limit that refuses it. takeBack needs the other result.
func (h *instance) charge(c *client, l *ruleset.List, item string) (ruleset.Reason, uncharged) {
	if len(h.rules.Limits) == 0 {
		return "", nil
	}
	if _, err := h.app.acquire(); err != nil {
		return "", nil // the limiter counts nothing either
	}
	x := c.limited(l, item)
	d := h.limits.Take(&x, nil, c.time)
	countShadowed(l, &d)
	if d.Refused != nil {
		return d.Refused.Reason(), nil
	}
	return "", d.Shadowed
}

// takeBack undoes charge for a view that was not stored.
func (h *instance) takeBack(c *client, l *ruleset.List, item string, not uncharged) {
	if len(h.rules.Limits) == 0 || h.app.rt.Load() == nil {
		return
	}
	x := c.limited(l, item)
	h.limits.Undo(&x, nil, c.time, not...)
}

// countShadowed counts hits that limits in shadow would have refused.
func countShadowed(l *ruleset.List, d *limit.Decision) {
	for _, s := range d.Shadowed {
		shadowedTotal.WithLabelValues(l.Name, s.Name).Inc()
	}
}
