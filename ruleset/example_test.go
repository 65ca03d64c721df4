package ruleset_test

import (
	"fmt"
	"net/http"

	"github.com/hotboard/hotboard/ruleset"
)

// A page view is decided in three steps: which items the path names, whether the
// request asks for a page, and whether the response is one.
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
	request := http.Header{"Sec-Fetch-Dest": {"document"}}
	response := http.Header{"Content-Type": {"text/html; charset=utf-8"}}
	for _, target := range rules.Match(nil, "/blog/2026/rust-in-caddy/") {
		reason := ruleset.CheckRequest(http.MethodGet, request)
		if reason == "" {
			reason = target.List.CheckResponse(http.StatusOK, response)
		}
		fmt.Printf("%s %s %q\n", target.List.Name, target.Item, reason)
	}
	// Output: articles 2026/rust-in-caddy ""
}

// A file with mistakes is refused whole, and each mistake is named.
func ExampleParseYAML_problems() {
	_, err := ruleset.ParseYAML("rules.yaml", []byte("lists:\n  - name: articles\n    dedup: 48h\n    zone: Mars\n"))
	fmt.Println(err)
	// Output:
	// rules.yaml:3:12: lists[0].dedup: 2d is not between 1ms and 24h
	// rules.yaml:4:11: lists[0].zone: "Mars" is not an IANA time zone such as UTC or Europe/Berlin
}
