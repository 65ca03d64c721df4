package caddymodule

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hotboard/hotboard/caddymodule/samples"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

const (
	// verdictHeader contains the verdict on a request, with debug_header.
	verdictHeader = "Hotboard-Verdict"
	// reasonVar is the variable with the verdict for access logs:
	// {http.vars.hotboard.reason}.
	reasonVar = "hotboard.reason"
)

// reasons are the edge's reasons for requests to a list, besides those of limits.
var reasons = map[hit.Kind][]ruleset.Reason{
	hit.View: {
		ruleset.Counted, ruleset.Method, ruleset.Push, ruleset.Range, ruleset.Speculative, ruleset.NotDocument,
		ruleset.Bot, ruleset.OptOut, ruleset.BadItem, ruleset.Status, ruleset.ContentType, ruleset.Error,
		ruleset.DroppedQueueFull,
	},
	hit.Vote: {
		ruleset.Counted, ruleset.Speculative, ruleset.Bot, ruleset.DroppedQueueFull, ruleset.Unavailable,
		ruleset.BadItem, ruleset.UnknownItem, ruleset.NotOpen, ruleset.Closed,
		ruleset.BadChannel, ruleset.BadUser, ruleset.UserRequired, ruleset.UserMismatch, ruleset.UserNotAllowed,
		// an aggregator's verdicts on a vote with confirmation
		ruleset.Duplicate, ruleset.OverQuota, ruleset.Invalid,
	},
}

// verdicts holds prepared values for each reason of one list.
type verdicts map[ruleset.Reason]verdict

type verdict struct {
	counter prometheus.Counter
	text    any // the reason as a string, so that setting a variable allocates nothing
}

func newVerdict(list string, reason ruleset.Reason) verdict {
	return verdict{requestsTotal.WithLabelValues(list, string(reason)), string(reason)}
}

func verdictsOf(l *ruleset.List, limits []*ruleset.Limit) verdicts {
	m := make(verdicts)
	for _, r := range reasons[l.Kind()] {
		m[r] = newVerdict(l.Name, r)
	}
	for _, limit := range limits {
		if limit.AppliesToList(l.Name) && !limit.Shadow {
			m[limit.Reason()] = newVerdict(l.Name, limit.Reason())
		}
	}
	return m
}

// conclude counts the verdict on a request of c for an item, sets it for the
// access log, and adds a sample. With several lists, the log has the last
// verdict. The list is nil for a request without one.
func (h *instance) conclude(r *http.Request, c *client, l *ruleset.List, item string, reason ruleset.Reason) {
	name := nameOf(l)
	v, ok := h.verdicts[name][reason]
	if !ok { // a verdict of a newer aggregator
		v = newVerdict(name, reason)
	}
	v.counter.Inc()
	caddyhttp.SetVar(r.Context(), reasonVar, v.text)
	h.sample(r, c, name, item, reason)
}

// sample keeps a sample of a request if there is room for its reason.
func (h *instance) sample(r *http.Request, c *client, list, item string, reason ruleset.Reason) {
	rt := h.app.rt.Load()
	if rt == nil || !rt.samples.Admits(reason, c.time) {
		return
	}
	asked := askedFor(r)
	s := samples.Sample{
		Time: c.time.UTC(), List: list, Reason: reason, Device: c.bot.Device,
		Method: asked.Method, Item: item, Path: asked.URL.EscapedPath(), Page: c.page, Channel: c.channel,
	}
	if c.bot.Bot {
		s.Bot = &samples.Bot{Class: c.bot.Class, Reason: c.bot.Reason}
	}
	if c.userAgent != "" || c.who.Text != "" {
		s.Visitor = fmt.Sprintf("%06x", rt.visitors.Of(c.who, rt.secrets.OfDay(c.time))>>40)
	}
	rt.samples.Add(s)
}

// nameOf returns the name of a list, or "" for nil.
func nameOf(l *ruleset.List) string {
	if l == nil {
		return ""
	}
	return l.Name
}

// addVerdict adds the verdict on a view to a response's header, for example
// counted; list=articles; item="rust-in-caddy".
func addVerdict(header http.Header, t ruleset.Target, reason ruleset.Reason) {
	s := string(reason) + "; list=" + t.List.Name
	if t.Item != "" {
		s += "; item=" + strconv.QuoteToASCII(t.Item)
	}
	header.Add(verdictHeader, s)
}
