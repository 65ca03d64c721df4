package importer

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/accesslog"
)

const (
	gptbot    = "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; GPTBot/1.2; +https://openai.com/gptbot"
	googlebot = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
)

// botRules counts crawlers of language models on the list ai. An article is an item
// of two lists.
func botRules(t *testing.T) *ruleset.Rules {
	t.Helper()
	return ruleset.MustCompile(ruleset.Config{
		Lists: []*ruleset.ListConfig{
			{Name: "articles", Pages: []string{"/articles/{id}"}},
			{Name: "pages", Pages: []string{"/{id...}"}},
			{Name: "ai"},
		},
		Bots: &ruleset.Bots{
			Deny:  &ruleset.Clients{CIDRs: []string{"198.51.100.0/24"}},
			Count: []ruleset.BotCount{{List: "ai", Classes: []string{"ai_crawler"}}},
		},
	})
}

// request is a line in combined format; common is one in common format.
func request(ip, path string, status int, ua string) string {
	return fmt.Sprintf("%s \"-\" %q\n", common(ip, path, status), ua)
}

func common(ip, path string, status int) string {
	return fmt.Sprintf("%s - - [17/May/2015:10:05:03 +0000] \"GET %s HTTP/1.1\" %d 1", ip, path, status)
}

func TestBotsCountOnTheirLists(t *testing.T) {
	t.Parallel()
	r := botRules(t)
	f := newFixture(t, r)
	log := []byte(strings.Join([]string{
		request("192.0.2.1", "/articles/a", 200, gptbot),
		request("192.0.2.1", "/articles/b", 404, gptbot),
		request("192.0.2.1", "/about", 200, gptbot),
		request("192.0.2.1", "/articles/a", 200, googlebot), // which no list counts
		request("192.0.2.1", "/articles/a", 200, firefox),
	}, ""))
	s := f.imports(r, log)
	counts := func() string { return fmt.Sprint(f.scores("articles"), f.scores("pages"), f.scores("ai")) }
	const want = "map[a:1] map[articles/a:1] map[a:1 about:1 articles/a:1]"
	if got := counts(); got != want {
		t.Errorf("counted %s, want %s", got, want)
	}
	views := map[string]int{"articles": 1, "pages": 1, "ai": 3}
	reasons := map[ruleset.Reason]int{ruleset.Bot: 7, ruleset.Status: 2} // the status as such, for the list ai
	if !maps.Equal(s.Views, views) || !maps.Equal(s.Reasons, reasons) {
		t.Errorf("summary %+v, want %v and %v", s, views, reasons)
	}
	for _, list := range []string{"ai", "articles", ""} {
		s, err := Import(t.Context(), Options{Conn: f.nc, Rules: r, List: list}, bytes.NewReader(log))
		if err != nil {
			t.Fatal(err)
		}
		if got := counts(); got != want || !s.Already {
			t.Errorf("again, list %q: counted %s, want %s", list, got, want)
		}
	}
}

// A list of bots can be imported by itself, and after the others.
func TestBotsAreImportedLater(t *testing.T) {
	t.Parallel()
	r := botRules(t)
	f := newFixture(t, r)
	log := []byte(request("192.0.2.1", "/articles/a", 200, gptbot) + request("192.0.2.1", "/articles/a", 200, firefox))
	for _, tt := range []struct{ list, want string }{
		{"articles", "map[a:1] map[] map[]"},
		{"ai", "map[a:1] map[] map[a:1 articles/a:1]"},
		{"", "map[a:1] map[articles/a:1] map[a:1 articles/a:1]"},
	} {
		if _, err := Import(t.Context(), Options{Conn: f.nc, Rules: r, List: tt.list}, bytes.NewReader(log)); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(f.scores("articles"), f.scores("pages"), f.scores("ai")); got != tt.want {
			t.Errorf("list %q: counted %s, want %s", tt.list, got, tt.want)
		}
	}
}

// An import judges a line as an edge judges the request: a bot that prefetches a page
// or asks for an image is a bot first.
func TestLinesAreJudgedAsRequests(t *testing.T) {
	t.Parallel()
	r := botRules(t)
	j, err := newJudge(Options{Rules: r}, [32]byte{})
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range []map[string][]string{
		{"Sec-Fetch-Dest": {"document"}}, {"Sec-Fetch-Dest": {"image"}}, {"Sec-Purpose": {"prefetch"}}, {"Accept": {"*/*"}},
	} {
		e := accesslog.Entry{Time: time.Unix(1, 0), IP: netip.MustParseAddr("192.0.2.1"), Method: "GET", Path: "/articles/a", Status: 200, KnowsUserAgent: true, Header: header}
		for ua, want := range map[string]ruleset.Reason{googlebot: ruleset.Bot, firefox: r.Judge(ruleset.Request{Method: "GET", Header: header}).Against} {
			clear(j.summary.Reasons)
			e.UserAgent = ua
			hits := len(j.views(1, &e))
			if got := j.summary.Reasons[want]; want != "" && (got != 2 || hits != 0) || want == "" && hits != 2 {
				t.Errorf("%v of %.30q: %d hits, %v, want %q", header, ua, hits, j.summary.Reasons, want)
			}
		}
	}
}

// Two imports publish the same batches for a list and shard in the same order, even
// if several lists of pages share it and all lines of a batch match each of them.
func TestBatchesDependOnTheLogAlone(t *testing.T) {
	t.Parallel()
	r := botRules(t)
	log := bytes.ReplaceAll(accessLog(2*linesPerBatch+5), []byte(firefox), []byte(gptbot))
	published := func() map[string][]string {
		f := newFixture(t, r)
		f.imports(r, log)
		if n := sum(f.scores("ai")); n != 2*(2*linesPerBatch+5) {
			t.Errorf("%d views by bots are counted, want %d", n, 2*(2*linesPerBatch+5))
		}
		stream, err := f.server.JetStream().Stream(t.Context(), hit.Stream)
		if err != nil {
			t.Fatal(err)
		}
		lanes := map[string][]string{}
		for seq := range stream.CachedInfo().State.LastSeq {
			msg, err := stream.GetMsg(t.Context(), seq+1)
			if err != nil {
				t.Fatal(err)
			}
			if msg.Header.Get(hit.HeaderRevision) != "" {
				continue
			}
			b, err := hit.Decode(msg.Data)
			if err != nil {
				t.Fatal(err)
			}
			if len(b.Hits) > 0 {
				lane := fmt.Sprint(b.Hits[0].List, b.Shard)
				lanes[lane] = append(lanes[lane], msg.Subject+string(msg.Data))
			}
		}
		return lanes
	}
	first, second := published(), published()
	if len(first) != testShards || !maps.EqualFunc(first, second, slices.Equal) {
		t.Errorf("two imports of one log published different batches, in %d and %d lanes", len(first), len(second))
	}
}

func TestLogWithoutUserAgents(t *testing.T) {
	t.Parallel()
	r := botRules(t)
	log := strings.Join([]string{
		common("192.0.2.1", "/nothing", 404),
		common("192.0.2.1", "/articles/a", 200),
		common("192.0.2.2", "/articles/a", 200),
		common("198.51.100.7", "/articles/b", 200), // denied by its address
		request("192.0.2.3", "/articles/c", 200, googlebot),
	}, "\n")
	f := newFixture(t, r)
	for _, list := range []string{"", "articles", "ai"} {
		_, err := Import(t.Context(), Options{Conn: f.nc, Rules: r, List: list}, strings.NewReader(log))
		if !errors.Is(err, ErrNoUserAgents) || !strings.Contains(err.Error(), "2 requests for pages (the first is on line 2)") {
			t.Errorf("list %q: %v, want ErrNoUserAgents", list, err)
		}
	}
	if got := f.scores("articles"); len(got) != 0 {
		t.Errorf("a log that was refused counted %v", got)
	}
	s, err := Import(t.Context(), Options{Conn: f.nc, Rules: r, WithoutBotsCheck: true}, strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(f.scores("articles")); got != "map[a:2]" {
		t.Errorf("counted %v", got)
	}
	var text strings.Builder
	s.Write(&text)
	if want := "User-Agents of 2 requests: bots among them count as readers"; !strings.Contains(text.String(), want) {
		t.Errorf("%q is not in\n%s", want, &text)
	}
	// Lines that never count are harmless.
	f.imports(r, []byte(common("192.0.2.1", "/nothing", 404)+"\n"+request("192.0.2.1", "/articles/d", 200, firefox)))
	if got := fmt.Sprint(f.scores("articles")); got != "map[a:2 d:1]" {
		t.Errorf("counted %v", got)
	}
}

func TestUnreadableLogIsRefused(t *testing.T) {
	t.Parallel()
	r := rules(t)
	f := newFixture(t, r)
	good := request("192.0.2.1", "/articles/a", 200, firefox)
	const bad = "no log line\n"
	const started = `{"level":"info","ts":1,"logger":"admin","msg":"started"}` + "\n"
	for _, tt := range []struct {
		name, log string
		refused   bool
	}{
		{"prose", strings.Repeat(bad, 9), true},
		{"more than half", good + "\n\n" + bad + bad, true},
		{"another log of Caddy's", started, true},
		{"half", good + bad, false},
		{"all of Caddy's logs in one file", good + strings.Repeat(started, 9), false},
		{"empty lines", "\n\n\n", false},
	} {
		before := sum(f.scores("articles"))
		_, err := Import(t.Context(), Options{Conn: f.nc, Rules: r}, strings.NewReader(tt.log))
		if errors.Is(err, ErrUnreadable) != tt.refused || !tt.refused && err != nil {
			t.Errorf("%s: %v, refused should be %v", tt.name, err, tt.refused)
		}
		if tt.refused && sum(f.scores("articles")) != before {
			t.Errorf("%s: a log that was refused is counted", tt.name)
		}
		if tt.name == "prose" && !(strings.Contains(fmt.Sprint(err), "9 of 9 lines") && strings.Contains(fmt.Sprint(err), "line 1:") && strings.Contains(fmt.Sprint(err), "… and 4 more")) {
			t.Errorf("%s: %v does not report the lines", tt.name, err)
		}
	}
}
