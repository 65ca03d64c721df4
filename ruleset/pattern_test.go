package ruleset

import (
	"regexp"
	"strings"
	"testing"
)

func TestPatternMatch(t *testing.T) {
	t.Parallel()
	tests := []struct {
		pattern string
		path    string
		want    string // "" means that it does not match
	}{
		{"/articles/{id}", "/articles/rust-in-caddy", "rust-in-caddy"},
		{"/articles/{id}", "/articles/rust-in-caddy/", "rust-in-caddy"},
		{"/articles/{id}/", "/articles/rust-in-caddy", "rust-in-caddy"},
		{"/articles/{id}/", "/articles/rust-in-caddy/", "rust-in-caddy"},
		{"/articles/{id}", "/articles/a//", ""},
		{"/articles/{id}", "/articles/a/b", ""},
		{"/articles/{id}", "/articles/", ""},
		{"/articles/{id}", "/articles", ""},
		{"/articles/{id}", "/articles//", ""},
		{"/articles/{id}", "//articles/a", ""},
		{"/articles/{id}", "/Articles/a", ""}, // case counts
		{"/articles/{id}", "/articles/A", "A"},
		{"/articles/{id}", "/articles/..", ""},
		{"/articles/{id}", "/articles/.", ""},
		{"/articles/{id}", "/articles/...", "..."},
		{"/articles/{id}", "/articles/日本 語", "日本 語"},
		{"/articles/{id}", "articles/a", ""},
		{"/articles/{id}", "", ""},
		{"/{id}", "/", ""},
		{"/{id}", "//", ""},
		{"/{id}", "/a", "a"},
		{"/blog/{year}/{slug}", "/blog/2015/grok", "2015/grok"},
		{"/blog/{year}/{slug}", "/blog/2015", ""},
		{"/blog/{year}/{slug}", "/blog//grok", ""},
		{"/blog/{year}/{id}", "/blog/2015/grok", "grok"},
		{"/{lang}/docs/{page}", "/en/docs/intro", "en/intro"},
		{"/{lang}/docs/{page}", "/en/help/intro", ""},
		{"/blog/{slug}.html", "/blog/grok.html", "grok"},
		{"/blog/{slug}.html", "/blog/a.html.html", "a.html"},
		{"/blog/{slug}.html", "/blog/.html", ""},
		{"/blog/{slug}.html", "/blog/grok", ""},
		{"/blog/{slug}.html", "/blog/grok.HTML", ""},
		{"/p-{id}-x", "/p-7-x", "7"},
		{"/p-{id}-x", "/p-x", ""},
		{"/aa{id}aa", "/aaa", ""}, // before and after must not overlap
		{"/{id}/comments", "/7/comments", "7"},
		{"/{id}/comments", "/7/comment", ""},
		{"/{id}/comments", "/7", ""},
		{"/docs/{path...}", "/docs/a/b/c", "a/b/c"},
		{"/docs/{path...}", "/docs/a/b/c/", "a/b/c"},
		{"/docs/{path...}", "/docs/a", "a"},
		{"/docs/{path...}", "/docs/", ""},
		{"/docs/{path...}", "/docs/a//b", ""},
		{"/docs/{path...}", "/docs/a/../b", ""},
		{"/{section}/{rest...}", "/a/b/c", "a/b/c"},
		{"/{section}/{id...}", "/a/b/c", "b/c"},
		{"/{path...}", "/a", "a"},
		{"/{path...}", "/", ""},
	}
	for _, tt := range tests {
		p, err := compilePattern(tt.pattern, true)
		if err != nil {
			t.Errorf("%s: %v", tt.pattern, err)
			continue
		}
		got, ok := p.match(tt.path)
		if got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s with %q: %q, %v; want %q", tt.pattern, tt.path, got, ok, tt.want)
		}
	}
}

func TestPatternWithoutParts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, path string
		want          bool
	}{
		{"/", "/", true}, {"/", "//", false}, {"/", "/a", false}, {"/", "", false},
		{"/a", "/a", true}, {"/a", "/a/", true}, {"/a/", "/a", true}, {"/a", "/ab", false}, {"/a/b", "/a/b", true}, {"/a/b", "/a", false},
	} {
		p, err := compilePattern(tt.pattern, false)
		if err != nil {
			t.Fatal(err)
		}
		if id, ok := p.match(tt.path); ok != tt.want || id != "" {
			t.Errorf("%s with %q: %q, %v", tt.pattern, tt.path, id, ok)
		}
	}
}

func TestPatternErrors(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		"":                                     `begin with "/"`,
		"articles/{id}":                        `begin with "/"`,
		"/articles":                            "no named part",
		"/":                                    "no named part",
		"/a//{id}":                             "empty segment",
		"//":                                   "empty segment",
		"//{id}":                               "empty segment",
		"/{id}//":                              "empty segment",
		"/{id":                                 "{ without }",
		"/id}":                                 "} without {",
		"/a}{id}":                              "} without {",
		"/{}":                                  "invalid name",
		"/{ID}":                                "invalid name",
		"/{1st}":                               "invalid name",
		"/{a-b}":                               "invalid name",
		"/{...}":                               "invalid name",
		"/{http.request.uri}":                  "invalid name",
		"/{{id}}":                              "more than one named part",
		"/{a}-{b}":                             "more than one named part",
		"/{a}/{a}":                             "duplicate",
		"/{a...}/b":                            "nothing can follow",
		"/{a...}/{b...}":                       "nothing can follow",
		"/x{a...}":                             "whole segment",
		"/a?id={id}":                           "remove ? and #",
		"/*":                                   "* is not a wildcard",
		"/caf%C3%A9/{id}":                      "decoded path",
		"/\xff/{id}":                           "UTF-8",
		"/a\n/{id}":                            "control",
		"/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}": "at most 8",
	} {
		if _, err := compilePattern(pattern, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", pattern, err, want)
		}
	}
}

// naiveMatch is the reference model of a pattern: a regular expression over the
// path without its trailing slash.
func naiveMatch(pattern, path string) (id string, ok bool) {
	if !strings.HasPrefix(path, "/") {
		return "", false
	}
	part := regexp.MustCompile(`\{([a-z][a-z0-9_]*)(\.\.\.)?\}`)
	pattern = strings.TrimSuffix(pattern, "/")
	var expr strings.Builder
	expr.WriteString(`(?s)^`)
	last := 0
	var names []string
	for _, m := range part.FindAllStringSubmatchIndex(pattern, -1) {
		expr.WriteString(regexp.QuoteMeta(pattern[last:m[0]]))
		names = append(names, pattern[m[2]:m[3]])
		if m[4] >= 0 {
			expr.WriteString(`(.+)`)
		} else {
			expr.WriteString(`([^/]+)`)
		}
		last = m[1]
	}
	expr.WriteString(regexp.QuoteMeta(pattern[last:]) + `/?$`)
	m := regexp.MustCompile(expr.String()).FindStringSubmatch(path)
	if m == nil {
		return "", false
	}
	for i, name := range names {
		m[i+1] = strings.TrimSuffix(m[i+1], "/")
		for _, seg := range strings.Split(m[i+1], "/") {
			if seg == "" || seg == "." || seg == ".." {
				return "", false
			}
		}
		if name == "id" {
			id = m[i+1]
		}
	}
	if id == "" {
		id = strings.Join(m[1:], "/")
	}
	return id, true
}

func FuzzPattern(f *testing.F) {
	for _, s := range []struct{ pattern, path string }{
		{"/articles/{id}", "/articles/a/"},
		{"/blog/{year}/{slug}.html", "/blog/2015/x.html"},
		{"/docs/{path...}", "/docs/a/b//"},
		{"/{a}/x/{b...}", "/1/x/2/3/"},
		{"/aa{id}aa", "/aaaaa"},
		{"/{id}/", "//"},
		{"/", "/"},
		{"//", "//"},
		{"/a", "/a/"},
		{"/{", "/}"},
		{"/é{id}", "/é\xff"},
	} {
		f.Add(s.pattern, s.path)
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		p, err := compilePattern(pattern, false)
		if err != nil {
			return
		}
		id, ok := p.match(path)
		// A regular expression reads broken UTF-8 as U+FFFD; paths are compared
		// as bytes.
		if strings.ToValidUTF8(path, "") != path {
			return
		}
		if wantID, want := naiveMatch(pattern, path); id != wantID || ok != want {
			t.Errorf("%q with %q: %q, %v; the model returns %q, %v", pattern, path, id, ok, wantID, want)
		}
	})
}
