package ruleset_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/hotboard/hotboard/ruleset"
)

// An edge decides about a page view in three steps: the path names the item, the
// request asks for a page, and the response is a page.
func Example() {
	rules, err := ruleset.ParseYAML("rules.yaml", []byte(`
lists:
  - name: articles
    pages: ["/blog/{year}/{slug}"]
    dedup: 1h
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	request := ruleset.Request{Method: http.MethodGet, Header: http.Header{"Sec-Fetch-Dest": {"document"}}}
	response := http.Header{"Content-Type": {"text/html; charset=utf-8"}}
	judgment := rules.Judge(request)
	for _, target := range rules.Match(nil, "/blog/2026/rust-in-caddy/") {
		outcome := judgment.Outcome(&target, http.StatusOK, response)
		fmt.Printf("%s %s %q\n", target.List.Name, target.Item, outcome)
	}
	// Output: articles 2026/rust-in-caddy ""
}

// ParseYAML refuses a file with mistakes, and reports each of them with its line
// and column.
func ExampleParseYAML_problems() {
	_, err := ruleset.ParseYAML("rules.yaml", []byte("lists:\n  - name: articles\n    dedup: 48h\n    zone: Mars\n"))
	fmt.Println(err)
	// Output:
	// rules.yaml:3:12: lists[0].dedup: 2d is not between 1ms and 24h
	// rules.yaml:4:11: lists[0].zone: "Mars" is not an IANA time zone such as UTC or Europe/Berlin
}

// A request can be a view in several lists. A part of a segment and the rest of
// a path can name the item, too.
func ExampleRules_Match() {
	rules, err := ruleset.ParseYAML("rules.yaml", []byte(`
lists:
  - name: news
    pages: ["/news/{id}.html"]
  - name: docs
    pages: ["/docs/{path...}"]
  - name: everything
    pages: ["/{path...}"]
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, path := range []string{"/news/42.html", "/docs/install/linux", "/about"} {
		for _, target := range rules.Match(nil, path) {
			fmt.Printf("%s: %s of %s\n", path, target.Item, target.List.Name)
		}
	}
	// Output:
	// /news/42.html: 42 of news
	// /news/42.html: news/42.html of everything
	// /docs/install/linux: install/linux of docs
	// /docs/install/linux: docs/install/linux of everything
	// /about: about of everything
}

// Judge names the reason why a request cannot be a view by a person. Bots can count
// on a list of their own.
func ExampleRules_Judge() {
	rules, err := ruleset.ParseYAML("rules.yaml", []byte(`
lists:
  - name: articles
    pages: ["/blog/{year}/{slug}"]
  - name: crawlers
bots:
  count: [{list: crawlers, classes: [ai_crawler]}]
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	page := http.Header{"Sec-Fetch-Dest": {"document"}}
	prefetch := http.Header{"Sec-Fetch-Dest": {"document"}, "Sec-Purpose": {"prefetch"}}
	image := http.Header{"Sec-Fetch-Dest": {"image"}}
	reason := func(q ruleset.Request) ruleset.Reason { return rules.Judge(q).Against }
	fmt.Printf("page:     %q\n", reason(ruleset.Request{Method: http.MethodGet, Header: page}))
	fmt.Printf("HEAD:     %q\n", reason(ruleset.Request{Method: http.MethodHead, Header: page}))
	fmt.Printf("prefetch: %q\n", reason(ruleset.Request{Method: http.MethodGet, Header: prefetch}))
	fmt.Printf("image:    %q\n", reason(ruleset.Request{Method: http.MethodGet, Header: image}))
	crawler := rules.Judge(ruleset.Request{Method: http.MethodGet, BotClass: "ai_crawler"})
	fmt.Printf("crawler:  %q, counted on %s\n", crawler.Against, crawler.Bots.Name)
	// Output:
	// page:     ""
	// HEAD:     "method"
	// prefetch: "speculative"
	// image:    "not_document"
	// crawler:  "bot", counted on crawlers
}

// Rules have a canonical document, however they are written. Its name changes with
// every setting, and Diff explains what a change does.
func ExampleDiff() {
	const was = "lists: [{name: articles, pages: [\"/articles/{id}\"], score: {model: halflife, half_life: 1d}}]"
	same := strings.Replace(was, "1d", "24h", 1)
	is := strings.Replace(was, "half_life: 1d", "half_life: 12h, min_views: 5", 1)
	var rules [3]*ruleset.Rules
	for i, text := range []string{was, same, is} {
		var err error
		if rules[i], err = ruleset.ParseYAML("rules.yaml", []byte(text)); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(rules[0].ID() == rules[1].ID(), rules[0].ID() == rules[2].ID())
	for _, c := range ruleset.Diff(rules[0], rules[2]) {
		fmt.Printf("%s\n  %s\n", c, c.Effect)
	}
	// Output:
	// true false
	// lists.articles.score.half_life: 1d → 12h
	//   the live list is rebuilt from the kept hour and day boards; counts stay
	// lists.articles.score.min_views: 0 → 5
	//   the live list changes at once; counts stay
}

// A poll accepts votes for its options while it is open.
func ExampleList_CheckVote() {
	rules, err := ruleset.ParseYAML("rules.yaml", []byte(`
lists:
  - name: dinner
    votes:
      options: [ramen, tacos]
      closes: 2026-11-27T09:00:00+01:00
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	dinner := rules.List("dinner")
	closes := time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)
	fmt.Printf("%q\n", dinner.CheckVote("ramen", closes.Add(-time.Second)))
	fmt.Printf("%q\n", dinner.CheckVote("pizza", closes.Add(-time.Second)))
	fmt.Printf("%q\n", dinner.CheckVote("ramen", closes))
	// Output:
	// ""
	// "unknown_item"
	// "closed"
}

// A bonus adds room for the hits of one channel to every window of a limit.
func ExampleLimit_Max() {
	rules, err := ruleset.ParseYAML("rules.yaml", []byte(`
lists:
  - name: dinner
    votes: {options: [ramen, tacos]}
limits:
  - name: person
    by: [user]
    windows: [{max: 1, per: day}]
    bonus: {newsletter: 2}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	person := rules.Limit("person")
	day := &person.Windows[0]
	fmt.Println("newsletter:", person.Max(day, "newsletter"))
	fmt.Println("others:", person.Max(day, ""))
	fmt.Println("reason:", person.Reason())
	// Output:
	// newsletter: 3
	// others: 1
	// reason: limited:person
}

// Durations have units, including days and weeks. A bare number is an error.
func ExampleParseDuration() {
	d, err := ruleset.ParseDuration("1w2d")
	fmt.Println(d, err)
	_, err = ruleset.ParseDuration("10")
	fmt.Println(err != nil)
	// Output:
	// 9d <nil>
	// true
}

// Two addresses of one IPv6 /64 are one visitor. With the secret of another day,
// the same client is another visitor.
func ExampleVisitor() {
	monday, tuesday := []byte("0123456789abcdef"), []byte("fedcba9876543210")
	const browser = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	laptop, phone := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	fmt.Println(ruleset.Visitor(monday, laptop, browser) == ruleset.Visitor(monday, phone, browser))
	fmt.Println(ruleset.Visitor(monday, laptop, browser) == ruleset.Visitor(tuesday, laptop, browser))
	// Output:
	// true
	// false
}
