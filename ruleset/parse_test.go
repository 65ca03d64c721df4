package ruleset

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hotboard/hotboard/ruleset/calendar"
)

const exampleYAML = `
# What is counted on example.com.
lists:
  - name: articles
    pages: ["/articles/{id}", "/blog/{year}/{slug}"]
    dedup: 1h
    zone: Europe/Berlin
    weights: {uv: 4}
    score:
      model: halflife
      half_life: 1d
      min_views: 3
    boards: [day, all]
    keep:
      day: 7
  - name: products
    id: "{http.request.uri.query.id}"
`

const exampleJSON = `{"lists": [
  {"name": "articles", "pages": ["/articles/{id}", "/blog/{year}/{slug}"], "dedup": "1h", "zone": "Europe/Berlin",
   "weights": {"uv": 4}, "score": {"model": "halflife", "half_life": "1d", "min_views": 3},
   "boards": ["day", "all"], "keep": {"day": 7}},
  {"name": "products", "id": "{http.request.uri.query.id}"}]}`

func TestParse(t *testing.T) {
	t.Parallel()
	fromYAML, err := ParseYAML("rules.yaml", []byte(exampleYAML))
	if err != nil {
		t.Fatal(err)
	}
	l := fromYAML.List("articles")
	if l == nil || l.Dedup != Duration(time.Hour) || l.Location().String() != "Europe/Berlin" || *l.Weights != (Weights{PV: 1, UV: 4}) ||
		l.Score != (Score{Model: HalfLife, HalfLife: Duration(24 * time.Hour), MinViews: 3}) || len(l.Keep) != 1 || l.Keep[calendar.Day] != 7 {
		t.Errorf("%s", toJSON(t, l))
	}
	if got := fromYAML.Match(nil, "/blog/2015/grok"); len(got) != 2 || got[0].Item != "2015/grok" {
		t.Errorf("the patterns are not compiled: %v", got)
	}

	// JSON is also YAML.
	if both, err := ParseYAML("rules.json", []byte(exampleJSON)); err != nil || toJSON(t, both) != toJSON(t, fromYAML) {
		t.Errorf("JSON read as YAML: %v", err)
	}
}

// ParseYAML reports every problem, in the order of the file, each at its place.
func TestParseReportsEverything(t *testing.T) {
	t.Parallel()
	_, err := ParseYAML("rules.yaml", []byte(`list: []
lists:
  - name: Articles
    pages:
      - /articles/{id}
      - articles/{id}
    dedupe: 1h
    dedup: 48h
    statuses: [200, ok, 999]
    weights: {pv: -1, vu: 2}
    score:
      model: gravity
      half_life: 1d
  - name: 2024
    keep: {day: 0}
  - pages: /x/{id}
    boards: [day, year]
    zone: Europe/Atlantis
`))
	want := `rules.yaml:1:1: list: unknown key; known here are bots, limits, lists
rules.yaml:3:11: lists[0].name: invalid name "Articles": use 1 to 64 of a-z, 0-9, - and _
rules.yaml:6:9: lists[0].pages[1]: pattern "articles/{id}": must begin with "/"
rules.yaml:7:5: lists[0].dedupe: unknown key; known here are boards, content_types, dedup, id, keep, name, pages, published_header, score, statuses, votes, weights, zone
rules.yaml:8:12: lists[0].dedup: 2d is not between 1ms and 24h
rules.yaml:9:21: lists[0].statuses[1]: want a number, not a string
rules.yaml:9:25: lists[0].statuses[2]: 999 is not a status: 100 to 599
rules.yaml:10:19: lists[0].weights.pv: -1 is not a number from 0 to 1e+09
rules.yaml:10:23: lists[0].weights.vu: unknown key; known here are pv, uv
rules.yaml:13:18: lists[0].score.half_life: model gravity does not use it: remove it
rules.yaml:14:11: lists[1].name: want a string, not a number: put it in quotes
rules.yaml:15:17: lists[1].keep.day: 0 is not between 1 and 10000
rules.yaml:16:5: lists[2].name: invalid name "": use 1 to 64 of a-z, 0-9, - and _
rules.yaml:16:12: lists[2].pages: want a list, not a string
rules.yaml:17:19: lists[2].boards[1]: "year" is not one of hour, day, week, month and all
rules.yaml:18:11: lists[2].zone: "Europe/Atlantis" is not an IANA time zone such as UTC or Europe/Berlin`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if p := (*Problem)(nil); !errors.As(err, &p) || p.Line != 1 {
		t.Errorf("the error holds no *Problem: %v", err)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                  "no lists",
		"lists:":                            "no lists",
		"lists: []":                         "no lists",
		"# nothing":                         "no lists",
		"lists: {a: {}}":                    "1:8: lists: want a list, not a table of keys",
		"- name: a":                         "want a table of keys, not a list",
		"lists: [null]":                     "lists[0]: empty",
		"lists: [{name: a}]\nlists: []":     "already defined",
		"lists: [{name: a, name: b}]":       "already defined",
		"lists: [{name: a}":                 "1:",
		"a: b: c":                           "1:",
		"lists: [{name: a}]\n---\nlists: 1": "more than one document",
		"lists: *nowhere":                   "anchor",
	} {
		_, err := ParseYAML("", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("YAML %q: %v, want %q", text, err, want)
		}
	}
}

func FuzzParseYAML(f *testing.F) {
	f.Add(exampleYAML)
	f.Add(exampleJSON)
	f.Add(rulesYAML)
	f.Add("lists: [&a {name: x, pages: [\"/{id}\"]}, {<<: *a, name: y}]")
	f.Add("lists:\n- name: |\n    a\n  score: {gamma: .inf, base: .nan}\n  keep: {1: 2, ? a : b}\n")
	f.Add("a: &a [*a]\nlists: *a")
	f.Add("%YAML 1.2\n---\n!!map {lists: !x []}\n...\n---\n")
	f.Add("lists:\n  - \"\\ud83d\"\n  - {0x1F: 1e400}")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseYAML("f", []byte(text))
		checkParsed(t, r, err)
	})
}

// checkParsed verifies that parsing returns rules or a problem with a place,
// and that their document can be read.
func checkParsed(t *testing.T, r *Rules, err error) {
	t.Helper()
	if err != nil {
		var p *Problem
		if r != nil || !errors.As(err, &p) || p.Line < 1 || p.Column < 1 || p.Message == "" {
			t.Fatalf("rules %v, error %v", r, err)
		}
		return
	}
	r.Match(nil, "/a/b")
	if _, err := ParseDocument(r.Document()); err != nil {
		t.Fatalf("%v in\n%s", err, r.Document())
	}
}
