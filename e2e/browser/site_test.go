package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hotboard/hotboard/e2e/services"
	"github.com/hotboard/hotboard/e2e/stack"
)

// site is a Caddy with Hotboard before the pages of a test. A proxy between it and
// the browser records all requests.
type site struct {
	// URL is the site's; Heeding is the same site's with honor_opt_out; Other is
	// another site's, with the same pages but without Hotboard, whose pages may send
	// beacons to the first.
	URL, Heeding, Other string

	edge    *stack.Edge
	edgeURL string // of the Caddy itself, for requests off the record

	mu      sync.Mutex
	pages   map[string]webpage
	gates   map[string]chan struct{}
	busy    map[string]int // number of 503s for beacons, by list
	log     []request
	changed chan struct{} // closed at the next request
}

// webpage is the site's content at a path.
type webpage struct {
	html   string
	header []string // name, value pairs
	// rest is sent once the first part has asked for /-/ran.
	rest string
}

// request is an answered request.
type request struct {
	method, uri string
	purpose     string // Sec-Purpose
	body        string
	status      int
}

// startSite runs the site until the test ends. Each list has the pages below its name.
func startSite(t *testing.T, lists []string) *site {
	t.Helper()
	s := &site{
		pages: map[string]webpage{}, gates: map[string]chan struct{}{}, busy: map[string]int{},
		changed: make(chan struct{}),
	}
	origin := httptest.NewServer(http.HandlerFunc(s.servePage))
	t.Cleanup(origin.Close)
	s.Other = origin.URL

	dir := t.TempDir()
	admin := fmt.Sprintf("127.0.0.1:%d", services.FreePort(t))
	first, second := services.FreePort(t), services.FreePort(t)
	var text strings.Builder
	fmt.Fprintf(&text, "{\n\tadmin %s\n\tpersist_config off\n\tstorage file_system %s\n", admin, filepath.Join(dir, "storage"))
	fmt.Fprintf(&text, "\thotboard {\n\t\tdir %s\n\t\tembedded\n", filepath.Join(dir, "hotboard"))
	for _, l := range lists {
		fmt.Fprintf(&text, "\t\tlist %s {\n\t\t\tpage /%s/{id}\n\t\t}\n", l, l)
	}
	text.WriteString("\t}\n}\n")
	for port, option := range map[int]string{first: "allow_origins " + s.Other, second: "honor_opt_out"} {
		fmt.Fprintf(&text, "http://:%d {\n\tbind 127.0.0.1\n\thotboard {\n\t\t%s\n\t}\n\treverse_proxy %s\n}\n", port, option, origin.URL)
	}
	file := filepath.Join(dir, "Caddyfile")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	s.edgeURL = fmt.Sprintf("http://127.0.0.1:%d", first)
	s.edge = &stack.Edge{Admin: "http://" + admin}
	s.edge.Program = services.StartProgram(t, services.Caddy, s.edgeURL+"/hot?list="+lists[0],
		"run", "--adapter", "caddyfile", "--config", file)
	s.URL = s.proxy(t, s.edgeURL)
	s.Heeding = s.proxy(t, fmt.Sprintf("http://127.0.0.1:%d", second))
	return s
}

// proxy passes requests on to a Caddy, and returns its own URL.
func (s *site) proxy(t *testing.T, caddy string) string {
	t.Helper()
	to, err := url.Parse(caddy)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(to)
		p.Out.Host = p.In.Host
	}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if gate, ok := strings.CutPrefix(r.URL.Path, "/-/gate"); ok {
			select {
			case <-s.gate(gate):
			case <-r.Context().Done():
			}
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the browser has gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		done := request{method: r.Method, uri: r.URL.RequestURI(), purpose: r.Header.Get("Sec-Purpose"), body: string(body)}
		answer := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		switch {
		case strings.HasPrefix(r.URL.Path, "/-/"): // a page reports something
		case s.isBusy(done):
			w.Header().Set("Retry-After", "0.01")
			answer.WriteHeader(http.StatusServiceUnavailable)
		default:
			forward.ServeHTTP(answer, r)
		}
		done.status = answer.status
		s.mu.Lock()
		defer s.mu.Unlock()
		s.log = append(s.log, done)
		close(s.changed)
		s.changed = make(chan struct{})
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// servePage answers as the site behind the Caddy.
func (s *site) servePage(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	p, ok := s.pages[r.URL.Path]
	s.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	for i := 0; i < len(p.header); i += 2 {
		w.Header().Set(p.header[i], p.header[i+1])
	}
	if p.rest == "" {
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(p.html)) // 304, when there is an ETag
		return
	}
	_, _ = io.WriteString(w, p.html)
	_ = http.NewResponseController(w).Flush()
	select {
	case <-s.gate(r.URL.Path):
	case <-r.Context().Done():
	}
	_, _ = io.WriteString(w, p.rest)
}

// A gate is closed by open. A page waits for it by asking for /-/gate/<name>.
func (s *site) gate(name string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gates[name] == nil {
		s.gates[name] = make(chan struct{})
	}
	return s.gates[name]
}

func (s *site) open(gate string) { close(s.gate(gate)) }

// isBusy reports whether to answer a beacon with 503.
func (s *site) isBusy(r request) bool {
	b, ok := r.beacon()
	if !ok {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy[b.list()]--
	return s.busy[b.list()] >= 0
}

// await returns when a request with the wanted properties was answered.
func (s *site) await(t *testing.T, what string, wanted func(request) bool) request {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		s.mu.Lock()
		i, changed := slices.IndexFunc(s.log, wanted), s.changed
		var r request
		if i >= 0 {
			r = s.log[i]
		}
		s.mu.Unlock()
		if i >= 0 {
			return r
		}
		select {
		case <-changed:
		case <-limit.C:
			t.Fatalf("there is no %s", what)
		}
	}
}

// said waits until a page has asked for a URI.
func (s *site) said(t *testing.T, uri string) {
	t.Helper()
	s.await(t, "request for "+uri, func(r request) bool { return r.uri == uri })
}

// beacon is a report of the script.
type beacon struct {
	Page        string `json:"page"`
	Navigation  string `json:"navigation"`
	ArticleID   string `json:"articleId,omitempty"`
	List        string `json:"list,omitempty"`
	PublishedAt string `json:"publishedAt,omitempty"`
}

// list is the page's list.
func (b beacon) list() string {
	list, _, _ := strings.Cut(strings.TrimPrefix(b.Page, "/"), "/")
	return list
}

func (r request) beacon() (beacon, bool) {
	if r.method != http.MethodPost || r.uri != "/api/views" {
		return beacon{}, false
	}
	var b beacon
	dec := json.NewDecoder(strings.NewReader(r.body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&b); err != nil {
		b.Page = fmt.Sprintf("unreadable: %v: %s", err, r.body)
	}
	return b, true
}

// beacons returns the reports from a list's pages, with their answers.
func (s *site) beacons(list string) (sent []beacon, statuses []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.log {
		if b, ok := r.beacon(); ok && b.list() == list {
			sent, statuses = append(sent, b), append(statuses, r.status)
		}
	}
	return sent, statuses
}
