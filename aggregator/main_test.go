package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hotboard/hotboard/aggregator/board"
	"github.com/hotboard/hotboard/aggregator/embedded"
	"github.com/hotboard/hotboard/e2e/services"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/brokertest"
	"github.com/hotboard/hotboard/internal/revisions"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// command runs a command and returns its exit status and output.
func command(t *testing.T, stdin string, args ...string) (status int, out, errors string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status = run(t.Context(), args, terminal{strings.NewReader(stdin), &stdout, &stderr})
	return status, stdout.String(), stderr.String()
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const articles = `lists: [{name: articles, pages: ["/articles/{id}"]}]`

func TestArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"help", 0, "Usage:"},
		{"-help", 0, "Usage:"},
		{"--help", 0, "Usage:"},
		{"check -help", 0, "-rules"},
		{"import -h", 0, "-data"},
		{"version", 0, "hotboard "},
		{"version now", 2, "unexpected argument"},
		{"nonsense", 2, `unknown command "nonsense"`},
		{"-nonsense", 2, "-nonsense"},
		{"serve more", 2, "unexpected argument"},
		{"import", 2, "which log?"},
		{"replay", 2, "which file?"},
		{"replay -h", 0, "may count twice"},
		{"-config /nonexistent/a.yaml", 1, "/nonexistent/a.yaml"},
		{"check -config /nonexistent/a.yaml", 1, "/nonexistent/a.yaml"},
		{"import -config /nonexistent/a.yaml x", 1, "/nonexistent/a.yaml"},
		{"import -data /nonexistent x", 1, "no directory /nonexistent"},
		{"import -data . -rules /nonexistent/r.yaml x", 1, "/nonexistent/r.yaml"},
	} {
		status, out, errs := command(t, "", strings.Fields(c.args)...)
		if status != c.status || !strings.Contains(out+errs, c.want) {
			t.Errorf("aggregator %s: %d\n%s%s", c.args, status, out, errs)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rules := write(t, dir, "rules.yaml", articles)
	good := write(t, dir, "good.yaml", "sqlite: {path: x}\nrules_file: rules.yaml\n")
	bad := write(t, dir, "bad.yaml", "sqlite: {path: x}\nrules:\n  lists:\n    - name: A B\n      typo: 1\n")
	for _, args := range [][]string{{"check", "-rules", rules}, {"check", "-config", good}} {
		if status, out, errs := command(t, "", args...); status != 0 || !strings.Contains(out, "is good") || !strings.Contains(out, "/articles/{id}") {
			t.Errorf("%v: %d\n%s%s", args, status, out, errs)
		}
	}
	full := write(t, dir, "full.yaml", `
lists:
  - {name: articles, pages: ["/articles/{id}"]}
  - {name: products, id: "{http.request.uri.query.id}"}
  - {name: poll, votes: {options: [yes-sir, no-sir], closes: 2026-11-27T09:00:00Z, require_user: true}}
  - {name: wishes, votes: {options: ["*"], opens: 2026-11-20T09:00:00Z}}
  - {name: robots}
  - {name: news}
limits:
  - {name: person, by: [user], windows: [{max: 1, per: day}, {max: 3, per: campaign}]}
  - {name: address, by: [ip, item], shadow: true, windows: [{max: 5, per: 10s}]}
bots:
  file: bots.json
  deny: {user_agents: [Spam], cidrs: [192.0.2.0/24]}
  count: [{list: robots}]
`)
	if status, _, errs := command(t, "", "check", "-rules", full); status != 1 || !strings.Contains(errs, filepath.Join(dir, "bots.json")) {
		t.Errorf("without the file of bots: %d\n%s", status, errs)
	}
	write(t, dir, "bots.json", `[{"pattern": "ExampleCrawler"}, {"pattern": "Another[0-9]"}]`)
	want := full + ` is good: 6 lists (2 of votes), 2 limits, 2 patterns of bots.
  list  articles             gravity    /articles/{id}
  list  products             gravity    {http.request.uri.query.id}
  list  poll                 count      votes for 2 options, until 2026-11-27T09:00:00Z, of users
  list  wishes               count      votes for any option, from 2026-11-20T09:00:00Z
  list  robots               gravity    (bots)
  list  news                 gravity    (beacons only)
  limit person               1 per day, 3 per campaign by user
  limit address              5 per 10s by ip item (shadow: refuses nothing)
  bots  0 allowed, 2 denied
`
	if status, out, errs := command(t, "", "check", "-rules", full); status != 0 || out != want {
		t.Errorf("%d\n%s%s\nwant\n%s", status, out, errs, want)
	}

	status, _, errs := command(t, "", "check", "-config", bad)
	if status != 1 || !strings.Contains(errs, "bad.yaml:4:") || !strings.Contains(errs, "bad.yaml:5:") || !strings.Contains(errs, "2 mistakes") {
		t.Errorf("%d\n%s", status, errs)
	}
}

func accessLog(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "10.0.%d.%d - - [17/May/2015:10:05:03 +0000] \"GET /articles/%d HTTP/1.1\" 200 1 \"-\" "+
			"\"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\"\n", i/256, i%256, i%3)
	}
	return b.String()
}

func views(t *testing.T, h http.Handler) int64 {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/stats/articles", nil))
	var s board.Stats
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	return s.Periods[calendar.All].Views
}

func TestImportIntoADataDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rules := write(t, dir, "rules.yaml", articles)
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	log := write(t, dir, "access.log", accessLog(700))
	if status, _, errs := command(t, "", "import", "-data", data, log); status != 1 || !strings.Contains(errs, "no rules") {
		t.Errorf("without rules: %d\n%s", status, errs)
	}
	if status, out, errs := command(t, "", "import", "-data", data, "-rules", rules, log); status != 0 || !strings.Contains(out, "700  views of list articles") {
		t.Errorf("not running: %d\n%s%s", status, out, errs)
	}
	// A killed process leaves its URL behind.
	write(t, data, "nats.url", "nats://token@127.0.0.1:1\n")
	if status, out, errs := command(t, accessLog(700), "import", "-data", data, "-"); status != 0 || !strings.Contains(out, "imported before") {
		t.Errorf("again, from standard input: %d\n%s%s", status, out, errs)
	}

	e, err := embedded.Open(t.Context(), embedded.Options{Dir: data, Logger: slog.New(slog.DiscardHandler), Slice: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if n := views(t, e.Handler()); n != 700 {
		t.Errorf("%d views are counted, want 700", n)
	}
	other := write(t, dir, "other.log", accessLog(50))
	if status, out, errs := command(t, "", "import", "-data", data, other, log); status != 0 ||
		!strings.Contains(out, "50  views of list articles") || !strings.Contains(out, "imported before") {
		t.Errorf("running: %d\n%s%s", status, out, errs)
	}
	brokertest.Eventually(t, func() string {
		if n := views(t, e.Handler()); n != 750 {
			return fmt.Sprintf("%d views are counted, want 750", n)
		}
		return ""
	})
	if status, _, errs := command(t, "", "import", "-data", data, "-list", "nope", log); status != 1 || !strings.Contains(errs, `"nope"`) {
		t.Errorf("an unknown list: %d\n%s", status, errs)
	}
}

// propose proposes rules to a running site, like its Caddy.
func propose(t *testing.T, e *embedded.Embedded, rules *ruleset.Rules) {
	t.Helper()
	book := revisions.New(e.Conn, 0)
	if now, ok, err := book.Propose(t.Context(), rules, revisions.Source{Authority: revisions.Caddyfile}, 0); err != nil || !ok {
		t.Fatal(now, err)
	}
}

func TestReplayIntoADataDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	rules := ruleset.MustCompile(ruleset.Config{Lists: []*ruleset.ListConfig{{Name: "articles", Pages: []string{"/articles/{id}"}}}})
	e, err := embedded.Open(t.Context(), embedded.Options{Dir: data, Logger: slog.New(slog.DiscardHandler), Slice: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	propose(t, e, rules)
	file := func(name, list string) string {
		b := &hit.Batch{Edge: "edge", Seq: 1, Rules: rules.ID()}
		for i := range 100 {
			b.Hits = append(b.Hits, hit.Hit{Kind: hit.View, List: list, Item: "a", Visitor: uint64(i), Time: time.Now().UnixMilli()})
		}
		text, err := hit.Encode(b)
		if err != nil {
			t.Fatal(err)
		}
		return write(t, dir, name, string(text))
	}
	doubtful := file("doubtful-1.hits", "articles")
	for _, want := range []string{"100  hits of list articles", "replayed before"} {
		if status, out, errs := command(t, "", "replay", "-data", data, doubtful); status != 0 || !strings.Contains(out, want) {
			t.Errorf("%d\n%s%s", status, out, errs)
		}
		brokertest.Eventually(t, func() string {
			if n := views(t, e.Handler()); n != 100 {
				return fmt.Sprintf("%d views are counted, want 100", n)
			}
			return ""
		})
	}
	if status, out, errs := command(t, "", "replay", "-data", data, file("doubtful-2.hits", "other")); status != 1 || !strings.Contains(errs, "have no list other") {
		t.Errorf("%d\n%s%s", status, out, errs)
	}
	if status, out, errs := command(t, "", "replay", "-data", data, write(t, dir, "text", "text")); status != 1 || !strings.Contains(errs, "not a file of batches") {
		t.Errorf("%d\n%s%s", status, out, errs)
	}
}

// Nothing may be imported from a log that cannot be judged, because a log is imported
// only once.
func TestImportRefusesLogs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rules := write(t, dir, "rules.yaml", articles)
	common := write(t, dir, "common.log", strings.Repeat(`192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /articles/a HTTP/1.1" 200 1`+"\n", 3))
	prose := write(t, dir, "prose.log", strings.Repeat("server started\n", 8)+accessLog(3))
	data := t.TempDir()
	for _, tt := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{common}, 1, "-without-bots-check"},
		{[]string{prose}, 1, "8 of 11 lines are unreadable"},
		{[]string{"-without-bots-check", prose}, 1, "line 1:"},
		{[]string{"-without-bots-check", common}, 0, "count as readers"},
	} {
		status, out, errs := command(t, "", append([]string{"import", "-data", data, "-rules", rules}, tt.args...)...)
		if status != tt.status || !strings.Contains(out+errs, tt.want) || status != 0 && strings.Contains(out, "views") || strings.Contains(out, "imported before") {
			t.Errorf("import %v: %d, want %d and %q\n%s%s", tt.args, status, tt.status, tt.want, out, errs)
		}
	}
}

// get sends a request to a server that may not be up yet.
func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(data)
}

func eventually(t *testing.T, url string, status int, part string) {
	t.Helper()
	brokertest.Eventually(t, func() string {
		if s, body := get(t, url); s != status || !strings.Contains(body, part) {
			return fmt.Sprintf("%s: %d %s", url, s, body)
		}
		return ""
	})
}

// Not parallel: it sends this process a signal.
func TestServe(t *testing.T) {
	broker := brokertest.NewServer(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, "rules.yaml", articles)
	config := write(t, dir, "aggregator.yaml", fmt.Sprintf(`
listen: %s
slice: 1ms
nats: {urls: ["%s"], max_bytes: 64MiB}
sqlite: {path: counts.db}
log: {level: error}
rules_file: rules.yaml
`, address, broker.URL()))

	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var status int
	var errs bytes.Buffer
	wg.Go(func() { status = run(ctx, []string{"-config", config}, terminal{nil, io.Discard, &errs}) })
	url := "http://" + address
	eventually(t, url+"/-/ready", 200, `"ready":true`)
	eventually(t, url+"/metrics", 200, "hotboard_build_info")

	log := write(t, dir, "access.log", accessLog(300))
	if status, out, errs := command(t, "", "import", "-config", config, log); status != 0 || !strings.Contains(out, "300  views") {
		t.Errorf("import: %d\n%s%s", status, out, errs)
	}
	eventually(t, url+"/hot?period=all", 200, `"views":100`)

	reload := func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir, "rules.yaml", "lists: [{name: articles, typo: 1}]")
	reload()
	eventually(t, url+"/metrics", 200, `hotboard_rules_reloads_total{result="refused"} 1`)
	write(t, dir, "rules.yaml", "lists: [{name: articles}, {name: more}]")
	reload()
	eventually(t, url+"/hot?list=more", 200, `"items":[]`)

	stop()
	wg.Wait()
	if status != 0 {
		t.Errorf("status %d\n%s", status, errs.String())
	}
	if s, body := get(t, url+"/-/ready"); s != 0 {
		t.Errorf("still answering: %d %s", s, body)
	}
}

// The machines of an installation may start in any order.
func TestServeBeforeTheStore(t *testing.T) {
	t.Parallel()
	broker := brokertest.NewServer(t)
	redis := services.StartRedis(t)
	redis.Kill()
	address := fmt.Sprintf("127.0.0.1:%d", services.FreePort(t))
	config := write(t, t.TempDir(), "aggregator.yaml", fmt.Sprintf(`
listen: %s
nats: {urls: ["%s"], max_bytes: 64MiB}
redis: {url: "%s"}
log: {level: error}
rules: {lists: [{name: articles}]}
`, address, broker.URL(), redis.URL()))
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { run(ctx, []string{"-config", config}, terminal{nil, io.Discard, io.Discard}) })
	defer wg.Wait()
	defer stop()
	url := "http://" + address
	eventually(t, url+"/-/ready", 503, "store_away")
	eventually(t, url+"/-/healthy", 200, "ok")
	redis.Restart()
	eventually(t, url+"/-/ready", 200, `"ready":true`)
}

// A log is imported only once, so an import must not waste it on unknown lists.
func TestImportOfAListThatIsNotThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	site, err := embedded.Open(t.Context(), embedded.Options{Dir: data, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer site.Close()
	propose(t, site, ruleset.MustCompile(ruleset.Config{Lists: []*ruleset.ListConfig{{Name: "other"}}}))
	log, rules := write(t, dir, "access.log", accessLog(10)), write(t, dir, "rules.yaml", articles)
	status, out, errs := command(t, "", "import", "-data", data, "-rules", rules, log)
	if status == 0 || !strings.Contains(errs, "have no list articles") {
		t.Errorf("%d\n%s%s", status, out, errs)
	}
	propose(t, site, ruleset.MustCompile(ruleset.Config{Lists: []*ruleset.ListConfig{{Name: "articles", Pages: []string{"/articles/{id}"}}}}))
	if status, out, errs := command(t, "", "import", "-data", data, log); status != 0 || strings.Contains(out, "imported before") {
		t.Errorf("%d\n%s%s", status, out, errs)
	}
}
