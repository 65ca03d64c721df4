package caddymodule

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hotboard/hotboard/caddymodule/internal/clock"
	"github.com/hotboard/hotboard/caddymodule/outbox"
	"github.com/hotboard/hotboard/caddymodule/pending"
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
		waiting, open := rt.pending.Len(now), rt.outbox
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
		if w.Code != http.StatusServiceUnavailable || rt.pending.Len(now) != waiting {
			t.Errorf("got %d, %d of %d wait", w.Code, rt.pending.Len(now), waiting)
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
		set(now.Add(pending.Life))
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
		set(now.Add(10 * pending.Life))
		if n := e.app.rt.Load().pending.Len(clock.Now()); n != 0 {
			t.Errorf("%d wait for ever", n)
		}
		if got := outcomesOf(list)["expired"] - before["expired"]; got != 1 {
			t.Errorf("%d expired", got)
		}
		none("a page that nobody saw")
	})
	t.Run("not there", func(t *testing.T) {
		fetchEarly("/404")
		if n := e.app.rt.Load().pending.Len(clock.Now()); n != 0 {
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
