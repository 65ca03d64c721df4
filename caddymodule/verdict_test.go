package caddymodule

import (
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/hotboard/hotboard/caddymodule/samples"
	"github.com/hotboard/hotboard/ruleset"
)

const (
	chrome    = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36"
	safari    = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Safari/605.1.15"
	webview   = "Mozilla/5.0 (Linux; Android 15; Pixel 8 Build/AP4A.250205.002; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/141.0.0.0 Mobile Safari/537.36"
	googlebot = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
	gptbot    = "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; GPTBot/1.2; +https://openai.com/gptbot"
)

// verdictSite counts news, and at most one view a day from an address of what is
// scarce. It stands behind a CDN at 10.0.0.0/8.
const verdictSite = `{
	servers {
		trusted_proxies static 10.0.0.0/8
	}
	hotboard {
		dir DIR
		NATS
		list news {
			page /news/{id}
			page /archive/{year}/{slug}
		}
		list scarce {
			page /scarce/{id}
		}
		list shop {
			page /shop/{any}
			id {query.id}
		}
		list watched {
			page /watched/{id}
		}
		limit once {
			by ip
			max 1 per day
			when list scarce
		}
		limit dry {
			by ip
			max 1 per day
			when list watched
			shadow
		}
	}
}
http:// {
	hotboard {
		debug_header
		visitor {cookie.visitor}
		honor_opt_out
	}
	test_origin
}`

// TestVerdicts checks verdicts on requests against a person's judgment.
func TestVerdicts(t *testing.T) {
	stopClock(t)
	log := startLog(t, 1)
	e := startEdge(t, log, verdictSite)
	dry := counterValue(shadowedTotal.WithLabelValues("watched", "dry"))
	const counted, limited = ruleset.Counted, ruleset.Reason("limited:once")
	noFetchMetadata := []string{"Sec-Fetch-Dest", ""}
	with := func(header []string, more ...string) []string {
		return append(append([]string(nil), header...), more...)
	}
	for _, tt := range []struct {
		name   string
		method string // default GET
		path   string
		from   string   // address; default 192.0.2.1
		header []string // changes to a browser's
		want   ruleset.Reason
	}{
		// people
		{name: "a page", path: "/news/page", want: counted},
		{name: "a page in another browser", path: "/news/page", header: []string{"User-Agent", chrome}, want: counted},
		{name: "a page with a query", path: "/news/page?utm_source=mail&id=7", want: counted},
		{name: "a page with a slash at its end", path: "/news/page/", want: counted},
		{name: "a path of two parts", path: "/archive/2026/launch", want: counted},
		{name: "an escaped path", path: "/news/gr%C3%BC%C3%9Fe", want: counted},
		{name: "an item from the query", path: "/shop/item?id=7", want: counted},
		{name: "a revisit", path: "/news/304", header: []string{"If-None-Match", `"1"`}, want: counted},
		{name: "a reload", path: "/news/page", header: []string{"Cache-Control", "max-age=0"}, want: counted},
		{name: "a signed-in visitor", path: "/news/page", header: []string{"Cookie", "session=1; visitor=anna"}, want: counted},
		{name: "a click on a link of another site", path: "/news/page", header: []string{"Referer", "https://news.example/", "Sec-Fetch-Site", "cross-site"}, want: counted},
		{name: "XHTML", path: "/news/xhtml", want: counted},
		{name: "after early hints", path: "/news/early", want: counted},
		{name: "an old browser, or no HTTPS", path: "/news/page", header: noFetchMetadata, want: counted},
		{name: "a page in an app", path: "/news/page", header: with(noFetchMetadata, "User-Agent", webview, "X-Requested-With", "com.example.reader"), want: counted},
		{name: "a browser that upgrades to HTTPS", path: "/news/page", header: []string{"Upgrade-Insecure-Requests", "1"}, want: counted},
		{name: "Purpose that is no prefetch", path: "/news/page", header: []string{"Purpose", "navigation"}, want: counted},
		{name: "DNT: 0", path: "/news/page", header: []string{"DNT", "0"}, want: counted},

		// other methods
		{name: "HEAD", path: "/news/page", method: http.MethodHead, want: ruleset.Method},
		{name: "a form", path: "/news/page", method: http.MethodPost, want: ruleset.Method},
		{name: "DELETE", path: "/news/page", method: http.MethodDelete, want: ruleset.Method},
		{name: "HEAD of a bot", path: "/news/page", method: http.MethodHead, header: []string{"User-Agent", googlebot}, want: ruleset.Method},

		// parts
		{name: "the first bytes", path: "/news/page", header: []string{"Range", "bytes=0-99"}, want: ruleset.Range},
		{name: "a resumed download", path: "/news/206", header: []string{"Range", "bytes=100-", "If-Range", `"1"`}, want: ruleset.Range},
		{name: "a part nobody asked for", path: "/news/part", want: ruleset.Range},
		{name: "pushed", path: "/news/page", header: []string{"Caddy-Push", "1"}, want: ruleset.Push},

		// the response
		{name: "moved for good", path: "/news/301", want: ruleset.Status},
		{name: "moved", path: "/news/302", want: ruleset.Status},
		{name: "forbidden", path: "/news/403", want: ruleset.Status},
		{name: "not found", path: "/news/404", want: ruleset.Status},
		{name: "gone", path: "/news/410", want: ruleset.Status},
		{name: "no content", path: "/news/204", want: ruleset.Status},
		{name: "the site's error page", path: "/news/500", want: ruleset.Status},
		{name: "maintenance", path: "/news/503", want: ruleset.Status},
		{name: "an origin that is away", path: "/news/error", want: ruleset.Error},
		{name: "an image", path: "/news/image", want: ruleset.ContentType},
		{name: "data", path: "/news/json", want: ruleset.ContentType},
		{name: "no type", path: "/news/untyped", want: ruleset.ContentType},

		// no documents
		{name: "an image of the page", path: "/news/page", header: []string{"Sec-Fetch-Dest", "image"}, want: ruleset.NotDocument},
		{name: "a frame", path: "/news/page", header: []string{"Sec-Fetch-Dest", "iframe"}, want: ruleset.NotDocument},
		{name: "a script's fetch", path: "/news/page", header: []string{"Sec-Fetch-Dest", "empty", "Accept", "*/*"}, want: ruleset.NotDocument},
		{name: "a script's fetch of HTML (Turbo Drive)", path: "/news/page", header: []string{"Sec-Fetch-Dest", "empty", "Accept", "text/html, application/xhtml+xml"}, want: ruleset.NotDocument},
		{name: "a fetch without metadata", path: "/news/page", header: with(noFetchMetadata, "Accept", "*/*"), want: ruleset.NotDocument},
		{name: "a fetch of JSON", path: "/news/page", header: with(noFetchMetadata, "Accept", "application/json"), want: ruleset.NotDocument},
		{name: "XMLHttpRequest", path: "/news/page", header: with(noFetchMetadata, "X-Requested-With", "XMLHttpRequest"), want: ruleset.NotDocument},
		{name: "React's server components", path: "/news/component", header: with(noFetchMetadata, "RSC", "1"), want: ruleset.NotDocument},
		{name: "a Turbo frame", path: "/news/page", header: with(noFetchMetadata, "Turbo-Frame", "comments"), want: ruleset.NotDocument},
		{name: "htmx", path: "/news/page", header: with(noFetchMetadata, "HX-Request", "true"), want: ruleset.NotDocument},

		// nobody has asked to see it yet
		{name: "prefetched", path: "/news/page", header: []string{"Sec-Purpose", "prefetch"}, want: ruleset.Speculative},
		{name: "prefetched by a link element", path: "/news/page", header: []string{"Sec-Purpose", "prefetch", "Sec-Fetch-Dest", "empty"}, want: ruleset.Speculative},
		{name: "prefetched through a proxy", path: "/news/page", header: []string{"Sec-Purpose", "prefetch;anonymous-client-ip"}, want: ruleset.Speculative},
		{name: "prerendered", path: "/news/page", header: []string{"Sec-Purpose", "prefetch;prerender"}, want: ruleset.Speculative},
		{name: "prefetched by an old Chrome", path: "/news/page", header: []string{"Purpose", "prefetch"}, want: ruleset.Speculative},
		{name: "previewed by an old Safari", path: "/news/page", header: []string{"User-Agent", safari, "X-Purpose", "preview"}, want: ruleset.Speculative},
		{name: "prefetched by an old Firefox", path: "/news/page", header: []string{"X-Moz", "prefetch"}, want: ruleset.Speculative},
		{name: "prefetched by Turbo", path: "/news/page", header: []string{"X-Sec-Purpose", "prefetch", "Sec-Fetch-Dest", "empty"}, want: ruleset.Speculative},
		{name: "prefetched by Next.js", path: "/news/component", header: []string{"Next-Router-Prefetch", "1", "RSC", "1", "Sec-Fetch-Dest", "empty"}, want: ruleset.Speculative},
		{name: "prefetched by Next.js's older router", path: "/news/json", header: []string{"X-Middleware-Prefetch", "1", "Sec-Fetch-Dest", "empty"}, want: ruleset.Speculative},
		{name: "prefetched, and not there", path: "/news/404", header: []string{"Sec-Purpose", "prefetch"}, want: ruleset.Speculative},

		// programs
		{name: "a search engine", path: "/news/page", header: []string{"User-Agent", googlebot}, want: ruleset.Bot},
		{name: "a search engine as it asks", path: "/news/page", header: with(noFetchMetadata, "User-Agent", googlebot, "Accept", "*/*"), want: ruleset.Bot},
		{name: "an AI crawler", path: "/news/page", header: with(noFetchMetadata, "User-Agent", gptbot, "Accept", "*/*"), want: ruleset.Bot},
		{name: "curl", path: "/news/page", header: with(noFetchMetadata, "User-Agent", "curl/8.14.1", "Accept", "*/*"), want: ruleset.Bot},
		{name: "a library", path: "/news/page", header: with(noFetchMetadata, "User-Agent", "python-requests/2.32.5", "Accept", "*/*"), want: ruleset.Bot},
		{name: "a headless browser", path: "/news/page", header: []string{"User-Agent", strings.Replace(chrome, "Chrome/", "HeadlessChrome/", 1)}, want: ruleset.Bot},
		{name: "a link preview", path: "/news/page", header: with(noFetchMetadata, "User-Agent", "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)"), want: ruleset.Bot},
		{name: "no User-Agent", path: "/news/page", header: []string{"User-Agent", ""}, want: ruleset.Bot},
		{name: "a bot that prefetches", path: "/news/page", header: []string{"User-Agent", googlebot, "Sec-Purpose", "prefetch"}, want: ruleset.Bot},
		{name: "a bot of what is not there", path: "/news/404", header: []string{"User-Agent", googlebot}, want: ruleset.Bot},

		// who asks not to be counted
		{name: "Global Privacy Control", path: "/news/page", header: []string{"Sec-GPC", "1"}, want: ruleset.OptOut},
		{name: "Do Not Track", path: "/news/page", header: []string{"DNT", "1"}, want: ruleset.OptOut},
		{name: "prefetched for who opted out", path: "/news/page", header: []string{"Sec-GPC", "1", "Sec-Purpose", "prefetch"}, want: ruleset.OptOut},

		// items
		{name: "no item in the query", path: "/shop/item", want: ruleset.BadItem},
		{name: "an empty item in the query", path: "/shop/item?id=", want: ruleset.BadItem},
		{name: "a control character", path: "/news/a%01b", want: ruleset.BadItem},
		{name: "a path that is not UTF-8", path: "/news/a%ffb", want: ruleset.BadItem},
		{name: "a long path", path: "/news/" + strings.Repeat("x", 257), want: ruleset.BadItem},

		// limits, and whose view it is
		{name: "the first view", path: "/scarce/page", want: counted},
		{name: "the second", path: "/scarce/other", want: limited},
		{name: "the second, with a cookie", path: "/scarce/page", header: []string{"Cookie", "visitor=bert"}, want: limited},
		{name: "another address", path: "/scarce/page", from: "192.0.2.2", want: counted},
		{name: "a header that anybody can send", path: "/scarce/page", from: "192.0.2.2", header: []string{"X-Forwarded-For", "198.51.100.1"}, want: limited},
		{name: "through a CDN", path: "/scarce/page", from: "10.0.0.1", header: []string{"X-Forwarded-For", "198.51.100.7"}, want: counted},
		{name: "the same client through another server of it", path: "/scarce/page", from: "10.9.9.9", header: []string{"X-Forwarded-For", "198.51.100.7"}, want: limited},
		{name: "another client through the CDN", path: "/scarce/page", from: "10.0.0.1", header: []string{"X-Forwarded-For", "198.51.100.8"}, want: counted},
		{name: "IPv6", path: "/scarce/page", from: "[2001:db8:0:1::1]", want: counted},
		{name: "another device of the household", path: "/scarce/page", from: "[2001:db8:0:1:ffff::2]", want: limited},
		{name: "another household", path: "/scarce/page", from: "[2001:db8:0:2::1]", want: counted},
		{name: "IPv4 in the form of IPv6", path: "/scarce/page", from: "[::ffff:192.0.2.2]", want: limited},
		{name: "what is not counted uses up nothing", path: "/scarce/404", from: "192.0.2.3", want: ruleset.Status},
		{name: "nor does a bot", path: "/scarce/page", from: "192.0.2.3", header: []string{"User-Agent", googlebot}, want: ruleset.Bot},
		{name: "nor a prefetch", path: "/scarce/page", from: "192.0.2.3", header: []string{"Sec-Purpose", "prefetch"}, want: ruleset.Speculative},
		{name: "nor an error after the header", path: "/scarce/late-error", from: "192.0.2.3", want: ruleset.Error},
		{name: "so there is room", path: "/scarce/page", from: "192.0.2.3", want: counted},
		{name: "a limit in shadow", path: "/watched/page", want: counted},
		{name: "a limit in shadow that would refuse", path: "/watched/page", want: counted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list, _, _ := strings.Cut(tt.path[1:], "/")
			list = strings.Replace(list, "archive", "news", 1)
			before := requestsOf(t, list)
			r := browse(tt.path, tt.header...)
			if tt.method != "" {
				r.Method = tt.method
			}
			if tt.from != "" {
				r.RemoteAddr = tt.from + ":1234"
			}
			w := e.do(r)
			for reason, n := range requestsOf(t, list) {
				want := before[reason]
				if reason == tt.want {
					want++
				}
				if n != want {
					t.Errorf("%s: %d requests more", reason, n-want)
				}
			}
			if got, _, _ := strings.Cut(w.Header().Get(verdictHeader), ";"); got != string(tt.want) && !strings.HasSuffix(tt.path, "late-error") {
				t.Errorf("%s: %s, want %s", verdictHeader, got, tt.want)
			}
			if tt.want == counted {
				log.next(t)
			}
		})
	}
	if n := len(log.hits); n != 0 {
		t.Errorf("%d more hits than counted views", n)
	}
	if n := counterValue(shadowedTotal.WithLabelValues("watched", "dry")) - dry; n != 1 {
		t.Errorf("the limit in shadow would have refused %d, want 1", n)
	}
}

// requestsOf returns how many requests of a list had each reason so far.
func requestsOf(t testing.TB, list string) map[ruleset.Reason]int {
	t.Helper()
	all := make(chan prometheus.Metric, 10_000)
	requestsTotal.Collect(all)
	close(all)
	n := make(map[ruleset.Reason]int)
	for m := range all {
		var d dto.Metric
		if err := m.Write(&d); err != nil {
			t.Fatal(err)
		}
		label := make(map[string]string)
		for _, l := range d.Label {
			label[l.GetName()] = l.GetValue()
		}
		if label["list"] == list {
			n[ruleset.Reason(label["reason"])] = int(d.Counter.GetValue())
		}
	}
	return n
}

func TestSample(t *testing.T) {
	log := startLog(t, 1)
	const list = "sampled"
	e := startEdge(t, log, site(list, "channel {query.c}"))
	latest := func(reason ruleset.Reason) samples.Sample {
		t.Helper()
		got := e.app.rt.Load().samples.Latest(list, reason, 1)
		if reason == ruleset.NoItem {
			got = e.app.rt.Load().samples.Latest("", reason, 1)
		}
		if len(got) != 1 {
			t.Fatalf("no sample of %s", reason)
		}
		return got[0]
	}
	e.do(browse("/" + list + "/a%20b?c=mail&token=secret"))
	s := latest(ruleset.Counted)
	if s.Item != "a b" || s.Path != "/"+list+"/a%20b" || s.Method != "GET" || s.Channel != "mail" || s.Device != "desktop" || s.Visitor == "" || s.Bot != nil || s.Time.IsZero() {
		t.Errorf("sample %+v", s)
	}
	e.do(browse("/"+list+"/x", "User-Agent", googlebot))
	if b := latest(ruleset.Bot); b.Bot == nil || b.Bot.Class != "search_engine" || b.Bot.Reason == "" || b.Visitor == s.Visitor {
		t.Errorf("sample %+v of a bot", b)
	}
	e.do(fetch(http.MethodPost, "/api/views", `{"page":"/about/us?token=secret"}`))
	if n := latest(ruleset.NoItem); n.Path != "/api/views" || n.Page != "/about/us" || n.List != "" || n.Visitor != s.Visitor {
		t.Errorf("sample %+v of a page without an item", n)
	}
	e.do(browse("/" + list + "/" + strings.Repeat("x", 300)))
	if b := latest(ruleset.BadItem); len(b.Path) != 256 {
		t.Errorf("a path of %d bytes", len(b.Path))
	}
}
