package caddymodule

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hotboard/hotboard/caddymodule/limit"
	"github.com/hotboard/hotboard/caddymodule/pending"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// longURL is the length above which an item does not keep its URL in memory.
const longURL = 1024

// serveView serves a page by next, and counts its view if it is one. Counting
// never changes the page.
func (h *instance) serveView(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, asked *url.URL, targets []ruleset.Target) error {
	c := h.clientOf(r)
	j := h.rules.Judge(ruleset.Request{Method: r.Method, Header: r.Header, BotClass: c.bot.Class, HonorOptOut: h.HonorOptOut})
	if j.Final() {
		for _, t := range targets {
			h.conclude(r, &c, t.List, t.Item, j.Against)
			if h.DebugHeader {
				addVerdict(w.Header(), t, j.Against)
			}
		}
		return next.ServeHTTP(w, r)
	}
	v := &view{handler: h, request: r, asked: asked, host: r.Host, client: c, judgment: j}
	v.ResponseWriter = w
	v.targets = v.few[:0]
	for _, t := range targets {
		v.targets = append(v.targets, target{Target: t})
	}
	for i := range v.targets {
		nameItem(r, &v.targets[i].Target)
	}
	return v.end(next.ServeHTTP(v, r))
}

// view is a request for a page, from its arrival to the verdict on its response.
// It is the response writer of later handlers. It is a single allocation and is
// not reused, because a handler's goroutine may outlive the request.
type view struct {
	caddyhttp.ResponseWriterWrapper
	handler *instance
	request *http.Request
	asked   *url.URL // original URL with the host
	host    string
	client  client
	// judgment is provisional: no reason against the view, a speculative view, or
	// a bot of a class that a list counts.
	judgment ruleset.Judgment

	status  int // of the response; 0 before there is one
	judged  bool
	targets []target
	few     [2]target // enough for most sites
}

// target is a candidate item of a request with its verdict.
type target struct {
	ruleset.Target
	// outcome is Counted, or the counting list's reason against it; empty for a
	// speculative view that would count.
	outcome   ruleset.Reason
	uncharged uncharged
}

// nameItem fills in an item from a placeholder. If it is empty when the request
// arrives, the handler evaluates it again after the response, whose headers may
// name the item.
func nameItem(r *http.Request, t *ruleset.Target) {
	if t.List.ID == "" || t.Item != "" || t.Reason != "" {
		return
	}
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return
	}
	t.Item = repl.ReplaceAll(t.List.ID, "")
	if t.Item != "" && hit.ValidID(t.Item) != nil {
		t.Item, t.Reason = "", ruleset.BadItem
	}
}

// judge decides the verdict on the view once the response is known. It charges a
// counted view to the limits now, so that the response's header can contain the
// verdict.
func (v *view) judge() {
	if v.judged {
		return
	}
	v.judged = true
	for i := range v.targets {
		t := &v.targets[i]
		nameItem(v.request, &t.Target)
		t.outcome = v.judgment.Outcome(&t.Target, v.status, v.Header())
		if t.outcome == "" && v.judgment.Against != ruleset.Speculative {
			t.outcome, t.uncharged = v.handler.charge(&v.client, v.judgment.Counting(&t.Target), t.Item)
			if t.outcome == "" {
				t.outcome = ruleset.Counted
			}
		}
		if v.handler.DebugHeader {
			addVerdict(v.Header(), t.Target, v.judgment.Reason(t.outcome))
		}
	}
}

// end concludes a view after its handlers have returned err.
func (v *view) end(err error) error {
	if v.status == 0 && err == nil {
		v.status = http.StatusOK // net/http's default without a write
	}
	if err == nil {
		v.judge()
	} else {
		v.fail()
	}
	for i := range v.targets {
		t := &v.targets[i]
		if t.outcome == ruleset.Counted {
			v.offer(t)
		}
		if v.judgment.Bots != nil {
			v.handler.conclude(v.request, &v.client, v.judgment.Bots, t.Item, t.outcome)
		}
		v.handler.conclude(v.request, &v.client, t.List, t.Item, v.judgment.Reason(t.outcome))
	}
	if v.judgment.Against == ruleset.Speculative {
		v.wait()
	}
	return err
}

// fail discards a view whose handler failed.
func (v *view) fail() {
	for i := range v.targets {
		t := &v.targets[i]
		if t.outcome == ruleset.Counted {
			v.handler.takeBack(&v.client, v.judgment.Counting(&t.Target), t.Item, t.uncharged)
		}
		t.outcome = ruleset.Error
		if v.handler.DebugHeader && !v.judged {
			addVerdict(v.Header(), t.Target, v.judgment.Reason(t.outcome))
		}
	}
}

// offer passes a view to the outbox.
func (v *view) offer(t *target) {
	list := v.judgment.Counting(&t.Target)
	rt, err := v.handler.app.acquire()
	if err == nil {
		item := t.Item
		if len(v.asked.Path)+len(v.asked.RawQuery) > longURL {
			item = strings.Clone(item)
		}
		x := v.handler.viewBy(&v.client, rt, list, item)
		x.Published, x.PublishedFrom = v.published(t)
		if rt.outbox.Offer(x) {
			return
		}
	}
	v.handler.takeBack(&v.client, list, t.Item, t.uncharged)
	t.outcome = ruleset.DroppedQueueFull
}

// published returns the item's publish time from the response.
func (v *view) published(t *target) (int64, hit.Source) {
	p := t.List.Published(v.Header())
	if p.IsZero() {
		return 0, hit.FromFirstHit
	}
	return p.UnixMilli(), hit.FromOrigin
}

// wait stores a speculative view until its page is shown.
func (v *view) wait() {
	var views []pending.View
	for i := range v.targets {
		t := &v.targets[i]
		if t.outcome != "" {
			continue
		}
		s := pending.View{List: t.List.Name, Item: strings.Clone(t.Item)} // a copy, not part of the whole URL
		s.Published, s.PublishedFrom = v.published(t)
		views = append(views, s)
	}
	if len(views) == 0 {
		return
	}
	if rt, err := v.handler.app.acquire(); err == nil {
		rt.pending.Put(rt.pending.KeyOf(v.client.ip, v.client.userAgent, v.host, v.asked), v.client.time, views)
	}
}

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
