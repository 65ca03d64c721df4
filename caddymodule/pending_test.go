package caddymodule

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hotboard/hotboard/caddymodule/internal/clock"
	"github.com/hotboard/hotboard/caddymodule/outbox"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// outcomesOf returns how many speculative views of a list had each outcome so far.
func outcomesOf(list string) map[string]int {
	n := make(map[string]int)
	for _, outcome := range []string{"confirmed", "expired", "dropped"} {
		n[outcome] = int(counterValue(speculativeTotal.WithLabelValues(list, outcome)))
	}
	return n
}

func TestPendingViews(t *testing.T) {
	t.Parallel()
	const list = "pending-unit"
	before := outcomesOf(list)
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	view := func(item string) []speculation { return []speculation{{list: list, item: item}} }
	p := newPendingViews()
	for i, item := range []string{"a", "b", "c"} {
		p.put(pageKey(i), start, view(item))
	}
	if n := p.len(start); n != 3 {
		t.Errorf("%d wait, want 3", n)
	}
	if got := shown(p, 0, start.Add(pendingLife-1)); len(got) != 1 || got[0].item != "a" {
		t.Errorf("took %v, want a", got)
	}
	if got := shown(p, 0, start.Add(pendingLife-1)); got != nil {
		t.Errorf("took %v twice", got)
	}
	p.put(3, start.Add(pendingLife-1), view("d")) // with the others in the young generation
	if got := shown(p, 1, start.Add(pendingLife)); got != nil {
		t.Errorf("took %v, which is too old", got)
	}
	if got := shown(p, 3, start.Add(2*pendingLife-2)); len(got) != 1 || got[0].item != "d" {
		t.Errorf("took %v, want d from the old generation", got)
	}
	p.put(4, start.Add(2*pendingLife-1), view("e"))
	if n := p.len(start.Add(20 * pendingLife)); n != 0 {
		t.Errorf("%d wait after a long time", n)
	}
	after := outcomesOf(list)
	for outcome, want := range map[string]int{"confirmed": 2, "expired": 3, "dropped": 0} {
		if got := after[outcome] - before[outcome]; got != want {
			t.Errorf("%d %s, want %d", got, outcome, want)
		}
	}
}

func TestPendingViewsAreBounded(t *testing.T) {
	t.Parallel()
	const list, flood = "pending-flood", 3 * maxPending
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	p, before := newPendingViews(), outcomesOf(list)["dropped"]
	most := 0
	for i := range flood {
		p.put(pageKey(i), now, []speculation{{list: list}})
		most = max(most, len(p.young)+len(p.old))
	}
	if most > maxPending || most < maxPending/2 {
		t.Errorf("%d waited at most, want %d", most, maxPending)
	}
	if got := outcomesOf(list)["dropped"] - before + p.len(now); got != flood {
		t.Errorf("%d of %d are waiting or dropped", got, flood)
	}
	if got := shown(p, flood-1, now); len(got) != 1 {
		t.Error("the last is not there")
	}
}

func TestPageKeys(t *testing.T) {
	t.Parallel()
	p := newPendingViews()
	page := func(s string) *url.URL {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	key := func(ip, userAgent, host, uri string) pageKey {
		return p.key(&client{ip: clientAddr(t, ip), userAgent: userAgent}, host, page(uri))
	}
	one := key("192.0.2.1", "x", "example.com", "/a?b=c")
	if key("192.0.2.1", "x", "example.com", "/a?b=c") != one {
		t.Error("the same page has two keys")
	}
	for _, other := range []pageKey{
		key("192.0.2.2", "x", "example.com", "/a?b=c"), key("192.0.2.1", "y", "example.com", "/a?b=c"),
		key("192.0.2.1", "x", "example.org", "/a?b=c"), key("192.0.2.1", "x", "example.com", "/a?b=d"),
		key("192.0.2.1", "x", "example.com", "/a"), key("192.0.2.1", "xexample", ".com", "/a?b=c"),
		newPendingViews().key(&client{ip: clientAddr(t, "192.0.2.1"), userAgent: "x"}, "example.com", page("/a?b=c")),
	} {
		if other == one {
			t.Error("two pages have one key")
		}
	}
}

func TestSpeculativeViews(t *testing.T) {
	log := startLog(t, 1)
	const list = "speculative"
	e := startEdge(t, log, strings.Replace(site(list, "visitor {cookie.visitor}"), "list "+list+" {", `limit few {
			by item
			max 2 per day
			when list `+list+`
		}
		list headed {
			page /speculative/named
			id {http.response.header.X-Article}
		}
		list `+list+` {`, 1))
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	set := func(t time.Time) { clock.Set(func() time.Time { return t }) }
	defer clock.Set(time.Now)()
	set(now)
	fetchEarly := func(path string, header ...string) {
		t.Helper()
		if w := e.do(browse("/"+list+path, append([]string{"Sec-Purpose", "prefetch;prerender"}, header...)...)); w.Code >= 500 {
			t.Fatalf("%s: %d", path, w.Code)
		}
	}
	show := func(path string, header ...string) beaconAnswer {
		t.Helper()
		w := e.do(fetch(http.MethodPost, "/api/views", `{"page":"/`+list+path+`","navigation":"prerender"}`, header...))
		if w.Code != http.StatusAccepted {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		return beaconReply(t, w)
	}
	none := func(what string) {
		t.Helper()
		if n := len(log.hits); n != 0 {
			t.Fatalf("%s: %d hits", what, n)
		}
	}

	t.Run("confirmed", func(t *testing.T) {
		before := outcomesOf(list)
		fetchEarly("/published?from=home")
		none("before the page is shown")
		set(now.Add(time.Minute))
		if a := show("/published?from=home"); a != (beaconAnswer{OK: true, Accepted: 1}) {
			t.Errorf("answer %+v", a)
		}
		h := log.next(t)
		if h.Item != "published" || h.Time != now.Add(time.Minute).UnixMilli() || h.PublishedFrom != hit.FromOrigin {
			t.Errorf("hit %+v, want a view of now, with what the response said", h)
		}
		if got := outcomesOf(list)["confirmed"] - before["confirmed"]; got != 1 {
			t.Errorf("%d were confirmed", got)
		}
	})
	t.Run("that cannot be stored wait on", func(t *testing.T) {
		set(now)
		before := outcomesOf(list)
		fetchEarly("/published?from=mail")
		rt := e.app.rt.Load()
		waiting, open := rt.pending.len(now), rt.outbox
		closed, err := outbox.Open(outbox.Options{Dir: t.TempDir(), Shards: 1})
		if err == nil {
			err = closed.Close(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		rt.outbox = closed
		w := e.do(fetch(http.MethodPost, "/api/views", `{"page":"/speculative/published?from=mail"}`))
		rt.outbox = open
		if w.Code != http.StatusServiceUnavailable || rt.pending.len(now) != waiting {
			t.Errorf("got %d, %d of %d wait", w.Code, rt.pending.len(now), waiting)
		}
		if a := show("/published?from=mail"); a != (beaconAnswer{OK: true, Accepted: 1}) {
			t.Errorf("answer %+v", a)
		}
		if h := log.next(t); h.Item != "published" || h.PublishedFrom != hit.FromOrigin {
			t.Errorf("hit %+v, want what the response said", h)
		}
		if got := outcomesOf(list)["confirmed"] - before["confirmed"]; got != 1 {
			t.Errorf("%d were confirmed", got)
		}
	})
	t.Run("named by the response", func(t *testing.T) {
		set(now)
		fetchEarly("/named")
		if a := show("/named"); a.Accepted != 2 {
			t.Errorf("answer %+v, want the views of both lists", a)
		}
		if a, b := log.next(t), log.next(t); a.Item+b.Item != "named"+"named-by-header" && a.Item+b.Item != "named-by-header"+"named" {
			t.Errorf("hits %+v and %+v", a, b)
		}
	})
	t.Run("by who is named meanwhile", func(t *testing.T) {
		before := outcomesOf(list)
		fetchEarly("/cookie") // whose response sets one
		show("/cookie", "Cookie", "visitor=anna")
		first := log.next(t)
		if got := outcomesOf(list)["confirmed"] - before["confirmed"]; got != 1 {
			t.Errorf("%d were confirmed", got)
		}
		e.do(browse("/"+list+"/more", "Cookie", "visitor=anna"))
		if second := log.next(t); second.Visitor != first.Visitor {
			t.Error("the visitor of a confirmed view is another one than the next view's")
		}
	})
	t.Run("shown later", func(t *testing.T) {
		fetchEarly("/late")
		set(now.Add(pendingLife))
		before := outcomesOf(list)
		show("/late") // is a view, by its path; but not of what was fetched
		if h := log.next(t); h.Item != "late" {
			t.Errorf("hit %+v", h)
		}
		after := outcomesOf(list)
		if after["expired"] != before["expired"]+1 || after["confirmed"] != before["confirmed"] {
			t.Errorf("outcomes %v, then %v", before, after)
		}
	})
	t.Run("never shown", func(t *testing.T) {
		before := outcomesOf(list)
		fetchEarly("/unseen")
		set(now.Add(10 * pendingLife))
		if n := e.app.rt.Load().pending.len(clock.Now()); n != 0 {
			t.Errorf("%d wait for ever", n)
		}
		if got := outcomesOf(list)["expired"] - before["expired"]; got != 1 {
			t.Errorf("%d expired", got)
		}
		none("a page that nobody saw")
	})
	t.Run("not there", func(t *testing.T) {
		fetchEarly("/404")
		if n := e.app.rt.Load().pending.len(clock.Now()); n != 0 {
			t.Errorf("%d wait, want none: the page is not there", n)
		}
	})
	t.Run("limits", func(t *testing.T) {
		for i, want := range []beaconAnswer{{OK: true, Accepted: 1}, {OK: true, Accepted: 1}, {OK: true, Reason: "limited:few"}} {
			fetchEarly("/scarce")
			if a := show("/scarce"); a != want {
				t.Errorf("view %d: %+v, want %+v", i+1, a, want)
			}
		}
		log.next(t)
		log.next(t)
		none("a limited view")
	})
	t.Run("by another", func(t *testing.T) {
		fetchEarly("/theirs")
		before := outcomesOf(list)
		show("/theirs", "User-Agent", chrome)
		if h := log.next(t); h.Item != "theirs" { // their own view, by the path
			t.Errorf("hit %+v", h)
		}
		if after := outcomesOf(list); after["confirmed"] != before["confirmed"] {
			t.Error("another browser confirmed what this one fetched")
		}
	})
	t.Run("from a page that is prerendering still", func(t *testing.T) {
		fetchEarly("/early")
		if a := show("/early", "Sec-Purpose", "prefetch;prerender"); a != (beaconAnswer{OK: true, Reason: ruleset.Speculative}) {
			t.Errorf("answer %+v", a)
		}
		if a := show("/early"); a.Accepted != 1 {
			t.Errorf("answer %+v: it does not wait any more", a)
		}
		log.next(t)
	})
}

// shown takes the views that waited for a page, and has them settled.
func shown(p *pendingViews, k pageKey, now time.Time) []speculation {
	w := p.take(k, now)
	w.settled()
	return w.views
}
