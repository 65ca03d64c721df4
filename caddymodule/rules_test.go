package caddymodule

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/internal/revisions"
	"github.com/hotboard/hotboard/ruleset"
)

// follower is the Caddyfile of an edge without rules.
func follower(broker, global string, options ...string) string {
	return `{
	hotboard {
		dir DIR
		` + broker + `
		` + global + `
	}
}
http:// {
	bind unix/SOCKET
	hotboard {
		` + strings.Join(options, "\n\t\t") + `
	}
	test_origin
}`
}

// listRules are rules with a list of each name, whose pages are /<list>/<item>.
func listRules(t testing.TB, more string, lists ...string) *ruleset.Rules {
	t.Helper()
	var text strings.Builder
	text.WriteString("lists:\n")
	for _, l := range lists {
		fmt.Fprintf(&text, "  - {name: %s, pages: [\"/%s/{id}\"]}\n", l, l)
	}
	r, err := ruleset.ParseYAML("rules.yaml", []byte(text.String()+more))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// book is the history of the rules, as another process sees it.
func (l *natsLog) book() *revisions.Book {
	return revisions.New(func() *nats.Conn { return l.conn }, 0)
}

// decide puts rules in force like an aggregator that was reloaded with them.
func (l *natsLog) decide(t testing.TB, rules *ruleset.Rules) {
	t.Helper()
	b := l.book()
	current, _ := b.Current(t.Context()) // fails before there is any
	if now, ok, err := b.Propose(t.Context(), rules, revisions.Source{Authority: revisions.Aggregator}, current.Number); err != nil || !ok {
		t.Fatalf("%s, %v, %v", now, ok, err)
	}
}

// batches returns the rules of each item in the log.
func (l *natsLog) rulesOf(t testing.TB) func(item string) hit.RulesID {
	t.Helper()
	items := make(chan *hit.Batch, 1024)
	l.subscribe(t, hit.SubjectHits+".>", func(m *nats.Msg) {
		for _, b := range batchesOf(t, m) {
			items <- b
		}
	})
	known := make(map[string]hit.RulesID)
	return func(item string) hit.RulesID {
		t.Helper()
		for known[item].IsZero() {
			select {
			case b := <-items:
				for _, h := range b.Hits {
					known[h.Item] = b.Rules
				}
			case <-time.After(patience):
				t.Fatalf("no hit of %s arrives in the log", item)
			}
		}
		return known[item]
	}
}

// soon makes differences of rules a fault at once, until the test ends.
func soon(t testing.TB) {
	t.Helper()
	was := differsAfter
	differsAfter = time.Millisecond
	t.Cleanup(func() { differsAfter = was })
}

func (l *live) waitForFault(kind faults.Kind, text string) {
	l.t.Helper()
	settle(l.t, fmt.Sprintf("the fault %s, %q", kind, text), func() bool { return l.hasFault(kind, text) })
}

func (l *live) waitForNoFault(kind faults.Kind) {
	l.t.Helper()
	settle(l.t, fmt.Sprintf("the end of the fault %s", kind), func() bool { return !l.hasFault(kind, "") })
}

func (l *live) hasFault(kind faults.Kind, text string) bool {
	return slices.ContainsFunc(l.edge().app.rt.Load().faults.Active(), func(f faults.Fault) bool {
		return f.Kind == kind && strings.Contains(f.Message, text)
	})
}

// waitForRules waits until the edge accepts hits under rules.
func (l *live) waitForRules(r *ruleset.Rules) {
	l.t.Helper()
	settle(l.t, "rules to be in force", func() bool { return l.edge().rules().ID() == r.ID() })
}

func (l *live) get(path string, header ...string) (reason string) {
	l.t.Helper()
	resp, body, err := l.send(browse(path, header...))
	if err != nil || resp.StatusCode != http.StatusOK || body != "page" {
		l.t.Fatalf("%s: %v %q %v", path, resp, body, err)
	}
	reason, _, _ = strings.Cut(resp.Header.Get(verdictHeader), ";")
	return reason
}

func TestFollow(t *testing.T) {
	soon(t)
	stopClock(t)
	log := startLog(t, 1)
	rulesOf := log.rulesOf(t)
	c := runCaddy(t, follower(natsBroker(log.url), "", "debug_header"))
	app := c.edge().app

	if got := c.get("/news/none"); got != "" {
		t.Errorf("without rules, a page is %s", got)
	}
	for path, body := range map[string]string{"/api/views": `{"articleId":"a"}`, "/api/votes": `{"option":"a"}`} {
		resp, answer, err := c.send(fetch(http.MethodPost, path, body))
		if err != nil || resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
			t.Errorf("without rules, %s: %v %q %v", path, resp, answer, err)
		}
	}
	c.waitForFault(faults.RulesUnknown, "nothing is counted")

	const limit = `
limits:
  - {name: few, by: [ip], windows: [{max: 3, per: day}]}
`
	one := listRules(t, limit, "news")
	log.decide(t, one)
	c.waitForRules(one)
	c.waitForNoFault(faults.RulesUnknown)
	for i := range 2 {
		if got := c.get(fmt.Sprintf("/news/%d", i)); got != "counted" {
			t.Errorf("view %d is %s", i, got)
		}
	}
	// What a browser fetches ahead is judged by the rules of the time when it is shown.
	for _, path := range []string{"/news/kept", "/news/ahead"} {
		if got := c.get(path, "Sec-Purpose", "prefetch"); got != "speculative" {
			t.Errorf("%s is %s", path, got)
		}
	}

	two := listRules(t, strings.Replace(limit, "few", "few", 1), "guides", "news")
	log.decide(t, two)
	c.waitForRules(two)
	if c.edge().app != app {
		t.Error("the configuration was loaded again")
	}
	if resp, body, err := c.send(fetch(http.MethodPost, "/api/views", `{"page":"/news/kept"}`)); err != nil || resp.StatusCode != http.StatusAccepted || !strings.Contains(body, `"accepted":1`) {
		t.Errorf("what was shown later: %v %q %v", resp, body, err)
	}
	if got := c.get("/guides/new"); got != "counted" {
		t.Errorf("a view on the new list is %s", got)
	}
	if got := c.get("/news/limited"); got != "limited:few" {
		t.Errorf("the fourth view is %s: the change of the rules took the counts of the limit", got)
	}
	for item, want := range map[string]*ruleset.Rules{"0": one, "1": one, "kept": two, "new": two} {
		if got := rulesOf(item); got != want.ID() {
			t.Errorf("%s has the rules %s, want %s", item, got.Short(), want.ID().Short())
		}
	}

	three := listRules(t, "", "guides")
	log.decide(t, three)
	c.waitForRules(three)
	if resp, body, err := c.send(fetch(http.MethodPost, "/api/views", `{"page":"/news/ahead"}`)); err != nil || strings.Contains(body, `"accepted":1`) {
		t.Errorf("a view on a list that is gone: %v %q %v", resp, body, err)
	}

	t.Run("after a reload", func(t *testing.T) {
		if err := c.load(follower(natsBroker(log.url), "", "debug_header", "prefix /stats")); err != nil {
			t.Fatal(err)
		}
		if got := c.get("/guides/again"); got != "counted" {
			t.Errorf("a view right after a reload is %s", got)
		}
	})
}

func TestFollowWhileTheBrokerIsAway(t *testing.T) {
	soon(t)
	log := startLog(t, 1)
	rules := listRules(t, "", "kept")
	log.decide(t, rules)
	data := t.TempDir()
	config := strings.Replace(follower(natsBroker(log.url), "", "debug_header"), "DIR", data, 1)
	file := filepath.Join(data, rulesFile)
	t.Run("with the broker", func(t *testing.T) {
		c := runCaddy(t, config)
		c.waitForRules(rules)
		settle(t, "the rules on disk", func() bool {
			doc, err := os.ReadFile(file)
			return err == nil && string(doc) == string(rules.Document())
		})
	})
	log.server.Shutdown()
	log.server.WaitForShutdown()
	t.Run("without", func(t *testing.T) {
		c := runCaddy(t, config)
		if got := c.get("/kept/page"); got != "counted" {
			t.Errorf("the first view is %s", got)
		}
		if resp, body, err := c.send(fetch(http.MethodPost, "/api/views", `{"articleId":"a"}`)); err != nil || resp.StatusCode != http.StatusAccepted {
			t.Errorf("a beacon: %v %q %v", resp, body, err)
		}
		if c.hasFault(faults.RulesUnknown, "") {
			t.Error("the rules count as unknown")
		}
	})
	t.Run("without the file too", func(t *testing.T) {
		if err := os.WriteFile(file, []byte(`{"lists":[{"name":"ke`), 0o600); err != nil {
			t.Fatal(err)
		}
		c := runCaddy(t, config)
		if got := c.get("/kept/page"); got != "" {
			t.Errorf("a view is %s", got)
		}
		c.waitForFault(faults.RulesUnknown, "nothing is counted")
	})
}

func TestFollowedListsOfASite(t *testing.T) {
	log := startLog(t, 1)
	log.decide(t, listRules(t, "", "here"))
	c := runCaddy(t, follower(natsBroker(log.url), "", "lists here there", "debug_header"))
	c.waitForFault(faults.ListUnknown, "[there]")
	if got := c.get("/here/page"); got != "counted" {
		t.Errorf("a view is %s", got)
	}
	if got := c.get("/there/page"); got != "" {
		t.Errorf("a view on an unknown list is %s", got)
	}
	log.decide(t, listRules(t, "", "here", "there", "elsewhere"))
	c.waitForNoFault(faults.ListUnknown)
	for path, want := range map[string]string{"/there/page": "counted", "/elsewhere/page": ""} {
		if got := c.get(path); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
}

func TestFollowWithAFileOfBots(t *testing.T) {
	log := startLog(t, 1)
	file := filepath.Join(t.TempDir(), "bots.json")
	if err := os.WriteFile(file, []byte(`[{"pattern": "Firefox"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	rules := listRules(t, "", "bots")
	log.decide(t, rules)
	c := runCaddy(t, follower(natsBroker(log.url), "bots {\n file "+file+"\n }", "debug_header"))
	for _, r := range []*ruleset.Rules{rules, listRules(t, "", "bots", "more")} {
		log.decide(t, r)
		c.waitForRules(r)
		if got := c.get("/bots/page"); got != "bot" {
			t.Errorf("a client in the file is %s", got)
		}
	}
}

func TestProposals(t *testing.T) {
	soon(t)
	log := startLog(t, 1)
	rulesOf := log.rulesOf(t)
	book := log.book()
	current := func(number uint64, list string) {
		t.Helper()
		settle(t, fmt.Sprintf("revision %d, with %s", number, list), func() bool {
			now, err := book.Current(t.Context())
			if err != nil || now.Number != number {
				return false
			}
			r, err := book.Rules(t.Context(), now.Rules)
			return err == nil && r.List(list) != nil && now.Authority == revisions.Caddyfile
		})
	}
	data := t.TempDir()
	config := func(list string) string {
		return strings.Replace(liveSite(list, natsBroker(log.url), "debug_header"), "DIR", data, 1)
	}
	t.Run("reloads", func(t *testing.T) {
		c := runCaddy(t, config("old"))
		current(1, "old")
		if err := c.load(config("new")); err != nil {
			t.Fatal(err)
		}
		current(2, "new")
		if err := c.load(config("old")); err != nil {
			t.Fatal(err)
		}
		current(3, "old") // somebody wants the old rules back
	})
	t.Run("a restart with an old Caddyfile", func(t *testing.T) {
		c := runCaddy(t, config("new"))
		c.waitForFault(faults.RulesDiffer, "the Caddyfile")
		current(3, "old")
		if got := c.get("/new/stale"); got != "counted" {
			t.Errorf("a view is %s", got)
		}
		if got, want := rulesOf("stale"), c.edge().rules().ID(); got != want {
			t.Errorf("its batch names %s, want %s", got.Short(), want.Short())
		}
		if err := c.load(config("old")); err != nil {
			t.Fatal(err)
		}
		c.waitForNoFault(faults.RulesDiffer)
		current(3, "old")
	})
	t.Run("a change to following", func(t *testing.T) {
		c := runCaddy(t, config("new"))
		c.waitForFault(faults.RulesDiffer, "the Caddyfile")
		if err := c.load(strings.Replace(follower(natsBroker(log.url), "", "debug_header"), "DIR", data, 1)); err != nil {
			t.Fatal(err)
		}
		c.waitForNoFault(faults.RulesDiffer)
		if got := c.get("/old/page"); got != "counted" {
			t.Errorf("a view is %s", got)
		}
		current(3, "old")
	})
	t.Run("another authority", func(t *testing.T) {
		now, err := book.Current(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		now.Authority = revisions.Aggregator
		if _, err := book.Add(t.Context(), now, now.Number); err != nil {
			t.Fatal(err)
		}
		c := runCaddy(t, config("newest"))
		c.waitForFault(faults.RulesDiffer, "the Caddyfile")
		if now, err := book.Current(t.Context()); err != nil || now.Number != 4 {
			t.Errorf("%s, %v", now, err)
		}
	})
}

// While two configurations overlap, the new one may still fail to start, so it
// proposes nothing.
func TestReloadThatFailsProposesNothing(t *testing.T) {
	log := startLog(t, 1)
	dir := t.TempDir()
	start := func(list string) *edge {
		t.Helper()
		e, err := provisionEdge(t, strings.NewReplacer("DIR", dir, "NATS", natsBroker(log.url)).Replace(site(list)))
		if err != nil {
			t.Fatal(err)
		}
		if err := e.app.Start(); err != nil {
			t.Fatal(err)
		}
		return e
	}
	has := func(number uint64, list string) {
		t.Helper()
		now, err := log.book().Current(t.Context())
		if err != nil || now.Number != number || now.Rules != listRules(t, "", list).ID() {
			t.Errorf("%s, %v; want number %d, with %s", now, err, number, list)
		}
	}
	old := start("old")
	keeper := old.app.rt.Load().rules.keeper
	settle(t, "the first revision", func() bool { now, _ := keeper.Current(); return now.Number == 1 })
	for _, fails := range []bool{true, false} {
		e := start("new")
		keeper.Look(t.Context())
		has(1, "old")
		if !fails {
			e = old
		}
		if err := e.app.Cleanup(); err != nil {
			t.Fatal(err)
		}
		keeper.Look(t.Context())
	}
	has(2, "new")
}

// Another broker has an installation of its own: the rules of the one before do not
// get there.
func TestAnotherBroker(t *testing.T) {
	first, second := startLog(t, 1), startLog(t, 1)
	c := runCaddy(t, liveSite("moved", natsBroker(first.url)))
	settle(t, "a revision", func() bool { _, err := first.book().Current(t.Context()); return err == nil })
	rules := listRules(t, "", "elsewhere")
	second.decide(t, rules)
	if err := c.load(follower(natsBroker(second.url), "", "debug_header")); err != nil {
		t.Fatal(err)
	}
	c.waitForRules(rules)
	if now, err := second.book().Current(t.Context()); err != nil || now.Rules != rules.ID() {
		t.Errorf("%s, %v", now, err)
	}
}
