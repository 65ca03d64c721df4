package plaincount

import (
	"reflect"
	"strings"
	"testing"
)

const reader = `"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"`

// TestCount counts a log that is short enough to count by hand.
func TestCount(t *testing.T) {
	log := strings.Join([]string{
		`192.0.2.1 - - [14/Mar/2024:23:50:00 +0000] "GET /articles/a/ HTTP/1.1" 200 10 "-" ` + reader,
		`192.0.2.1 - - [14/Mar/2024:23:55:00 +0000] "GET /articles/a?x=1 HTTP/1.1" 304 - "-" ` + reader, // too soon
		`192.0.2.1 - - [15/Mar/2024:00:01:00 +0000] "GET /articles/a HTTP/1.1" 200 10 "-" ` + reader,    // another day
		`192.0.2.2 - - [15/Mar/2024:02:05:00 +0200] "GET /articles/a HTTP/1.1" 200 10 "-" ` + reader,
		`192.0.2.2 - - [15/Mar/2024:00:15:00 +0000] "GET /articles/a HTTP/1.1" 200 10 "-" ` + reader, // again, not unique
		`192.0.2.2 - - [15/Mar/2024:00:15:00 +0000] "GET /articles/b HTTP/1.1" 200 10 "-" ` + reader,
		`192.0.2.3 - - [15/Mar/2024:00:16:00 +0000] "GET /articles/b HTTP/1.1" 404 10 "-" ` + reader,
		`192.0.2.3 - - [15/Mar/2024:00:16:00 +0000] "HEAD /articles/b HTTP/1.1" 200 - "-" ` + reader,
		`192.0.2.3 - - [15/Mar/2024:00:16:00 +0000] "GET /articles/b HTTP/1.1" 200 10 "-" "-"`,
		`192.0.2.3 - - [15/Mar/2024:00:16:00 +0000] "GET /articles/b/b.png HTTP/1.1" 200 10 "-" ` + reader,
		`192.0.2.3 - - [15/Mar/2024:00:16:00 +0000] "GET /articles/c HTTP/1.1" 200 10 "-" ` + reader,
	}, "\n")
	lines, err := Read(strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	got := Count(lines)
	want := &Counts{
		Boards: map[string]map[string][]Row{
			"2024-03-14": {"articles": {{1, "a", 1, 1}}},
			"2024-03-15": {"articles": {{1, "a", 3, 2}, {2, "c", 1, 1}, {2, "b", 1, 1}}},
		},
		Totals: map[string]Totals{"articles": {Views: 6, Duplicates: 1}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestItemOf(t *testing.T) {
	for uri, want := range map[string]string{
		"/articles/ssh-security/":            "articles ssh-security",
		"/articles/a/b":                      " ",
		"/articles/":                         " ",
		"/blog/geekery/xvfb-firefox.html?a=": "posts xvfb-firefox",
		"/blog/geekery/xvfb-firefox":         "posts xvfb-firefox",
		"/blog/rants/a%20b.html":             "posts rants/a b",
		"/blog/rants/a":                      " ",
		"/blog/a.html":                       "posts a",
		"/blog/tags/puppet":                  " ",
		"/projects/xdotool/xdotool.xhtml":    "projects xdotool",
		"/projects/keynav/demo-thumb.png":    " ",
		"/style2.css":                        " ",
	} {
		if list, item := itemOf(uri); list+" "+item != want {
			t.Errorf("%s is %q of %q, want %q", uri, item, list, want)
		}
	}
}
