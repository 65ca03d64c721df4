package ruleset

import (
	"net/http"
	"testing"
	"time"
)

const (
	chromeAccept  = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7"
	firefoxAccept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
)

// header returns a header with the given keys and values.
func header(kv ...string) http.Header {
	h := make(http.Header)
	for i := 0; i < len(kv); i += 2 {
		h.Add(kv[i], kv[i+1])
	}
	return h
}

func TestJudgeHeaders(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		method string // default GET
		header http.Header
		want   Reason
		logged Reason // for a line of a log; default want
	}{
		{"Chrome", "", header("Accept", chromeAccept, "Sec-Fetch-Dest", "document", "Sec-Fetch-Mode", "navigate"), "", ""},
		{"Firefox", "", header("Accept", firefoxAccept, "Sec-Fetch-Dest", "document"), "", ""},
		{"Sec-Fetch-Dest in capitals", "", header("Sec-Fetch-Dest", "Document"), "", ""},
		{"document whatever else it says", "", header("Sec-Fetch-Dest", "document", "X-Requested-With", "XMLHttpRequest"), "", ""},
		{"Safari before 16.4, plain HTTP", "", header("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"), "", ""},
		{"XHTML", "", header("Accept", "application/xhtml+xml"), "", ""},
		{"HTML last, spaces, capitals", "", header("Accept", "image/png, Text/HTML ;level=1"), "", ""},
		{"HTML in a second header", "", header("Accept", "image/png", "Accept", "text/html"), "", ""},
		{"service worker's navigation preload", "", header("Sec-Fetch-Dest", "document", "Service-Worker-Navigation-Preload", "true"), "", ""},
		{"Android WebView", "", header("Accept", firefoxAccept, "X-Requested-With", "com.example.app"), "", ""},
		{"a page opened by a reload", "", header("Sec-Fetch-Dest", "document", "Cache-Control", "max-age=0", "If-None-Match", `"x"`), "", ""},
		{"Purpose that is none of ours", "", header("Sec-Fetch-Dest", "document", "Purpose", "navigation"), "", ""},

		{"HEAD", "HEAD", header("Sec-Fetch-Dest", "document"), Method, ""},
		{"POST", "POST", header("Sec-Fetch-Dest", "document"), Method, ""},
		{"OPTIONS", "OPTIONS", nil, Method, ""},
		{"lower case get", "get", header("Sec-Fetch-Dest", "document"), Method, ""},
		{"method before push", "HEAD", header("Caddy-Push", "1"), Method, ""},

		{"push", "", header("Caddy-Push", "1", "Sec-Fetch-Dest", "document"), Push, ""},
		{"range", "", header("Range", "bytes=0-99", "Sec-Fetch-Dest", "document"), Range, ""},
		{"range of all", "", header("Range", "bytes=0-", "Accept", firefoxAccept), Range, ""},

		{"Chrome speculation rules prefetch", "", header("Sec-Purpose", "prefetch", "Sec-Fetch-Dest", "document"), Speculative, ""},
		{"Chrome prerender", "", header("Sec-Purpose", "prefetch;prerender", "Sec-Fetch-Dest", "document"), Speculative, ""},
		{"Chrome prerender with both headers", "", header("Sec-Purpose", "prefetch;prerender", "Purpose", "prefetch"), Speculative, ""},
		{"Chrome's private prefetch proxy", "", header("Sec-Purpose", "prefetch;anonymous-client-ip"), Speculative, ""},
		{"Chrome preview", "", header("Sec-Purpose", "prefetch;prerender;preview"), Speculative, ""},
		{"Chrome link prefetch", "", header("Purpose", "prefetch", "Sec-Fetch-Dest", "empty"), Speculative, ""},
		{"capitals", "", header("Purpose", "Prefetch"), Speculative, ""},
		{"Safari prerender", "", header("Purpose", "prerender"), Speculative, ""},
		{"Safari top sites", "", header("X-Purpose", "preview", "Accept", firefoxAccept), Speculative, ""},
		{"Firefox before 115", "", header("X-Moz", "prefetch", "Accept", firefoxAccept), Speculative, ""},
		{"Firefox prefetch", "", header("Sec-Purpose", "prefetch", "Sec-Fetch-Dest", "empty", "Accept", firefoxAccept), Speculative, ""},
		{"Turbo hover", "", header("X-Sec-Purpose", "prefetch", "Accept", "text/html, application/xhtml+xml"), Speculative, ""},
		{"Next.js App Router", "", header("Rsc", "1", "Next-Router-Prefetch", "1", "Accept", "*/*"), Speculative, ""},
		{"Next.js segment", "", header("Rsc", "1", "Next-Router-Segment-Prefetch", "/_tree"), Speculative, ""},
		{"Next.js Pages Router", "", header("X-Middleware-Prefetch", "1", "Purpose", "prefetch"), Speculative, ""},
		{"second of two values", "", header("Purpose", "x", "Purpose", "prefetch"), Speculative, ""},

		{"iframe", "", header("Sec-Fetch-Dest", "iframe", "Accept", chromeAccept), NotDocument, ""},
		{"frame", "", header("Sec-Fetch-Dest", "frame", "Accept", chromeAccept), NotDocument, ""},
		{"embed", "", header("Sec-Fetch-Dest", "embed", "Accept", chromeAccept), NotDocument, ""},
		{"object", "", header("Sec-Fetch-Dest", "object", "Accept", chromeAccept), NotDocument, ""},
		{"image", "", header("Sec-Fetch-Dest", "image", "Accept", "image/avif,image/webp,*/*;q=0.8"), NotDocument, ""},
		{"fetch()", "", header("Sec-Fetch-Dest", "empty", "Accept", "*/*"), NotDocument, ""},
		{"Turbo Drive visit", "", header("Sec-Fetch-Dest", "empty", "Accept", "text/html, application/xhtml+xml"), NotDocument, ""},
		{"service worker", "", header("Sec-Fetch-Dest", "serviceworker"), NotDocument, ""},
		{"two values", "", header("Sec-Fetch-Dest", "document", "Sec-Fetch-Dest", "image"), NotDocument, ""},
		{"empty Sec-Fetch-Dest", "", header("Sec-Fetch-Dest", "", "Accept", firefoxAccept), NotDocument, ""},
		{"anything goes", "", header("Accept", "*/*"), NotDocument, ""},
		{"text/*", "", header("Accept", "text/*"), NotDocument, ""},
		{"JSON", "", header("Accept", "application/json, text/plain, */*"), NotDocument, ""},
		{"old image request", "", header("Accept", "image/webp,image/*,*/*;q=0.8"), NotDocument, ""},
		{"HTML as part of a word", "", header("Accept", "text/html5,xtext/html"), NotDocument, ""},
		{"jQuery", "", header("Accept", "text/html, */*; q=0.01", "X-Requested-With", "XMLHttpRequest"), NotDocument, ""},
		{"React server component", "", header("Accept", "text/html,*/*", "Rsc", "1"), NotDocument, ""},
		{"Turbo frame", "", header("Accept", "text/html, application/xhtml+xml", "Turbo-Frame", "comments"), NotDocument, ""},
		{"htmx", "", header("Accept", "text/html,*/*", "Hx-Request", "true"), NotDocument, ""},

		{"no header at all", "", header(), NotDocument, Counted},
		{"nil header", "", nil, NotDocument, Counted},
		{"User-Agent alone", "", header("User-Agent", "x"), NotDocument, Counted},
		{"empty Accept", "", header("Accept", ""), NotDocument, ""},
	}
	r := new(Rules)
	for _, tt := range tests {
		method := tt.method
		if method == "" {
			method = http.MethodGet
		}
		if got := r.Judge(Request{Method: method, Header: tt.header}).Against; got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		want := tt.want
		if tt.logged == Counted {
			want = ""
		}
		if got := r.Judge(Request{Kind: LoggedRequest, Method: method, Header: tt.header}).Against; got != want {
			t.Errorf("%s, in a log: %q, want %q", tt.name, got, want)
		}
	}
}

// Lookups use canonical keys; a name in another spelling would never match.
func TestHeaderNamesAreCanonical(t *testing.T) {
	t.Parallel()
	names := append([]string{"Caddy-Push", "Range", "Sec-Fetch-Dest", "Rsc", "Turbo-Frame", "Hx-Request", "X-Requested-With", "Accept", "Content-Range", "Content-Type"}, purposeHeaders[:]...)
	for _, name := range append(names, presentHeaders[:]...) {
		if http.CanonicalHeaderKey(name) != name {
			t.Errorf("%s is not canonical", name)
		}
	}
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	r := compiled(t,
		&ListConfig{Name: "default"},
		&ListConfig{Name: "custom", Statuses: []int{200, 404}, ContentTypes: []string{"Application/PDF"}},
		&ListConfig{Name: "all", ContentTypes: []string{"*"}},
	)
	tests := []struct {
		name   string
		list   string
		status int
		header http.Header
		want   Reason
	}{
		{"page", "default", 200, header("Content-Type", "text/html; charset=utf-8"), ""},
		{"page in capitals", "default", 200, header("Content-Type", "TEXT/HTML"), ""},
		{"XHTML", "default", 200, header("Content-Type", "application/xhtml+xml"), ""},
		{"not modified", "default", 304, header(), ""},
		{"not modified, with its type", "default", 304, header("Content-Type", "text/html"), ""},
		{"image not modified, with its type", "default", 304, header("Content-Type", "image/png"), ContentType},
		{"image", "default", 200, header("Content-Type", "image/png"), ContentType},
		{"JSON", "default", 200, header("Content-Type", "application/json"), ContentType},
		{"almost HTML", "default", 200, header("Content-Type", "text/html5"), ContentType},
		{"no type", "default", 200, header(), ContentType},
		{"type that a handler has taken out", "default", 200, http.Header{"Content-Type": nil}, ContentType},
		{"log that knows no headers", "default", 200, nil, ""},
		{"log, not found", "default", 404, nil, Status},
		{"not found", "default", 404, header("Content-Type", "text/html"), Status},
		{"moved", "default", 301, header("Content-Type", "text/html"), Status},
		{"partial", "default", 206, header("Content-Type", "text/html"), Status},
		{"error", "default", 500, header("Content-Type", "text/html"), Status},
		{"nothing written", "default", 0, header(), Status},
		{"range in a 200", "default", 200, header("Content-Type", "text/html", "Content-Range", "bytes 0-9/10"), Range},
		{"configured status", "custom", 404, header("Content-Type", "application/pdf"), ""},
		{"304 is not configured", "custom", 304, header(), Status},
		{"HTML is not configured", "custom", 200, header("Content-Type", "text/html"), ContentType},
		{"any type", "all", 200, header("Content-Type", "video/mp4"), ""},
		{"any type, none", "all", 200, header(), ""},
	}
	for _, tt := range tests {
		if got := (Judgment{}).Outcome(&Target{List: r.List(tt.list), Item: "x"}, tt.status, tt.header); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestPublished(t *testing.T) {
	t.Parallel()
	r := compiled(t, &ListConfig{Name: "a"}, &ListConfig{Name: "b", PublishedHeader: "x-published-at"})
	day := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		list   string
		header http.Header
		want   time.Time
	}{
		{"a", header("Hotboard-Published", "2026-11-20T12:00:00Z"), day},
		{"a", header("Hotboard-Published", " 2026-11-20T13:00:00+01:00 "), day},
		{"a", header("Hotboard-Published", "2026-11-20T12:00:00.5Z"), day.Add(500 * time.Millisecond)},
		{"a", header("Hotboard-Published", "Fri, 20 Nov 2026 12:00:00 GMT"), day},
		{"b", header("X-Published-At", "2026-11-20T12:00:00Z"), day},
		{"b", header("Hotboard-Published", "2026-11-20T12:00:00Z"), time.Time{}},
		{"a", header(), time.Time{}},
		{"a", nil, time.Time{}},
		{"a", header("Hotboard-Published", ""), time.Time{}},
		{"a", header("Hotboard-Published", "yesterday"), time.Time{}},
		{"a", header("Hotboard-Published", "1969-12-31T23:59:59Z"), time.Time{}},
		{"a", header("Hotboard-Published", "0001-01-01T00:00:00Z"), time.Time{}},
	}
	for _, tt := range tests {
		if got := r.List(tt.list).Published(tt.header); !got.Equal(tt.want) {
			t.Errorf("%v: %v, want %v", tt.header, got, tt.want)
		}
	}
}

func TestViewChecksAllocate(t *testing.T) {
	r := compiled(t, &ListConfig{Name: "a"})
	l := r.Lists[0]
	target := Target{List: l, Item: "x"}
	browser := header("Accept", chromeAccept, "Sec-Fetch-Dest", "document", "User-Agent", "Mozilla/5.0", "Cookie", "a=b")
	old := header("Accept", chromeAccept)
	page := header("Content-Type", "text/html; charset=utf-8", "Hotboard-Published", "2026-11-20T12:00:00Z")
	for name, f := range map[string]func(){
		"Judge":                    func() { r.Judge(Request{Method: "GET", Header: browser, HonorOptOut: true}) },
		"Judge, by Accept":         func() { r.Judge(Request{Method: "GET", Header: old}) },
		"Outcome":                  func() { Judgment{}.Outcome(&target, 200, page) },
		"Published":                func() { l.Published(page) },
		"Published, without value": func() { l.Published(browser) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkJudge(b *testing.B) {
	h := header("Accept", chromeAccept, "Sec-Fetch-Dest", "document", "Sec-Fetch-Mode", "navigate", "User-Agent", "Mozilla/5.0",
		"Accept-Language", "en", "Accept-Encoding", "gzip", "Cookie", "a=b", "Upgrade-Insecure-Requests", "1")
	r := new(Rules)
	b.ReportAllocs()
	for b.Loop() {
		r.Judge(Request{Method: "GET", Header: h})
	}
}
