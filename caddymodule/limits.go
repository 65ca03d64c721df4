package caddymodule

import (
	"github.com/hotboard/hotboard/caddymodule/limit"
	"github.com/hotboard/hotboard/ruleset"
)

// charge charges a view of an item to the limits, and returns nothing, or the
// reason of the limit that refuses it.
func (h *Handler) charge(c *client, l *ruleset.List, item string) ruleset.Reason {
	if len(h.app.Limits) == 0 {
		return ""
	}
	x := c.limited(l, item)
	d := h.app.limits.Take(&x, nil, c.time)
	countShadowed(l, &d)
	if d.Refused != nil {
		return d.Refused.Reason()
	}
	return ""
}

// takeBack undoes charge, for a view that came to nothing.
func (h *Handler) takeBack(c *client, l *ruleset.List, item string) {
	if len(h.app.Limits) == 0 {
		return
	}
	x := c.limited(l, item)
	h.app.limits.Undo(&x, nil, c.time)
}

// countShadowed counts what limits in shadow would have refused.
func countShadowed(l *ruleset.List, d *limit.Decision) {
	for _, s := range d.Shadowed {
		shadowedTotal.WithLabelValues(l.Name, s.Name).Inc()
	}
}
