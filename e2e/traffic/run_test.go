package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// countingSite counts like a site without dedup: every document for a visitor. It
// is simple on purpose, and independent of the code under test.
type countingSite struct {
	mu    sync.Mutex
	views int64
	lose  int64 // number of views that it fails to count
}

func (c *countingSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case r.URL.Path == "/":
		_, _ = w.Write([]byte(`<link rel=stylesheet href="/site.css"><a href="/articles/one">1</a>
			<a href="articles/two#top">2</a><a href="/articles/one?again">1</a><a href="/articles/">all</a>
			<a href="http://elsewhere.example/articles/three">3</a>`))
	case r.URL.Path == "/hot":
		_, _ = w.Write([]byte(`{"items":[{"rank":1,"id":"one","score":2.5,"views":3}]}`))
	case strings.HasPrefix(r.URL.Path, "/api/stats/"):
		_ = json.NewEncoder(w).Encode(map[string]any{"periods": map[string]any{"all": map[string]any{"views": max(0, c.views-c.lose)}}})
	case r.URL.Path == "/site.css":
	case strings.HasPrefix(r.URL.Path, "/articles/"):
		agent := r.UserAgent()
		program := agent == "" || strings.Contains(agent, "+http")
		guess := r.Header.Get("Sec-Purpose") != "" || r.Header.Get("Purpose") != ""
		if r.Method == http.MethodGet && !program && !guess {
			c.views++
		}
	default:
		http.NotFound(w, r)
	}
}

func TestDrive(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lose int64
		ok   bool
		says string
	}{
		"counts right": {0, true, "The site counted exactly that."},
		"loses a view": {1, false, "The site counted less."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := &countingSite{lose: tt.lose}
			srv := httptest.NewServer(site)
			defer srv.Close()
			o, err := parse([]string{"-url", srv.URL, "-url", srv.URL + "/", "-for", "1200ms", "-rate", "300", "-dedup", "0"}, t.Output())
			if err != nil {
				t.Fatal(err)
			}
			o.settle = time.Second
			out, err := os.Create(filepath.Join(t.TempDir(), "out"))
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			ok, err := drive(t.Context(), o, out)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(out.Name())
			if err != nil {
				t.Fatal(err)
			}
			if ok != tt.ok {
				t.Errorf("drive says %v, want %v", ok, tt.ok)
			}
			for _, s := range []string{"2 articles", "hot: 1 one", tt.says} {
				if !bytes.Contains(text, []byte(s)) {
					t.Errorf("%q is not in the output:\n%s", s, text)
				}
			}
			if site.views < 100 {
				t.Errorf("the site saw %d views", site.views)
			}
		})
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ arg, says string }{
		{"-url=https://example.com", "not on this machine"},
		{"-url=ftp://localhost", "http://localhost:8080"},
		{"-rate=5001", "-rate"},
		{"-rate=NaN", "-rate"},
		{"-rate=0", "-rate"},
		{"-for=2h", "-for"},
		{"-visitors=0", "-visitors"},
		{"-dedup=-1s", "-dedup"},
		{"fast", `unexpected argument "fast"`},
	} {
		var stderr bytes.Buffer
		if status := run(t.Context(), []string{tt.arg}, os.Stdout, &stderr); status != 2 || !strings.Contains(stderr.String(), tt.says) {
			t.Errorf("%s: status %d, %q; want 2 and %q", tt.arg, status, &stderr, tt.says)
		}
	}
	var stderr bytes.Buffer
	if status := run(t.Context(), []string{"-help"}, os.Stdout, &stderr); status != 0 || !strings.Contains(stderr.String(), "-anywhere") {
		t.Errorf("-help: status %d, %q", status, &stderr)
	}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	base, _ := url.Parse("http://localhost:8080/")
	articles, assets := links(strings.NewReader(`<html><script type=module src=/hot.js></script>
		<link rel=icon href=/icon.svg><link rel=stylesheet href=a.css><a href=/about>About</a>
		<a href="/articles/a%20b">x</a><a href='/articles/c?utm=1#d'>y</a><a href=/articles/c>y</a><a name=z>`), base, "/articles/")
	if want := []string{"/articles/a b", "/articles/c"}; !slices.Equal(articles, want) {
		t.Errorf("articles %q, want %q", articles, want)
	}
	if want := []string{"/hot.js", "/a.css"}; !slices.Equal(assets, want) {
		t.Errorf("assets %q, want %q", assets, want)
	}
}
