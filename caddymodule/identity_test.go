package caddymodule

import (
	"net/http"
	"testing"

	"github.com/hotboard/hotboard/ruleset"
)

func TestNamedVisitor(t *testing.T) {
	log := startLog(t, 1)
	e := startEdge(t, log, site("named", "visitor {http.request.cookie.id}"))
	visitorOf := func(ip, cookie string) uint64 {
		t.Helper()
		r := browse("/named/page")
		r.RemoteAddr = ip + ":1"
		if cookie != "" {
			r.Header.Set("Cookie", "id="+cookie)
		}
		e.do(r)
		return log.next(t).Visitor
	}
	anna := visitorOf("192.0.2.1", "anna")
	if visitorOf("192.0.2.2", "anna") != anna {
		t.Error("a visitor whom the site names is another one at another address")
	}
	if visitorOf("192.0.2.1", "bert") == anna {
		t.Error("two visitors whom the site names are one")
	}
	unnamed := visitorOf("192.0.2.1", "")
	if unnamed == anna || visitorOf("192.0.2.2", "") == unnamed {
		t.Error("visitors whom the site does not name are not told apart by their addresses")
	}
	r := fetch(http.MethodPost, "/api/views", `{"articleId":"x","fingerprint":"abc"}`, "Cookie", "id=anna")
	e.do(r)
	if log.next(t).Visitor != anna {
		t.Error("a fingerprint makes a visitor whom the site names another one")
	}
}

func TestOptOut(t *testing.T) {
	log := startLog(t, 1)
	e := startEdge(t, log, site("optout", "honor_opt_out"))
	before := counted("optout", ruleset.OptOut)
	for _, header := range []string{"Sec-GPC", "DNT"} {
		if w := e.do(browse("/optout/page", header, "1")); w.Body.String() != "page" {
			t.Errorf("%s: the page is %d %s", header, w.Code, w.Body)
		}
		w := e.do(fetch(http.MethodPost, "/api/views", `{"articleId":"x"}`, header, "1"))
		if a := beaconReply(t, w); a != (beaconAnswer{OK: true, Reason: ruleset.OptOut}) {
			t.Errorf("%s: the beacon's answer is %+v", header, a)
		}
	}
	if got := counted("optout", ruleset.OptOut) - before; got != 4 {
		t.Errorf("%d of 4 requests count as opted out", got)
	}
	e.do(browse("/optout/seen", "DNT", "0"))
	if h := log.next(t); h.Item != "seen" {
		t.Errorf("hit %+v of a visitor who opted out", h)
	}
	heedless := startEdge(t, log, site("optout"))
	heedless.do(browse("/optout/counted", "DNT", "1"))
	if h := log.next(t); h.Item != "counted" {
		t.Errorf("hit %+v, want that of a site that does not heed DNT", h)
	}
}
