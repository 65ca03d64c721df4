package caddymodule

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hotboard/hotboard/caddymodule/internal/clock"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// serveView serves a page by next, and counts the view if it is one. Whatever
// happens to the view, the page is what it would be without this module.
func (h *Handler) serveView(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, targets []ruleset.Target) error {
	if reason := h.judgePage(r); reason != "" {
		for _, t := range targets {
			h.conclude(r, t.List, reason)
			if h.DebugHeader {
				addVerdict(w.Header(), t, reason)
			}
		}
		return next.ServeHTTP(w, r)
	}

	v := view{
		Handler: h,
		request: r,
		time:    clock.Now(),
		who:     h.identify(r), // now, because later handlers may change the request
	}
	for i := range targets {
		v.name(&targets[i])
	}
	var beforeHeader caddyhttp.ShouldBufferFunc
	if h.DebugHeader {
		beforeHeader = func(status int, header http.Header) bool {
			if status >= 200 || status == http.StatusSwitchingProtocols {
				for _, t := range targets {
					addVerdict(header, t, v.judgeResponse(&t, status, header))
				}
			}
			return false // never buffer
		}
	}
	rec := caddyhttp.NewResponseRecorder(w, nil, beforeHeader)
	err := next.ServeHTTP(rec, r)

	status := rec.Status()
	if status == 0 {
		status = http.StatusOK // net/http's default when nothing is written
	}
	for i := range targets {
		t := &targets[i]
		reason := ruleset.Error
		if err == nil {
			reason = v.judgeResponse(t, status, w.Header())
		} else if h.DebugHeader && rec.Status() == 0 {
			addVerdict(w.Header(), *t, reason)
		}
		if reason == ruleset.Counted {
			reason = v.offer(t, w.Header())
		}
		h.conclude(r, t.List, reason)
	}
	return err
}

// judgePage returns why the request for a page is not a view, or nothing.
func (h *Handler) judgePage(r *http.Request) ruleset.Reason {
	if reason := ruleset.CheckRequest(r.Method, r.Header); reason != "" {
		return reason
	}
	if h.optedOut(r) {
		return ruleset.OptOut
	}
	if h.app.bots.Classify(r.Header.Get("User-Agent"), clientIP(r)).Bot {
		return ruleset.Bot
	}
	return ""
}

// view is a request that is a view unless its response says otherwise.
type view struct {
	*Handler
	request *http.Request
	time    time.Time
	who     identity
}

// name fills in an item that a placeholder names. One that is empty when the
// request arrives is looked at again after the response, whose headers may name
// the item.
func (v *view) name(t *ruleset.Target) {
	if t.List.ID == "" || t.Item != "" || t.Reason != "" {
		return
	}
	repl, ok := v.request.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return
	}
	t.Item = repl.ReplaceAll(t.List.ID, "")
	if t.Item != "" && hit.ValidID(t.Item) != nil {
		t.Item, t.Reason = "", ruleset.BadItem
	}
}

// judgeResponse returns what the response makes of a view so far: Counted, or
// why not.
func (v *view) judgeResponse(t *ruleset.Target, status int, header http.Header) ruleset.Reason {
	if reason := t.List.CheckResponse(status, header); reason != "" {
		return reason
	}
	v.name(t)
	if t.Item == "" {
		return ruleset.BadItem
	}
	return ruleset.Counted
}

// offer hands a view to the outbox, and returns Counted or why that failed.
func (v *view) offer(t *ruleset.Target, header http.Header) ruleset.Reason {
	rt, err := v.app.acquire()
	if err != nil {
		return ruleset.DroppedQueueFull
	}
	x := hit.Hit{
		Kind:    hit.View,
		List:    t.List.Name,
		Item:    t.Item,
		Visitor: v.who.visitor(rt.secrets.salt(v.time)),
		Time:    v.time.UnixMilli(),
	}
	if header != nil {
		if p := t.List.Published(header); !p.IsZero() {
			x.Published, x.PublishedFrom = p.UnixMilli(), hit.FromOrigin
		}
	}
	if !rt.outbox.Offer(x) {
		return ruleset.DroppedQueueFull
	}
	return ruleset.Counted
}
