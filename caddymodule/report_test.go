package caddymodule

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// reportSite has lists of all sorts.
const reportSite = `{
	hotboard {
		dir DIR
		NATS
		list reported {
			page /reported/{id}
		}
		list again {
			page /reported/{id}
			page /again/{id}
		}
		list queried {
			page /queried/{any}
			id {query.id}
		}
		list headed {
			page /headed/{any}
			id {http.response.header.X-Article}
		}
		list reportpoll {
			votes *
		}
		list reportbots
		bots {
			count reportbots
		}
	}
}
http:// {
	hotboard
	test_origin
}`

func TestPageBeacons(t *testing.T) {
	log := startLog(t, 1)
	e := startEdge(t, log, reportSite)
	noItem := beaconAnswer{OK: true, Reason: ruleset.NoItem}
	for _, tt := range []struct {
		name string
		body string
		want beaconAnswer
		hits string // list/item
	}{
		{"a page of two lists", `{"page":"/reported/1?x=y","navigation":"spa"}`, beaconAnswer{OK: true, Accepted: 2}, "reported/1 again/1"},
		{"a page of one", `{"page":"/again/1","navigation":"restore"}`, beaconAnswer{OK: true, Accepted: 1}, "again/1"},
		{"one list of two", `{"page":"/reported/1","list":"again"}`, beaconAnswer{OK: true, Accepted: 1}, "again/1"},
		{"a list that it is no page of", `{"page":"/again/1","list":"reported"}`, noItem, ""},
		{"an escaped path", `{"page":"/again/a%20b"}`, beaconAnswer{OK: true, Accepted: 1}, "again/a b"},
		{"an item in the query", `{"page":"/queried/x?id=7"}`, beaconAnswer{OK: true, Accepted: 1}, "queried/7"},
		{"an item that is not in the query", `{"page":"/queried/x?y=7"}`, noItem, ""},
		{"a bad item in the query", `{"page":"/queried/x?id=%00"}`, beaconAnswer{OK: true, Reason: ruleset.BadItem}, ""},
		{"a bad item in the path", `{"page":"/again/%00"}`, beaconAnswer{OK: true, Reason: ruleset.BadItem}, ""},
		{"an item that only the response names", `{"page":"/headed/x"}`, noItem, ""},
		{"the same, named", `{"page":"/headed/x","list":"headed","articleId":"x"}`, beaconAnswer{OK: true, Accepted: 1}, "headed/x"},
		{"another page", `{"page":"/about","navigation":"load"}`, noItem, ""},
		{"a navigation of a later version", `{"page":"/again/2","navigation":"teleport"}`, beaconAnswer{OK: true, Accepted: 1}, "again/2"},
		{"several", `[{"page":"/about"},{"page":"/again/3"},{"list":"reported","articleId":"4"}]`, beaconAnswer{OK: true, Accepted: 2, Reason: ruleset.NoItem}, "again/3 reported/4"},
		{"published", `{"page":"/again/5","publishedAt":"2020-01-01T00:00:00Z"}`, beaconAnswer{OK: true, Accepted: 1}, "again/5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := e.do(fetch(http.MethodPost, "/api/views", tt.body))
			if a := beaconReply(t, w); w.Code != http.StatusAccepted || a != tt.want {
				t.Errorf("got %d %s, want %+v", w.Code, w.Body, tt.want)
			}
			for _, want := range strings.Fields(strings.ReplaceAll(tt.hits, "a b", "a+b")) {
				h := log.next(t)
				if got := h.List + "/" + strings.ReplaceAll(h.Item, " ", "+"); got != want {
					t.Errorf("hit of %s, want %s", got, want)
				}
				if tt.name == "published" && (h.PublishedFrom != hit.FromClient || h.Published != 1577836800000) {
					t.Errorf("hit %+v", h)
				}
			}
			if n := len(log.hits); n != 0 {
				t.Errorf("%d more hits", n)
			}
		})
	}
	for _, tt := range []struct{ name, body, code string }{
		{"a URL", `{"page":"https://example.com/again/1"}`, "bad_page"},
		{"no path", `{"page":"again/1"}`, "bad_page"},
		{"all", `{"page":"*"}`, "bad_page"},
		{"a bad escape", `{"page":"/again/%zz"}`, "bad_page"},
		{"a long page", `{"page":"/` + strings.Repeat("x", maxPageBytes) + `"}`, "bad_page"},
		{"an unknown list", `{"page":"/again/1","list":"none"}`, "unknown_list"},
		{"a poll", `{"page":"/again/1","list":"reportpoll"}`, "not_views"},
		{"an item of a poll", `{"articleId":"x","list":"reportpoll"}`, "not_views"},
		{"the list that bots are counted on", `{"articleId":"x","list":"reportbots"}`, "unknown_list"},
		{"an item of which list", `{"page":"/again/1","articleId":"x"}`, "list_required"},
		{"an item that cannot be one", `{"page":"/again/1","list":"again","articleId":"\u0000"}`, "bad_item"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := e.do(fetch(http.MethodPost, "/api/views", tt.body))
			if w.Code != http.StatusBadRequest || errorCode(t, w) != tt.code {
				t.Errorf("got %d %s, want %s", w.Code, w.Body, tt.code)
			}
		})
	}
	for reason, body := range map[ruleset.Reason]string{ruleset.NoItem: `{"page":"/about"}`, ruleset.UnknownList: `{"articleId":"x","list":"none"}`} {
		before := counted("", reason)
		e.do(fetch(http.MethodPost, "/api/views", body))
		if got := counted("", reason) - before; got != 1 {
			t.Errorf("the metric for %s rose by %d, want 1", reason, got)
		}
	}
}

// TestCountedBots: a bot's view is no view, and is counted where bots are.
func TestCountedBots(t *testing.T) {
	log := startLog(t, 1)
	e := startEdge(t, log, strings.Replace(reportSite, "count reportbots", "count reportbots ai_crawler", 1))
	see := func(path, userAgent string, header ...string) {
		t.Helper()
		e.do(browse(path, append([]string{"User-Agent", userAgent, "Sec-Fetch-Dest", "", "Accept", "*/*"}, header...)...))
	}
	list, bots := counted("again", ruleset.Bot), counted("reportbots", ruleset.Counted)
	see("/again/published", gptbot)
	h := log.next(t)
	if h.List != "reportbots" || h.Item != "published" || h.PublishedFrom != hit.FromOrigin {
		t.Errorf("hit %+v, want one of published in reportbots", h)
	}
	if counted("again", ruleset.Bot) != list+1 || counted("reportbots", ruleset.Counted) != bots+1 {
		t.Error("the metrics do not say that it was a bot, and that it was counted")
	}
	see("/again/page", googlebot)                                                           // is of another class
	see("/again/404", gptbot)                                                               // saw nothing
	see("/again/json", gptbot)                                                              // saw no page
	see("/about", gptbot)                                                                   // is no item
	see("/again/page", gptbot, "Range", "bytes=0-1")                                        // saw a part
	see("/again/page", gptbot, "Sec-Purpose", "prefetch")                                   // is a view of a bot's all the same
	e.do(fetch(http.MethodPost, "/api/views", `{"page":"/again/1"}`, "User-Agent", gptbot)) // has no script
	if h := log.next(t); h.Item != "page" {
		t.Errorf("hit %+v", h)
	}
	e.do(browse("/again/last"))
	if h := log.next(t); h.List != "again" || h.Item != "last" {
		t.Errorf("hit %+v, want the view of a person in again", h)
	}
}
