package ruleset

import (
	"fmt"
	"strings"
	"testing"
)

func compiled(t testing.TB, lists ...*ListConfig) *Rules {
	t.Helper()
	return MustCompile(Config{Lists: lists})
}

func TestMatch(t *testing.T) {
	t.Parallel()
	r := compiled(t,
		&ListConfig{Name: "articles", Pages: []string{"/blog/archive/{id}", "/blog/{id}", "/blog/{year}/{slug}"}},
		&ListConfig{Name: "everything", Pages: []string{"/{path...}"}},
		&ListConfig{Name: "products", Pages: []string{"/shop/item"}, ID: "{http.request.uri.query.id}"},
		&ListConfig{Name: "anywhere", ID: "{http.request.header.x-item}"},
		&ListConfig{Name: "beacons"},
	)
	long := strings.Repeat("x", 257)
	tests := []struct{ path, want string }{
		{"/", "anywhere="},
		{"/blog/a", "articles=a everything=blog/a anywhere="},
		{"/blog/2015/grok/", "articles=2015/grok everything=blog/2015/grok anywhere="},
		{"/blog/archive/grok", "articles=grok everything=blog/archive/grok anywhere="}, // the first pattern wins
		{"/shop/item", "everything=shop/item products= anywhere="},
		{"/blog/" + long, "articles!bad_item everything!bad_item anywhere="},
		{"/blog/\xff", "articles!bad_item everything!bad_item anywhere="},
		{"/blog/a\x00b", "articles!bad_item everything!bad_item anywhere="},
	}
	for _, tt := range tests {
		var got []string
		for _, target := range r.Match(nil, tt.path) {
			if target.Reason != "" {
				got = append(got, fmt.Sprintf("%s!%s%s", target.List.Name, target.Reason, target.Item))
			} else {
				got = append(got, target.List.Name+"="+target.Item)
			}
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%.40q: %s; want %s", tt.path, s, tt.want)
		}
	}

	if got := r.List("products"); got != r.Lists[2] {
		t.Errorf("List(products) = %v", got)
	}
	if got := r.List("nothing"); got != nil {
		t.Errorf("List(nothing) = %v", got)
	}
	first := Target{Item: "kept"}
	if got := r.Match([]Target{first}, "/"); len(got) != 2 || got[0] != first {
		t.Errorf("Match did not append: %v", got)
	}
}

// realistic is the rules of a larger site, for what a request costs.
func realistic(t testing.TB) *Rules {
	return compiled(t,
		&ListConfig{Name: "articles", Pages: []string{"/articles/{id}", "/blog/{year}/{slug}", "/blog/{slug}.html", "/news/{section}/{id}"}},
		&ListConfig{Name: "projects", Pages: []string{"/projects/{path...}", "/presentations/{id}"}},
		&ListConfig{Name: "products", Pages: []string{"/shop/{category}/{id}"}},
		&ListConfig{Name: "authors", Pages: []string{"/{lang}/authors/{id}"}},
	)
}

var otherPaths = []string{"/", "/style2.css", "/images/web/2009/banner.png", "/articles/", "/blog/2015/a/b/c", "/en/about", "/favicon.ico"}

func TestMatchAllocates(t *testing.T) {
	r := realistic(t)
	buf := make([]Target, 0, 4)
	for _, path := range otherPaths {
		if n := testing.AllocsPerRun(100, func() { buf = r.Match(buf[:0], path) }); n != 0 || len(buf) != 0 {
			t.Errorf("%s: %v allocations, %d targets", path, n, len(buf))
		}
	}
	if n := testing.AllocsPerRun(100, func() { buf = r.Match(buf[:0], "/articles/rust-in-caddy") }); n != 0 || len(buf) != 1 {
		t.Errorf("a match of one part: %v allocations, %d targets", n, len(buf))
	}
}

func BenchmarkMatch(b *testing.B) {
	r := realistic(b)
	buf := make([]Target, 0, 4)
	for _, path := range append(otherPaths, "/articles/rust-in-caddy", "/blog/2015/grok") {
		b.Run(path, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				buf = r.Match(buf[:0], path)
			}
		})
	}
}
