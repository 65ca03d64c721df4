package bots_test

import (
	"fmt"
	"net/netip"

	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/bots"
)

// The built-in rules recognise bots by their User-Agent.
func ExampleClassifier_Classify() {
	classifier := bots.New(nil, 1000)
	for _, userAgent := range []string{
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1",
		"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
		"curl/8.5.0",
		"",
	} {
		v := classifier.Classify(userAgent, netip.Addr{})
		fmt.Printf("bot=%t class=%q reason=%q device=%s\n", v.Bot, v.Class, v.Reason, v.Device)
	}
	// Output:
	// bot=false class="" reason="" device=mobile
	// bot=true class="search_engine" reason="token Googlebot" device=other
	// bot=true class="http_library" reason="token curl" device=other
	// bot=true class="empty" reason="no_user_agent" device=other
}

// Allow takes precedence over deny, and deny over every other rule.
func ExampleNew() {
	rules, err := ruleset.ParseYAML("rules.yaml", []byte(`
lists:
  - name: articles
    pages: ["/articles/{id}"]
bots:
  allow: {user_agents: [ExampleMonitor]}
  deny: {cidrs: [192.0.2.0/24]}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	classifier := bots.New(rules.Bots, 1000)
	office, scraper := netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("192.0.2.9")
	const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	fmt.Println(classifier.Classify("ExampleMonitor/1.0", scraper).Reason)
	fmt.Println(classifier.Classify(firefox, scraper).Reason)
	fmt.Println(classifier.Classify(firefox, office).Bot)
	// Output:
	// allow user_agent
	// deny cidr
	// false
}

// A file of patterns adds bots, with a class of their own.
func ExampleParsePatterns() {
	patterns, err := bots.ParsePatterns("bots.json", []byte(`[{"pattern": "ExampleCorp-Checker", "tags": ["monitor"]}]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	classifier := bots.New(nil, 1000)
	classifier.SetPatterns(patterns)
	v := classifier.Classify("Mozilla/5.0 (X11; Linux x86_64) ExampleCorp-Checker/2", netip.Addr{})
	fmt.Println(v.Class, "by", v.Reason)
	// Output: monitor by pattern ExampleCorp-Checker
}
