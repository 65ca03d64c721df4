package caddymodule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hotboard/hotboard/caddymodule/internal/clock"
	"github.com/hotboard/hotboard/caddymodule/outbox"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// beaconReply decodes the answer to a beacon.
func beaconReply(t testing.TB, w *httptest.ResponseRecorder) beaconAnswer {
	t.Helper()
	var a beaconAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatalf("the body %q: %v", w.Body, err)
	}
	return a
}

func TestBeacon(t *testing.T) {
	log := startLog(t, 1)
	e := startEdge(t, log, site("beacons"))
	send := func(body string, header ...string) *httptest.ResponseRecorder {
		t.Helper()
		return e.do(fetch(http.MethodPost, "/api/views", body, header...))
	}

	w := send(`{"articleId":"one"}`)
	if a := beaconReply(t, w); w.Code != http.StatusAccepted || a != (beaconAnswer{OK: true, Accepted: 1}) {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	one := log.next(t)
	if one.List != "beacons" || one.Item != "one" || one.PublishedFrom != hit.FromFirstHit {
		t.Errorf("hit %+v", one)
	}

	t.Run("is the same visitor as on a page", func(t *testing.T) {
		e.do(browse("/beacons/page"))
		if h := log.next(t); h.Visitor != one.Visitor {
			t.Error("a page view and a beacon of one browser are two visitors")
		}
	})
	t.Run("several", func(t *testing.T) {
		w := send(` [ {"articleId":"two","list":"beacons"}, {"articleId":"three","unknown":1} ]`)
		if a := beaconReply(t, w); w.Code != http.StatusAccepted || a.Accepted != 2 {
			t.Fatalf("got %d %s", w.Code, w.Body)
		}
		if a, b := log.next(t), log.next(t); a.Item != "two" || b.Item != "three" {
			t.Errorf("hits %+v and %+v", a, b)
		}
	})
	t.Run("fingerprint", func(t *testing.T) {
		visitorOf := func(fingerprint, ip string) uint64 {
			r := fetch(http.MethodPost, "/api/views", `{"articleId":"x","fingerprint":"`+fingerprint+`"}`)
			r.RemoteAddr = ip + ":1"
			e.do(r)
			return log.next(t).Visitor
		}
		a := visitorOf("abc", "192.0.2.1")
		if a == one.Visitor {
			t.Error("the fingerprint makes no difference")
		}
		if visitorOf("abc", "192.0.2.1") != a {
			t.Error("the same fingerprint is another visitor")
		}
		if visitorOf("abc", "198.51.100.1") == a {
			t.Error("a fingerprint is trusted without the address")
		}
	})
	t.Run("publish time", func(t *testing.T) {
		send(`{"articleId":"x","publishedAt":"2026-11-20T10:30:00+01:00"}`)
		if h := log.next(t); h.PublishedFrom != hit.FromClient || h.Published != min(1795167000000, h.Time) {
			t.Errorf("hit %+v, want published 2026-11-20T09:30:00Z by the client", h)
		}
		send(`{"articleId":"x","publishedAt":"2999-01-01T00:00:00Z"}`)
		if h := log.next(t); h.Published != h.Time {
			t.Errorf("an item published in the future: %+v", h)
		}
	})
	for name, tt := range map[string]struct {
		header []string
		reason ruleset.Reason
	}{
		"a bot":          {[]string{"User-Agent", "Googlebot/2.1 (+http://www.google.com/bot.html)"}, ruleset.Bot},
		"no User-Agent":  {[]string{"User-Agent", ""}, ruleset.Bot},
		"a prerendering": {[]string{"Sec-Purpose", "prefetch;prerender"}, ruleset.Speculative},
	} {
		t.Run(name, func(t *testing.T) {
			before := counted("beacons", tt.reason)
			w := send(`{"articleId":"one"}`, tt.header...)
			if a := beaconReply(t, w); w.Code != http.StatusAccepted || a != (beaconAnswer{OK: true, Reason: tt.reason}) {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
			if got := counted("beacons", tt.reason) - before; got != 1 {
				t.Errorf("the metric for %s rose by %d, want 1", tt.reason, got)
			}
		})
	}
	if n := len(log.hits); n != 0 {
		t.Errorf("%d more hits than accepted views", n)
	}
}

func TestBeaconRefusals(t *testing.T) {
	log := startLog(t, 1)
	e := startEdge(t, log, `{
	hotboard {
		dir DIR
		NATS
		list news {
			page /news/{id}
		}
		list blog {
			page /blog/{id}
		}
	}
}
http:// {
	hotboard
	test_origin
}`)
	body := func(format string, args ...any) string { return fmt.Sprintf(format, args...) }
	for _, tt := range []struct {
		name   string
		method string // default POST
		path   string // default /api/views
		body   string
		header []string
		status int
		code   string
	}{
		{name: "no body", status: 400, code: "bad_json"},
		{name: "not JSON", body: "articleId=1", status: 400, code: "bad_json"},
		{name: "not UTF-8", body: "{\"articleId\":\"\xff\",\"list\":\"news\"}", status: 400, code: "bad_json"},
		{name: "cut short", body: `{"articleId":"x"`, status: 400, code: "bad_json"},
		{name: "two values", body: `{"articleId":"x","list":"news"} {}`, status: 400, code: "bad_json"},
		{name: "a number", body: `{"articleId":7,"list":"news"}`, status: 400, code: "bad_json"},
		{name: "an empty array", body: `[]`, status: 400, code: "empty"},
		{name: "null", body: `null`, status: 400, code: "list_required"},
		{name: "no list", body: `{"articleId":"x"}`, status: 400, code: "list_required"},
		{name: "an unknown list", body: `{"articleId":"x","list":"nws"}`, status: 400, code: "unknown_list"},
		{name: "no item", body: `{"list":"news"}`, status: 400, code: "bad_item"},
		{name: "a long item", body: body(`{"list":"news","articleId":"%s"}`, strings.Repeat("x", 257)), status: 400, code: "bad_item"},
		{name: "a control character", body: `{"list":"news","articleId":"a\u0000"}`, status: 400, code: "bad_item"},
		{name: "one bad of two", body: `[{"list":"news","articleId":"x"},{"list":"news"}]`, status: 400, code: "bad_item"},
		{name: "a bad time", body: `{"list":"news","articleId":"x","publishedAt":"yesterday"}`, status: 400, code: "bad_published"},
		{name: "a time before time", body: `{"list":"news","articleId":"x","publishedAt":"1969-01-01T00:00:00Z"}`, status: 400, code: "bad_published"},
		{name: "a long fingerprint", body: body(`{"list":"news","articleId":"x","fingerprint":"%s"}`, strings.Repeat("x", 513)), status: 400, code: "bad_fingerprint"},
		{name: "a large body", body: body(`{"list":"news","articleId":"x","more":"%s"}`, strings.Repeat("x", 64<<10)), status: 413, code: "body_too_large"},
		{name: "from another site", header: []string{"Sec-Fetch-Site", "cross-site"}, body: `{"list":"news","articleId":"x"}`, status: 403, code: "cross_site"},
		{name: "from another site, old browser", header: []string{"Sec-Fetch-Site", "", "Origin", "https://evil.example"}, body: `{"list":"news","articleId":"x"}`, status: 403, code: "cross_site"},
		{name: "from nowhere", header: []string{"Sec-Fetch-Site", "", "Origin", "null"}, body: `{"list":"news","articleId":"x"}`, status: 403, code: "cross_site"},
		{name: "GET", method: "GET", status: 405, code: "method_not_allowed"},
		{name: "OPTIONS", method: "OPTIONS", status: 405, code: "method_not_allowed"},
		{name: "PUT from another site", method: "PUT", path: "/news/x/view", header: []string{"Sec-Fetch-Site", "cross-site"}, status: 403, code: "cross_site"},
		{name: "PUT of a bad item", method: "PUT", path: "/news/a%00/view", status: 400, code: "bad_item"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.method == "" {
				tt.method = http.MethodPost
			}
			if tt.path == "" {
				tt.path = "/api/views"
			}
			w := e.do(fetch(tt.method, tt.path, tt.body, tt.header...))
			if w.Code != tt.status || errorCode(t, w) != tt.code {
				t.Errorf("got %d %s, want %d %s", w.Code, w.Body, tt.status, tt.code)
			}
			if tt.status == 405 && w.Header().Get("Allow") != "POST" {
				t.Errorf("Allow: %q", w.Header().Get("Allow"))
			}
		})
	}
	// Refused views were not stored: the next hit is that of the next view.
	e.do(fetch(http.MethodPost, "/api/views", `{"list":"blog","articleId":"last"}`))
	if h := log.next(t); h.Item != "last" {
		t.Errorf("hit %+v of a refused request", h)
	}
}

func TestPut(t *testing.T) {
	log := startLog(t, 1)
	e := startEdge(t, log, site("puts"))
	w := e.do(fetch(http.MethodPut, "/puts/one/view", ""))
	if a := beaconReply(t, w); w.Code != http.StatusOK || a != (beaconAnswer{OK: true, Accepted: 1}) {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if h := log.next(t); h.Item != "one" || h.List != "puts" {
		t.Errorf("hit %+v", h)
	}
	w = e.do(fetch(http.MethodPut, "/puts/one/view", "", "User-Agent", "Googlebot/2.1"))
	if a := beaconReply(t, w); w.Code != http.StatusOK || a != (beaconAnswer{OK: true, Reason: ruleset.Bot}) {
		t.Errorf("got %d %s for a bot", w.Code, w.Body)
	}
	for _, r := range []*http.Request{
		fetch(http.MethodPut, "/elsewhere/one/view", ""),
		fetch(http.MethodPut, "/puts/one", ""),
		fetch(http.MethodPost, "/puts/one/view", ""),
		browse("/puts/one/view"),
	} {
		if w := e.do(r); w.Body.String() != "page" {
			t.Errorf("%s %s does not reach the site: %d %s", r.Method, r.URL.Path, w.Code, w.Body)
		}
	}
}

func TestAllowedOrigins(t *testing.T) {
	log := startLog(t, 1)
	e := startEdge(t, log, site("origins", "allow_origins https://WWW.example.net"))
	const friend = "https://www.example.net"

	w := e.do(fetch(http.MethodPost, "/api/views", `{"articleId":"x"}`, "Sec-Fetch-Site", "cross-site", "Origin", friend))
	if w.Code != http.StatusAccepted || w.Header().Get("Access-Control-Allow-Origin") != friend || w.Header().Get("Vary") != "Origin" {
		t.Errorf("a friend's beacon: %d %v", w.Code, w.Header())
	}
	w = e.do(fetch(http.MethodOptions, "/api/views", "", "Sec-Fetch-Site", "cross-site", "Origin", friend, "Access-Control-Request-Method", "POST"))
	if w.Code != http.StatusNoContent || w.Header().Get("Access-Control-Allow-Methods") != "POST" || w.Header().Get("Access-Control-Allow-Origin") != friend {
		t.Errorf("a friend's preflight: %d %v", w.Code, w.Header())
	}
	w = e.do(fetch(http.MethodOptions, "/origins/x/view", "", "Origin", friend, "Access-Control-Request-Method", "PUT"))
	if w.Code != http.StatusNoContent || w.Header().Get("Access-Control-Allow-Methods") != "PUT" {
		t.Errorf("a friend's preflight of PUT: %d %v", w.Code, w.Header())
	}
	w = e.do(fetch(http.MethodPost, "/api/views", `{"articleId":"x"}`, "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"))
	if w.Code != http.StatusForbidden || w.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a stranger's beacon: %d %v", w.Code, w.Header())
	}
	any := startEdge(t, log, site("origins", "allow_origins *"))
	w = any.do(fetch(http.MethodPost, "/api/views", `{"articleId":"x"}`, "Sec-Fetch-Site", "cross-site", "Origin", "https://whoever.example"))
	if w.Code != http.StatusAccepted {
		t.Errorf("anybody's beacon with *: %d %s", w.Code, w.Body)
	}
}

func TestPrefix(t *testing.T) {
	log := startLog(t, 1)
	e := startEdge(t, log, site("prefixed", "prefix /stats"))
	if w := e.do(fetch(http.MethodPost, "/stats/api/views", `{"articleId":"x"}`)); w.Code != http.StatusAccepted {
		t.Errorf("POST /stats/api/views: %d %s", w.Code, w.Body)
	}
	for _, path := range []string{"/api/views", "/hot", "/api/hot", "/statsapi/views"} {
		if w := e.do(browse(path)); w.Body.String() != "page" {
			t.Errorf("%s does not reach the site: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestFullSpool(t *testing.T) {
	log := startLog(t, 1)
	e := startEdge(t, log, site("full"))
	before := counted("full", ruleset.DroppedQueueFull)
	rt := e.app.rt.Load()
	small, err := outbox.Open(outbox.Options{Dir: t.TempDir(), Shards: 1, MaxBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	e.app.rt.Store(&runtime{shards: 1, secrets: rt.secrets, outbox: small, limits: rt.limits, pending: rt.pending, samples: rt.samples, visitors: rt.visitors})
	defer e.app.rt.Store(rt)
	rules := small.Document(e.rules().Document())
	if err := small.Append(t.Context(), hit.Hit{Kind: hit.View, List: "full", Item: "x", Time: 1, Rules: rules}); err != nil {
		if !errors.Is(err, outbox.ErrFull) {
			t.Fatal(err)
		}
	}
	w := e.do(fetch(http.MethodPost, "/api/views", `{"articleId":"x"}`))
	if w.Code != http.StatusServiceUnavailable || errorCode(t, w) != "unavailable" || w.Header().Get("Retry-After") == "" {
		t.Errorf("a beacon: %d %s %v", w.Code, w.Body, w.Header())
	}
	if w := e.do(browse("/full/page")); w.Code != http.StatusOK || w.Body.String() != "page" {
		t.Errorf("a page: %d %s", w.Code, w.Body)
	}
	if got := counted("full", ruleset.DroppedQueueFull) - before; got != 1 {
		t.Errorf("%d drops, want that of the beacon: a view waits in memory", got)
	}

	ended, end := context.WithCancel(t.Context())
	end()
	small.Close(ended) // as a Caddy that stops does, with requests still under way
	if w := e.do(browse("/full/page")); w.Code != http.StatusOK || w.Body.String() != "page" {
		t.Errorf("a page: %d %s", w.Code, w.Body)
	}
	w = e.do(fetch(http.MethodPut, "/full/page/view", ""))
	if a := beaconReply(t, w); w.Code != http.StatusOK || a != (beaconAnswer{OK: true, Reason: ruleset.DroppedQueueFull}) {
		t.Errorf("a PUT: %d %s", w.Code, w.Body)
	}
	if got := counted("full", ruleset.DroppedQueueFull) - before; got != 3 {
		t.Errorf("%d of 3 drops were counted", got)
	}
}

func TestClock(t *testing.T) {
	log := startLog(t, 1)
	e := startEdge(t, log, site("clock"))
	day := time.Date(2015, 5, 17, 23, 59, 59, 0, time.UTC)
	defer clock.Set(func() time.Time { return day })()
	e.do(browse("/clock/page"))
	first := log.next(t)
	if first.Time != day.UnixMilli() {
		t.Errorf("time %d, want that of the clock, %d", first.Time, day.UnixMilli())
	}
	defer clock.Set(func() time.Time { return day.Add(time.Second) })()
	e.do(browse("/clock/page"))
	if second := log.next(t); second.Visitor == first.Visitor {
		t.Error("a visitor has the same pseudonym on the next day")
	}
}

func FuzzBeacon(f *testing.F) {
	for _, body := range []string{
		`{"articleId":"x"}`, `[{"articleId":"x","list":"fuzzed","publishedAt":"2026-11-20T09:30:00Z","fingerprint":"y"}]`,
		`{"page":"/fuzzed/x?y=z","navigation":"load"}`, `{"page":"//","list":"fuzzed"}`, `[]`, `null`, `[null]`, `{"articleId":7}`, "[[[[[[", `{"articleId":"\ud800"}`,
	} {
		f.Add([]byte(body))
	}
	log := startLog(f, 1)
	e := startEdge(f, log, site("fuzzed"))
	h := provisionedHandler(f, e).current()
	f.Fuzz(func(t *testing.T, body []byte) {
		w := httptest.NewRecorder()
		r := caddyhttp.PrepareRequest(fetch(http.MethodPost, "/api/views", string(body)), caddy.NewReplacer(), w, e.Server)
		beacons, _, p := readObjects[beacon](w, r, "{}")
		var reports []report
		if p == nil {
			c := h.clientOf(r)
			reports, p = h.readBeacons(r, &c, beacons)
		}
		if p != nil {
			if p.status < 400 || p.status > 499 || p.code == "" || p.message == "" {
				t.Errorf("%q was refused with %+v", body, p)
			}
			return
		}
		rt := e.app.rt.Load()
		for i := range reports {
			views := h.viewsOf(r, rt, &reports[i])
			if len(views) == 0 {
				t.Errorf("%q has a report that stands for nothing", body)
			}
			for _, v := range views {
				if v.reason != "" {
					continue
				}
				x := h.viewBy(&reports[i].client, rt, v.list, v.item)
				x.Published, x.PublishedFrom = v.published, v.from
				if err := x.Valid(); err != nil {
					t.Errorf("%q became a hit that cannot be counted: %v", body, err)
				}
			}
		}
	})
}

// TestRefusalsAreNotLogged: what the outbox reports as one fault is not a line for each
// request too.
func TestRefusalsAreNotLogged(t *testing.T) {
	t.Parallel()
	core, lines := observer.New(zap.DebugLevel)
	h := &Handler{logger: zap.New(core)}
	for err, want := range map[error]int{
		fmt.Errorf("%w: %w", outbox.ErrUnavailable, syscall.ENOSPC): 0,
		fmt.Errorf("%w: it has 5 of 5 bytes", outbox.ErrFull):       0,
		errors.New("something else"):                                1,
	} {
		h.logRefused("a beacon was not accepted", err)
		if n := len(lines.TakeAll()); n != want {
			t.Errorf("%v: %d lines, want %d", err, n, want)
		}
	}
}
