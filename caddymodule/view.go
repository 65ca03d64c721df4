package caddymodule

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hotboard/hotboard/caddymodule/pending"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// longURL is from how many bytes on a URL is not kept in memory for the item that
// is named in it.
const longURL = 1024

// serveView serves a page by next, and counts the view if it is one. Whatever
// happens to the view, the page is what it would be without this module.
func (h *Handler) serveView(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, asked *url.URL, targets []ruleset.Target) error {
	c := h.clientOf(r)
	j := h.app.Judge(ruleset.Request{Method: r.Method, Header: r.Header, BotClass: c.bot.Class, HonorOptOut: h.HonorOptOut})
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

// view is a request for a page, from when it comes until its response was judged.
// It is the response writer of the handlers that come later. It is one piece of
// memory, which no handler's goroutine that outlives the request can find reused.
type view struct {
	caddyhttp.ResponseWriterWrapper
	handler *Handler
	request *http.Request
	asked   *url.URL // what the visitor asked for, and of which host
	host    string
	client  client
	// judgment is not final: nothing is against it, it is speculative, or a list
	// counts bots of this class.
	judgment ruleset.Judgment

	status  int // of the response; 0 as long as there is none
	judged  bool
	targets []target
	few     [2]target // room for those of most sites
}

// target is an item that a request may be a view of, and what becomes of it.
type target struct {
	ruleset.Target
	// outcome is Counted, or why the list that counts it does not; nothing for a
	// speculative view that would be counted.
	outcome   ruleset.Reason
	uncharged uncharged
}

// nameItem fills in an item that a placeholder names. One that is empty when the
// request arrives is looked at again after the response, whose headers may name
// the item.
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

// judge decides what becomes of the view, once the response is known. One that
// counts is charged to the limits now, so that the response's header can tell.
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

// end concludes a view whose handlers have returned err.
func (v *view) end(err error) error {
	if v.status == 0 && err == nil {
		v.status = http.StatusOK // net/http's default when nothing is written
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

// fail makes a view of which a handler failed none.
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

// offer hands a view to the outbox.
func (v *view) offer(t *target) {
	list := v.judgment.Counting(&t.Target)
	rt, err := v.handler.app.acquire()
	if err == nil {
		item := t.Item
		if len(v.asked.Path)+len(v.asked.RawQuery) > longURL {
			item = strings.Clone(item)
		}
		x := v.client.view(rt, list, item)
		x.Published, x.PublishedFrom = v.published(t)
		if rt.outbox.Offer(x) {
			return
		}
	}
	v.handler.takeBack(&v.client, list, t.Item, t.uncharged)
	t.outcome = ruleset.DroppedQueueFull
}

// published returns when the response says that an item was published.
func (v *view) published(t *target) (int64, hit.Source) {
	p := t.List.Published(v.Header())
	if p.IsZero() {
		return 0, hit.FromFirstHit
	}
	return p.UnixMilli(), hit.FromOrigin
}

// wait has a speculative view wait until its page is shown.
func (v *view) wait() {
	var views []pending.View
	for i := range v.targets {
		t := &v.targets[i]
		if t.outcome != "" {
			continue
		}
		s := pending.View{List: t.List.Name, Item: strings.Clone(t.Item)} // not the whole URL
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
