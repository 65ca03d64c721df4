package ruleset

import (
	"fmt"
	"testing"
)

func TestClientsPrefixes(t *testing.T) {
	t.Parallel()
	r := MustCompile(Config{Bots: &Bots{
		Allow: &Clients{CIDRs: []string{"192.0.2.77/24", "198.51.100.7", "2001:db8::1/32", "::1"}},
		Deny:  &Clients{UserAgents: []string{"Spam"}},
	}})
	if got, want := fmt.Sprint(r.Bots.Allow.Prefixes()), "[192.0.2.0/24 198.51.100.7/32 2001:db8::/32 ::1/128]"; got != want {
		t.Errorf("prefixes %s, want %s", got, want)
	}
	if got := r.Bots.Deny.Prefixes(); len(got) != 0 {
		t.Errorf("prefixes %v of none", got)
	}
}

func TestCountBot(t *testing.T) {
	t.Parallel()
	r := MustCompile(Config{
		Lists: []*ListConfig{{Name: "articles", Pages: []string{"/a/{id}"}}, {Name: "ai"}, {Name: "rest"}},
		Bots:  &Bots{Count: []BotCount{{List: "ai", Classes: []string{"ai_crawler", "search_engine"}}, {List: "rest"}}},
	})
	for class, want := range map[string]string{"ai_crawler": "ai", "search_engine": "ai", "monitor": "rest", "other": "rest"} {
		if l := r.CountBot(class); l == nil || l.Name != want {
			t.Errorf("%s is counted on %v, want %s", class, l, want)
		}
	}
	for list, want := range map[string]bool{"articles": false, "ai": true, "rest": true, "": false} {
		if got := r.CountsBots(list); got != want {
			t.Errorf("%q counts bots: %v", list, got)
		}
	}
	r.Bots.Count = r.Bots.Count[:1]
	if l := r.CountBot("monitor"); l != nil {
		t.Errorf("a monitor is counted on %s", l.Name)
	}
	r.Bots = nil
	if r.CountBot("ai_crawler") != nil || r.CountsBots("ai") {
		t.Error("without rules about bots, one is counted")
	}
}

func TestBotsProblems(t *testing.T) {
	t.Parallel()
	c := Config{
		Lists: []*ListConfig{{Name: "articles", Pages: []string{"/a/{id}"}}, {Name: "products", ID: "{http.request.uri.query.id}"},
			{Name: "poll", Votes: &Votes{Options: []string{"*"}}}, {Name: "robots"}},
		Bots: &Bots{
			Allow: &Clients{UserAgents: []string{"Friend", "x"}, CIDRs: []string{"192.0.2.0/24", "192.0.2.0/33"}},
			Deny:  &Clients{UserAgents: []string{""}, CIDRs: []string{"", "fe80::1%eth0", "example.com", "192.0.2"}},
			Count: []BotCount{{}, {List: "articles"}, {List: "products"}, {List: "poll"}, {List: "robots", Classes: []string{"ai_crawler", "robot"}}},
		},
	}
	const noRange = "is not a range of addresses such as 192.0.2.0/24 or 2001:db8::/32"
	const people = "counts people: count bots on a list without pages, id and votes"
	want := `bots.allow.user_agents[1]: "x" matches nearly every User-Agent: use a longer text
bots.allow.cidrs[1]: "192.0.2.0/33" ` + noRange + `
bots.deny.user_agents[0]: "" matches nearly every User-Agent: use a longer text
bots.deny.cidrs[0]: "" ` + noRange + `
bots.deny.cidrs[1]: "fe80::1%eth0" ` + noRange + `
bots.deny.cidrs[2]: "example.com" ` + noRange + `
bots.deny.cidrs[3]: "192.0.2" ` + noRange + `
bots.count[0].list: unknown list ""
bots.count[1].list: list "articles" ` + people + `
bots.count[2].list: list "products" ` + people + `
bots.count[3].list: list "poll" ` + people + `
bots.count[4].classes[1]: "robot" is not one of ai_crawler, search_engine, seo_tool, feed_reader, http_library, monitor, headless_browser, link_preview, crawler, scanner, archiver, empty, denied and other`
	if _, err := Compile(c); err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}
