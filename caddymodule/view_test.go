package caddymodule

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hotboard/hotboard/caddymodule/internal/clock"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

func init() {
	caddy.RegisterModule(origin{})
	httpcaddyfile.RegisterHandlerDirective("test_origin", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		return origin{}, nil
	})
	httpcaddyfile.RegisterDirectiveOrder("test_origin", httpcaddyfile.After, "file_server")
}

// secondLine makes the origin go on with a stream.
var secondLine = make(chan struct{})

// origin is the site behind the edge in tests: a handler that does what the
// path's last part says.
type origin struct{}

func (origin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.test_origin", New: func() caddy.Module { return new(origin) }}
}

func (origin) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, what, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch what {
	case "304":
		w.Header().Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
	case "301", "302", "403", "404", "410", "500", "503", "206", "204":
		var status int
		fmt.Sscan(what, &status)
		w.WriteHeader(status)
	case "image":
		w.Header().Set("Content-Type", "image/png")
		io.WriteString(w, "png")
	case "json":
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "{}")
	case "xhtml":
		w.Header().Set("Content-Type", "application/xhtml+xml")
		io.WriteString(w, "<html/>")
	case "component":
		w.Header().Set("Content-Type", "text/x-component")
		io.WriteString(w, "0:{}")
	case "part":
		w.Header().Set("Content-Range", "bytes 0-1/4")
		io.WriteString(w, "pa")
	case "early":
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		io.WriteString(w, "page")
	case "untyped":
		w.Header().Del("Content-Type")
		w.WriteHeader(http.StatusOK)
	case "silent": // nothing is written at all
	case "error":
		return caddyhttp.Error(http.StatusBadGateway, errors.New("the origin is away"))
	case "late-error":
		io.WriteString(w, "half a pa")
		return errors.New("the origin went away")
	case "published":
		w.Header().Set("Hotboard-Published", "2026-11-20T09:30:00Z")
		io.WriteString(w, "page")
	case "named":
		w.Header().Set("X-Article", "named-by-header")
		io.WriteString(w, "page")
	case "stream":
		io.WriteString(w, "first\n")
		if err := http.NewResponseController(w).Flush(); err != nil {
			return err
		}
		<-secondLine
		io.WriteString(w, "second\n")
	case "upgrade":
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return err
		}
		defer conn.Close()
		io.WriteString(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		rw.Flush()
		line, err := rw.ReadString('\n')
		io.WriteString(rw, line)
		rw.Flush()
		return err
	default:
		r.Header.Del("User-Agent") // as request_header may
		io.WriteString(w, "page")
	}
	return nil
}

// site is a Caddyfile with one list, whose pages are /<list>/<item>.
func site(list string, options ...string) string {
	return `{
	hotboard {
		dir DIR
		NATS
		list ` + list + ` {
			page /` + list + `/{id}
		}
	}
}
http:// {
	hotboard {
		` + strings.Join(options, "\n\t\t") + `
	}
	test_origin
}`
}

func TestViews(t *testing.T) {
	log := startLog(t, 1)
	const list = "views"
	e := startEdge(t, log, site(list, "debug_header"))

	for _, tt := range []struct {
		name   string
		path   string   // after the list's
		method string   // default GET
		header []string // changes to a browser's
		want   ruleset.Reason
		status int // default 200
		// quiet is for what has no verdict in the response
		quiet bool
	}{
		{name: "a page", path: "page", want: ruleset.Counted},
		{name: "a page with a query", path: "page?utm_source=x", want: ruleset.Counted},
		{name: "a revisit", path: "304", want: ruleset.Counted, status: 304},
		{name: "an old browser", path: "page", header: []string{"Sec-Fetch-Dest", ""}, want: ruleset.Counted},
		{name: "no body", path: "untyped", want: ruleset.ContentType},
		{name: "nothing written", path: "silent", want: ruleset.Counted, quiet: true},
		{name: "HEAD", path: "page", method: "HEAD", want: ruleset.Method},
		{name: "POST", path: "page", method: "POST", want: ruleset.Method},
		{name: "not found", path: "404", want: ruleset.Status, status: 404},
		{name: "no content", path: "204", want: ruleset.Status, status: 204},
		{name: "the site's error page", path: "500", want: ruleset.Status, status: 500},
		{name: "a handler's error", path: "error", want: ruleset.Error, status: 502},
		{name: "an error after the beginning", path: "late-error", want: ruleset.Error, quiet: true},
		{name: "an asked-for range", path: "page", header: []string{"Range", "bytes=0-1"}, want: ruleset.Range},
		{name: "a range", path: "206", want: ruleset.Status, status: 206},
		{name: "an image", path: "image", want: ruleset.ContentType},
		{name: "asked for as an image", path: "page", header: []string{"Sec-Fetch-Dest", "image"}, want: ruleset.NotDocument},
		{name: "a script's fetch", path: "page", header: []string{"Sec-Fetch-Dest", "", "Accept", "*/*"}, want: ruleset.NotDocument},
		{name: "prefetched", path: "page", header: []string{"Sec-Purpose", "prefetch"}, want: ruleset.Speculative},
		{name: "prerendered", path: "page", header: []string{"Sec-Purpose", "prefetch;prerender"}, want: ruleset.Speculative},
		{name: "previewed", path: "page", header: []string{"X-Purpose", "preview"}, want: ruleset.Speculative},
		{name: "prefetched by Firefox", path: "page", header: []string{"X-Moz", "prefetch"}, want: ruleset.Speculative},
		{name: "pushed", path: "page", header: []string{"Caddy-Push", "1"}, want: ruleset.Push},
		{name: "a crawler", path: "page", header: []string{"User-Agent", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"}, want: ruleset.Bot},
		{name: "no User-Agent", path: "page", header: []string{"User-Agent", ""}, want: ruleset.Bot},
		{name: "a control character", path: "a%01b", want: ruleset.BadItem},
		{name: "no UTF-8", path: "a%ffb", want: ruleset.BadItem},
		{name: "too long", path: strings.Repeat("x", hit.MaxIDBytes+1), want: ruleset.BadItem},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := counted(list, tt.want)
			r := browse("/"+list+"/"+tt.path, tt.header...)
			if tt.method != "" {
				r.Method = tt.method
			}
			w := e.do(r)
			if want := max(tt.status, 200); tt.status != 0 && w.Code != want {
				t.Errorf("status %d, want %d", w.Code, want)
			}
			if got := counted(list, tt.want) - before; got != 1 {
				t.Errorf("the metric for %s rose by %d, want 1", tt.want, got)
			}
			verdict, rest, _ := strings.Cut(w.Header().Get(verdictHeader), "; ")
			if !tt.quiet && (verdict != string(tt.want) || !strings.HasPrefix(rest, "list="+list)) {
				t.Errorf("%s: %s; %s, want %s; list=%s…", verdictHeader, verdict, rest, tt.want, list)
			}
			if tt.want == ruleset.Counted {
				h := log.next(t)
				item, _, _ := strings.Cut(tt.path, "?")
				if h.List != list || h.Item != item || h.Kind != hit.View {
					t.Errorf("hit %+v, want a view of %s in %s", h, item, list)
				}
			}
		})
	}
	if n := len(log.hits); n != 0 {
		t.Errorf("%d more hits than counted views", n)
	}
}

func TestViewsAreAsWithoutTheModule(t *testing.T) {
	log := startLog(t, 1)
	with := startEdge(t, log, site("same"))
	cfg := adapt(t, "http:// {\n test_origin\n }")
	ctx, err := caddy.ProvisionContext(cfg)
	if err != nil {
		t.Fatal(err)
	}
	app, err := ctx.App("http")
	if err != nil {
		t.Fatal(err)
	}
	var without *caddyhttp.Server
	for _, s := range app.(*caddyhttp.App).Servers {
		without = s
	}
	for _, path := range []string{"page", "304", "404", "204", "206", "500", "image", "untyped", "silent", "error", "late-error", "published"} {
		a, b := with.do(browse("/same/"+path)), httptest.NewRecorder()
		without.ServeHTTP(b, browse("/same/"+path))
		if a.Code != b.Code || a.Body.String() != b.Body.String() || fmt.Sprint(a.Header()) != fmt.Sprint(b.Header()) {
			t.Errorf("%s: %d %q %v with the module, %d %q %v without", path,
				a.Code, a.Body, a.Header(), b.Code, b.Body, b.Header())
		}
	}
}

func TestViewsHit(t *testing.T) {
	log := startLog(t, 1)
	e := startEdge(t, log, site("fields"))
	see := func(path, ip, userAgent string) hit.Hit {
		t.Helper()
		r := browse("/fields/"+path, "User-Agent", userAgent)
		r.RemoteAddr = ip
		e.do(r)
		return log.next(t)
	}
	first := see("page", "192.0.2.1:1234", firefox)
	if first.Published != 0 || first.Time < 1.7e12 || first.Visitor == 0 {
		t.Errorf("hit %+v", first)
	}
	if h := see("published", "192.0.2.1:999", firefox); h.Published != 1795167000000 || h.PublishedFrom != hit.FromOrigin {
		t.Errorf("hit %+v, want published 2026-11-20T09:30:00Z by the origin", h)
	} else if h.Visitor != first.Visitor {
		t.Error("the same client is another visitor on another connection")
	}
	if h := see("page", "192.0.2.2:1234", firefox); h.Visitor == first.Visitor {
		t.Error("another address is the same visitor")
	}
	if h := see("page", "192.0.2.1:1234", strings.Replace(firefox, "140", "139", 2)); h.Visitor == first.Visitor {
		t.Error("another User-Agent is the same visitor")
	}
	a, b := see("page", "[2001:db8::1]:1", firefox), see("page", "[2001:db8::2]:1", firefox)
	if a.Visitor != b.Visitor {
		t.Error("two addresses of one /64 are two visitors")
	}
}

func TestRewrittenPaths(t *testing.T) {
	log := startLog(t, 1)
	e := startEdge(t, log, strings.Replace(site("rewritten"), "test_origin",
		"rewrite * /index.php?page={path}\n handle_path /rewritten/* {\n test_origin\n }\n handle {\n test_origin\n }", 1))
	e.do(browse("/rewritten/the-item"))
	if h := log.next(t); h.Item != "the-item" {
		t.Errorf("item %q of a rewritten path, want the-item, which the visitor asked for", h.Item)
	}
}

func TestItemFromPlaceholder(t *testing.T) {
	log := startLog(t, 1)
	config := func(id string) string {
		return strings.Replace(site("placed", "debug_header"), "page /placed/{id}", "page /placed/{any}\n id "+id, 1)
	}
	query := startEdge(t, log, config("{http.request.uri.query.id}"))
	query.do(browse("/placed/page?id=from-query"))
	if h := log.next(t); h.Item != "from-query" {
		t.Errorf("item %q, want from-query", h.Item)
	}
	before := counted("placed", ruleset.BadItem)
	for _, q := range []string{"", "?id=", "?id=a%00b"} {
		query.do(browse("/placed/page" + q))
	}
	if got := counted("placed", ruleset.BadItem) - before; got != 3 {
		t.Errorf("%d of 3 requests without an item were refused", got)
	}
	header := startEdge(t, log, config("{http.response.header.X-Article}"))
	header.do(browse("/placed/named"))
	if h := log.next(t); h.Item != "named-by-header" {
		t.Errorf("item %q, want named-by-header", h.Item)
	}
}

func TestListsOfASite(t *testing.T) {
	log := startLog(t, 1)
	e := startEdge(t, log, `{
	hotboard {
		dir DIR
		NATS
		list first {
			page /articles/{id}
		}
		list second {
			page /articles/{id}
		}
		list third {
			page /articles/{id}
		}
	}
}
http:// {
	hotboard {
		lists first third
		debug_header
	}
	test_origin
}`)
	w := e.do(browse("/articles/page"))
	got := []string{log.next(t).List, log.next(t).List}
	if got[0] != "first" || got[1] != "third" {
		t.Errorf("counted for %v, want first and third", got)
	}
	if v := w.Header().Values(verdictHeader); len(v) != 2 || v[1] != `counted; list=third; item="page"` {
		t.Errorf("%s: %q", verdictHeader, v)
	}
}

func TestReasonPlaceholder(t *testing.T) {
	log := startLog(t, 1)
	e := startEdge(t, log, site("placeholder"))
	for path, want := range map[string]any{"/placeholder/page": "counted", "/placeholder/404": "status", "/elsewhere": nil} {
		var got any
		seen := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			return origin{}.ServeHTTP(w, r, nil)
		})
		h := provisionedHandler(t, e)
		r := caddyhttp.PrepareRequest(browse(path), caddy.NewReplacer(), nil, nil)
		if err := h.ServeHTTP(httptest.NewRecorder(), r, seen); err != nil {
			t.Fatal(err)
		}
		repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		got, _ = repl.Get("http.vars.hotboard.reason")
		if got != want {
			t.Errorf("%s: {http.vars.hotboard.reason} = %v, want %v", path, got, want)
		}
	}
}

// provisionedHandler returns a handler for all lists of an edge.
func provisionedHandler(t testing.TB, e *edge) *Handler {
	t.Helper()
	h := new(Handler)
	if err := h.Provision(e.ctx); err != nil {
		t.Fatal(err)
	}
	return h
}

func TestErrorPagesAreNotCounted(t *testing.T) {
	log := startLog(t, 1)
	e := startEdge(t, log, site("errors")+`
http://example.com {
	hotboard
	test_origin
	handle_errors {
		hotboard
		rewrite * /errors/page
		test_origin
	}
}`)
	failed, ok := counted("errors", ruleset.Error), counted("errors", ruleset.Counted)
	w := e.do(browse("/errors/error"))
	if w.Body.String() != "page" {
		t.Errorf("got %q, want the error page", w.Body)
	}
	if counted("errors", ruleset.Error) != failed+1 || counted("errors", ruleset.Counted) != ok {
		t.Error("an error page was counted")
	}
}

func TestStreamPassesThrough(t *testing.T) {
	log := startLog(t, 1)
	s := httptest.NewServer(startEdge(t, log, site("stream")))
	defer s.Close()
	req, err := http.NewRequest(http.MethodGet, s.URL+"/stream/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = browse("/").Header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	if line, err := lines.ReadString('\n'); line != "first\n" {
		t.Fatalf("read %q, %v before the response ended, want the first line", line, err)
	}
	if n := len(log.hits); n != 0 {
		t.Error("a page was counted before it was served")
	}
	secondLine <- struct{}{}
	if rest, err := io.ReadAll(lines); string(rest) != "second\n" || err != nil {
		t.Errorf("read %q, %v, want the second line", rest, err)
	}
	if h := log.next(t); h.Item != "stream" {
		t.Errorf("hit %+v, want the stream", h)
	}
}

func TestUpgradePassesThrough(t *testing.T) {
	log := startLog(t, 1)
	s := httptest.NewServer(startEdge(t, log, site("upgrade")))
	defer s.Close()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /upgrade/upgrade HTTP/1.1\r\nHost: x\r\nUser-Agent: %s\r\nAccept: text/html\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello\n", firefox)
	reply, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(reply), "HTTP/1.1 101 ") || !strings.HasSuffix(string(reply), "\r\n\r\nhello\n") {
		t.Errorf("an upgraded connection read %q, %v", reply, err)
	}
}

// TestLongURLsAreNotKept: an item that waits keeps itself in memory, not the URL
// that names it.
func TestLongURLsAreNotKept(t *testing.T) {
	log := startLog(t, 1)
	e := startEdge(t, log, site("long"))
	const views, size = 100, 900 << 10
	memory := func() uint64 {
		goruntime.GC()
		var m goruntime.MemStats
		goruntime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := memory()
	for i := range views {
		path := fmt.Sprintf("/long/%d?", i)
		e.do(browse(path+strings.Repeat("x", size), "Sec-Purpose", "prefetch"))
	}
	if n := e.app.rt.Load().pending.Len(clock.Now()); n != views {
		t.Fatalf("%d views wait, want %d", n, views)
	}
	if after := memory(); after > before+views*size/4 {
		t.Errorf("%d views that wait cost %d MB", views, (after-before)>>20)
	}
}
