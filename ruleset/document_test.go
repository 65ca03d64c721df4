package ruleset

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotboard/hotboard/ruleset/calendar"
)

// allSettings has every setting that a document can have.
const allSettings = `
lists:
  - name: articles
    pages: ["/articles/{id}", "/<b>&/{id}"]
    statuses: [200]
    content_types: [Text/HTML]
    published_header: x-published
    dedup: 90m
    zone: Europe/Berlin
    weights: {pv: 0.5}
    score: {base: 3, gamma: 1.8, min_views: 10, damping: log}
    boards: [all, month, day]
    keep: {month: 3, day: 400}
  - name: products
    id: "{http.request.uri.query.id}"
    score: {model: halflife}
  - name: dinner
    votes: {options: [ramen, tacos], opens: 2026-11-20T09:30:00+01:00, closes: 2026-11-27T08:00:00.5Z, require_user: true}
  - name: robots
    score: {model: accumulate}
limits:
  - name: address
    by: [ip, item]
    ipv4_prefix: 24
    windows: [{max: 10, per: 10s}, {max: 5, per: minute, burst: 2}, {max: 7, per: minute, calendar: true}, {max: 9, per: day, calendar: true}]
    when: {lists: [dinner], channels: [letter, ""], devices: [mobile]}
    bonus: {letter: 2, app: 1}
    shadow: true
  - name: person
    by: [user]
    windows: [{max: 1, per: campaign}]
    when: {}
bots:
  file: bots.json
  allow: {user_agents: [Friend], cidrs: [192.0.2.77/24, "2001:DB8::1"]}
  deny: {}
  count: [{list: robots, classes: [ai_crawler]}]
`

// A document that exists must keep its name: if this test fails, rules that are in
// force somewhere mean something else to this version.
const (
	allSettingsDocument = `{"lists":[` +
		`{"name":"articles","pages":["/articles/{id}","/<b>&/{id}"],"statuses":[200],"content_types":["text/html"],"published_header":"X-Published","dedup":"1h30m","zone":"Europe/Berlin","weights":{"pv":0.5,"uv":2},"score":{"model":"gravity","base":3,"gamma":1.8,"min_views":10,"damping":"log"},"boards":["day","month","all"],"keep":{"day":400,"month":3}},` +
		`{"name":"products","id":"{http.request.uri.query.id}","statuses":[200,304],"content_types":["text/html","application/xhtml+xml"],"published_header":"Hotboard-Published","dedup":"10m","zone":"UTC","weights":{"pv":1,"uv":2},"score":{"model":"halflife","half_life":"1d"},"boards":["hour","day","week","month","all"],"keep":{"day":35,"hour":48,"month":13,"week":10}},` +
		`{"name":"dinner","votes":{"options":["ramen","tacos"],"opens":"2026-11-20T08:30:00Z","closes":"2026-11-27T08:00:00.5Z","require_user":true},"zone":"UTC","weights":{"pv":1,"uv":2},"score":{"model":"count"},"boards":["hour","day","week","month","all"],"keep":{"day":35,"hour":48,"month":13,"week":10}},` +
		`{"name":"robots","statuses":[200,304],"content_types":["text/html","application/xhtml+xml"],"published_header":"Hotboard-Published","dedup":"10m","zone":"UTC","weights":{"pv":1,"uv":2},"score":{"model":"accumulate","base":2,"gamma":1.5},"boards":["hour","day","week","month","all"],"keep":{"day":35,"hour":48,"month":13,"week":10}}],` +
		`"limits":[{"name":"address","by":["ip","item"],"ipv4_prefix":24,"ipv6_prefix":64,"windows":[{"max":10,"per":"10s","burst":10},{"max":5,"per":"minute","burst":2},{"max":7,"per":"minute","calendar":true},{"max":9,"per":"day"}],"when":{"lists":["dinner"],"channels":["letter",""],"devices":["mobile"]},"bonus":{"app":1,"letter":2},"shadow":true},` +
		`{"name":"person","by":["user"],"windows":[{"max":1,"per":"campaign"}]}],` +
		`"bots":{"allow":{"user_agents":["Friend"],"cidrs":["192.0.2.0/24","2001:db8::1/128"]},"count":[{"list":"robots","classes":["ai_crawler"]}]}}`
	allSettingsID = "b8b65fedee41497ca33b135c76d6c4b7"
)

func TestDocument(t *testing.T) {
	t.Parallel()
	r, err := ParseYAML("rules.yaml", []byte(allSettings))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(r.Document()); got != allSettingsDocument {
		t.Errorf("got\n%s\nwant\n%s", got, allSettingsDocument)
	}
	if got := r.ID().String(); got != allSettingsID {
		t.Errorf("name %s, want %s", got, allSettingsID)
	}
	if r.Bots.File != "bots.json" {
		t.Errorf("file %q", r.Bots.File)
	}
	if got := MustCompile(Config{Bots: &Bots{File: "x", Allow: &Clients{}}}).Document(); string(got) != "{}" {
		t.Errorf("%s", got)
	}
	if none := new(Rules); none.Document() != nil || !none.ID().IsZero() {
		t.Errorf("%s of rules that were not compiled", none.Document())
	}
}

func TestParseDocument(t *testing.T) {
	t.Parallel()
	r, err := ParseDocument([]byte(allSettingsDocument))
	if err != nil {
		t.Fatal(err)
	}
	if string(r.Document()) != allSettingsDocument || len(r.Match(nil, "/articles/a")) != 2 || r.ID().String() != allSettingsID {
		t.Errorf("%s is %s", r.ID(), r.Document())
	}
	for _, tc := range []struct{ name, document, want string }{
		{"nothing", ``, "EOF"},
		{"text", `rules`, "invalid character"},
		{"a setting of a newer version", strings.Replace(allSettingsDocument, `"dedup"`, `"colour":"red","dedup"`, 1), `unknown field "colour" (if a newer version of Hotboard wrote it, install that version here)`},
		{"an unknown weight", strings.Replace(allSettingsDocument, `"pv":0.5`, `"pv":0.5,"sv":1`, 1), `unknown field "sv"`},
		{"a model of a newer version", strings.Replace(allSettingsDocument, `"halflife"`, `"fame"`, 1), `lists[1].score.model: "fame" is not one of`},
		{"a missing default", strings.Replace(allSettingsDocument, `"dedup":"10m",`, ``, 1), "means something else to this version"},
		{"another spelling", strings.Replace(allSettingsDocument, `"1h30m"`, `"90m"`, 1), "means something else to this version"},
		{"more after it", allSettingsDocument + "{}", "means something else to this version"},
		{"the path of a file", `{"bots":{"file":"x"}}`, "means something else to this version"},
	} {
		if _, err := ParseDocument([]byte(tc.document)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

// Rules that a broker's message has no room for, or that JSON cannot express, are
// refused when they are compiled, not when somebody needs their document.
func TestRulesWithoutDocument(t *testing.T) {
	t.Parallel()
	options := make([]string, MaxDocumentBytes/190)
	for i := range options {
		options[i] = strings.Repeat("x", 190) + time.Duration(i).String()
	}
	poll := func(v Votes) Config { return Config{Lists: []*ListConfig{{Name: "a", Votes: &v}}} }
	limit := func(l Limit) Config {
		l.Name, l.By, l.Windows = "a", []Dimension{ByChannel}, []Window{{Max: 1, Per: "day"}}
		return Config{Limits: []*Limit{&l}}
	}
	any := []string{"*"}
	for want, c := range map[string]Config{
		"the rules are too large: 5":                                 poll(Votes{Options: options}),
		"lists[0].votes.opens: the year 0 is not between 1 and 9999": poll(Votes{Options: any, Opens: time.Time{}.Add(-time.Hour)}),
		"lists[0].votes.closes: the year 10000 is not between 1 and": poll(Votes{Options: any, Closes: time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -2*3600))}),
		"lists[0].id: ": {Lists: []*ListConfig{{Name: "a", ID: "{\xff}"}}},
		`bots.deny.user_agents[0]: "a\xffb" is not valid UTF-8`:         {Bots: &Bots{Deny: &Clients{UserAgents: []string{"a\xffb"}}}},
		`limits[0].when.channels[0]: "\xff" is not valid UTF-8`:         limit(Limit{When: &When{Channels: []string{"\xff"}}}),
		`limits[0].bonus: "\xff" is not valid UTF-8`:                    limit(Limit{Bonus: map[string]int64{"\xff": 1}}),
		`lists[0].pages[0]: pattern "/\xff/{id}": not valid UTF-8`:      {Lists: []*ListConfig{{Name: "a", Pages: []string{"/\xff/{id}"}}}},
		`lists[0].content_types[0]: "text/\xff" is not a media type`:    {Lists: []*ListConfig{{Name: "a", ContentTypes: []string{"text/\xff"}}}},
		`lists[0].published_header: "X-\xff" is not the name of a head`: {Lists: []*ListConfig{{Name: "a", PublishedHeader: "X-\xff"}}},
	} {
		if _, err := Compile(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A document compiles to rules with the same document, and the order in which maps
// are read does not matter.
func TestDocumentsAreCanonical(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		c := drawConfig(rt)
		written := toJSON(t, c)
		r := MustCompile(c)
		if toJSON(t, c) != written {
			rt.Fatalf("Compile has modified\n%s", written)
		}
		again, err := ParseDocument(r.Document())
		if err != nil || again.ID() != r.ID() || string(again.Document()) != string(r.Document()) {
			rt.Fatalf("%v: %s\nread again:\n%s", err, r.Document(), again.Document())
		}
		if same := MustCompile(c); same.ID() != r.ID() {
			rt.Fatalf("compiled again:\n%s\nwant\n%s", same.Document(), r.Document())
		}
		if d := Diff(r, again); len(d) > 0 {
			rt.Fatalf("differences to itself: %v", d)
		}
	})
}

func FuzzParseDocument(f *testing.F) {
	f.Add([]byte(allSettingsDocument))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, document []byte) {
		r, err := ParseDocument(document)
		if err == nil && string(r.Document()) != string(document) {
			t.Errorf("got\n%s\nwant\n%s", r.Document(), document)
		}
	})
}

// drawConfig draws a valid configuration in which any setting may be missing.
func drawConfig(rt *rapid.T) Config {
	var c Config
	names := []string{"a", "b", "poll"}
	shuffle(rt, names)
	for _, name := range names[:rapid.IntRange(0, len(names)).Draw(rt, "lists")] {
		c.Lists = append(c.Lists, drawList(rt, name))
	}
	limits := []string{"day", "person"}
	shuffle(rt, limits)
	for _, name := range limits[:rapid.IntRange(0, len(limits)).Draw(rt, "limits")] {
		c.Limits = append(c.Limits, drawLimit(rt, name, c.Lists))
	}
	if rapid.Bool().Draw(rt, "bots") {
		c.Bots = &Bots{File: drawOf(rt, "", "x"), Allow: drawClients(rt), Deny: drawClients(rt)}
		for _, l := range c.Lists {
			if len(l.Pages) == 0 && l.ID == "" && l.Votes == nil {
				c.Bots.Count = append(c.Bots.Count, BotCount{List: l.Name, Classes: drawSome(rt, BotClasses, 0)})
			}
		}
	}
	return c
}

func drawList(rt *rapid.T, name string) *ListConfig {
	l := &ListConfig{Name: name, Zone: drawOf(rt, "", "UTC", "Asia/Kolkata"), Dedup: drawOf(rt, 0, Duration(time.Millisecond), Duration(90*time.Minute), Duration(24*time.Hour))}
	if name == "poll" {
		l.Votes = &Votes{Options: drawOf(rt, []string{"*"}, []string{"yes", "<no>, \u2028"}), RequireUser: drawOf(rt, true, false)}
		l.Votes.Opens = drawOf(rt, time.Time{}, time.Date(2026, 11, 20, 9, 0, 0, 1, time.FixedZone("", 3600)))
		l.Votes.Closes = drawOf(rt, time.Time{}, time.Date(2026, 12, 20, 9, 0, 0, 0, time.Local))
	} else {
		l.Pages = drawSome(rt, []string{"/x/{id}", "/y/{a}/{b}"}, 0)
		l.ID = drawOf(rt, "", "{http.request.uri.query.id}")
		l.Statuses = drawSome(rt, []int{200, 304, 404}, 0)
		l.ContentTypes = drawSome(rt, []string{"*", "Text/HTML", "image/png"}, 0)
		l.PublishedHeader = drawOf(rt, "", "x-published")
	}
	if rapid.Bool().Draw(rt, "weights") {
		l.Weights = &Weights{PV: drawOf(rt, 0, 0.1, 1e9), UV: drawOf(rt, 1, 2.5)}
	}
	l.Score = drawOf(rt, Score{}, Score{Model: Count}, Score{Model: Gravity, Base: 0.01, Damping: "log"}, Score{Model: Gravity, Gamma: 1.0 / 3},
		Score{Model: Accumulate, Base: 5}, Score{Model: HalfLife}, Score{Model: HalfLife, HalfLife: Duration(36 * time.Hour)})
	l.Score.MinViews = drawOf[int64](rt, 0, 3)
	l.Boards = drawSome(rt, calendar.Periods, 0)
	for _, p := range []calendar.Period{calendar.Hour, calendar.Day, calendar.Week, calendar.Month} {
		if (l.Boards == nil || slices.Contains(l.Boards, p)) && rapid.Bool().Draw(rt, "keep") {
			if l.Keep == nil {
				l.Keep = map[calendar.Period]int{}
			}
			l.Keep[p] = rapid.IntRange(1, 3).Draw(rt, "kept")
		}
	}
	return l
}

func drawLimit(rt *rapid.T, name string, lists []*ListConfig) *Limit {
	l := &Limit{Name: name, By: drawSome(rt, Dimensions, 1), Shadow: rapid.Bool().Draw(rt, "shadow")}
	if slices.Contains(l.By, ByIP) {
		l.IPv4Prefix, l.IPv6Prefix = drawOf(rt, 0, 32, 24), drawOf(rt, 0, 64, 128)
	}
	l.Windows = drawSome(rt, []Window{{Max: 1, Per: "day"}, {Max: 2, Per: "day"}, {Max: 3, Per: "1.5s"}, {Max: 3, Per: "minute", Burst: 4}, {Max: 4, Per: "minute", Calendar: true}, {Max: 5, Per: "campaign", Calendar: true}}, 1)
	l.Windows = slices.DeleteFunc(l.Windows, func(w Window) bool { return w.Max == 2 && len(l.Windows) > 1 })
	if rapid.Bool().Draw(rt, "when") {
		l.When = &When{Channels: drawSome(rt, []string{"", "letter"}, 0), Devices: drawSome(rt, Devices, 0)}
		for _, list := range lists {
			if rapid.Bool().Draw(rt, "in") {
				l.When.Lists = append(l.When.Lists, list.Name)
			}
		}
	}
	for _, channel := range drawSome(rt, []string{"letter", "app", "é"}, 0) {
		if l.Bonus == nil {
			l.Bonus = map[string]int64{}
		}
		l.Bonus[channel] = rapid.Int64Range(1, 2).Draw(rt, "bonus")
	}
	return l
}

func drawClients(rt *rapid.T) *Clients {
	if rapid.Bool().Draw(rt, "none") {
		return nil
	}
	return &Clients{UserAgents: drawSome(rt, []string{"Friend", "<x> & y"}, 0),
		CIDRs: drawSome(rt, []string{"192.0.2.77/24", "2001:DB8::1", "::ffff:192.0.2.1", "::ffff:10.0.0.0/104", "0.0.0.0/0", "::/0"}, 0)}
}

func drawOf[T any](rt *rapid.T, values ...T) T { return rapid.SampledFrom(values).Draw(rt, "value") }

// drawSome draws at least as many of the values, in any order; nil for none.
func drawSome[T any](rt *rapid.T, values []T, least int) []T {
	values = slices.Clone(values)
	shuffle(rt, values)
	n := rapid.IntRange(least, len(values)).Draw(rt, "count")
	if n == 0 {
		return nil
	}
	return values[:n:n]
}

func shuffle[T any](rt *rapid.T, values []T) {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "order"), 0))
	rng.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
}
