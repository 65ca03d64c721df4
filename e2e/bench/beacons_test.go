package bench

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hotboard/hotboard/aggregator/app"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/redisstore"
	"github.com/hotboard/hotboard/e2e/services"
	"github.com/hotboard/hotboard/ruleset"
)

// Beacons that are answered when they are on the edge's disk, and then published,
// against the same POST answered by Caddy's respond. Caddy, wrk and nats-server
// share the machine; no aggregator runs.
func TestBeacons(t *testing.T) {
	wanted(t)
	dir := t.TempDir()
	nc := connect(t)
	ensure(t, nc, 16)
	stock := startCaddy(t, dir, "stock", "", "respond /api/views 202")
	module := startCaddy(t, dir, "module", beaconEdge(dir, nc), "hotboard")
	script := post(t, dir, "beacons", "/api/views", `"{\"articleId\":\"a" .. n % 100 .. "\"}"`)
	var ratios, rates, stocks []float64
	for range 5 {
		s := load202(t, script, stock, 3*time.Second)
		m := load202(t, script, module, 3*time.Second)
		stocks, rates, ratios = append(stocks, s.rate), append(rates, m.rate), append(ratios, m.rate/s.rate)
	}
	row("beacons at the edge", fmt.Sprintf("%.0f/s", median(rates)), fmt.Sprintf("respond 202: %.0f/s", median(stocks)),
		fmt.Sprintf("%.2f", median(ratios)), ">= 0.5")
}

// Beacons through the whole chain: wrk, Caddy, nats-server, the aggregator and
// redis-server share the machine, and the clock runs until the last one is counted.
func TestBeaconChain(t *testing.T) {
	wanted(t)
	dir := t.TempDir()
	nc := connect(t)
	ensure(t, nc, 16)
	s := startAggregator(t, nc, ruleset.MustCompile(ruleset.Config{Lists: []*ruleset.ListConfig{{Name: "articles"}}}))
	module := startCaddy(t, dir, "module", beaconEdge(dir, nc), "hotboard")
	script := post(t, dir, "beacons", "/api/views", `"{\"articleId\":\"a" .. n % 100 .. "\",\"fingerprint\":\"f" .. n .. "\"}"`)
	chain(t, "beacons, counted", s, "articles", script, module, ">= 10000/s")
}

// The same for votes, each by another user, with three limits of which the
// aggregator enforces two.
func TestVoteChain(t *testing.T) {
	wanted(t)
	dir := t.TempDir()
	nc := connect(t)
	ensure(t, nc, 16)
	s := startAggregator(t, nc, ruleset.MustCompile(ruleset.Config{
		Lists: []*ruleset.ListConfig{{Name: "songs", Votes: &ruleset.Votes{Options: []string{"*"}}}},
		Limits: []*ruleset.Limit{
			{Name: "user", By: []ruleset.Dimension{ruleset.ByUser}, Windows: []ruleset.Window{{Max: 3, Per: "day"}, {Max: 10, Per: "campaign"}}},
		},
	}))
	module := startCaddy(t, dir, "module", fmt.Sprintf(`hotboard {
		dir %s
		nats %s
		list songs {
			votes *
		}
		limit user {
			by user
			max 2 per second
			max 3 per day
			max 10 per campaign
		}
	}`, filepath.Join(dir, "spool"), nc.ConnectedUrl()), `hotboard {
		user {header.X-User}
	}`)
	script := post(t, dir, "votes", "/api/votes", `"{\"list\":\"songs\",\"option\":\"s" .. n % 100 .. "\"}"`)
	firstVote(t, s, module)
	chain(t, "votes, counted", s, "songs", script, module, ">= 8000/s")
}

// firstVote waits until an edge has the shared secrets and accepts a vote, and
// until that vote is counted.
func firstVote(t *testing.T, s store.Store, url string) {
	t.Helper()
	accepted := false
	for begin := time.Now(); counted(t, s, "songs") == 0; time.Sleep(50 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal("the first vote is not counted")
		}
		if accepted {
			continue
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/api/votes", strings.NewReader(`{"list":"songs","option":"first"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("User-Agent", firefox)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		accepted = resp.StatusCode == http.StatusAccepted
	}
}

const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"

// counted returns the number of counted hits of a list.
func counted(t *testing.T, s store.Store, list string) (n int64) {
	t.Helper()
	shards, err := s.Totals(t.Context(), []store.Set{{List: list, Name: "all"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, sum := range shards[0] {
		n += sum.Views + sum.Duplicates
	}
	return n
}

// chain loads an edge, waits until everything is counted, and reports the rate of
// both together.
func chain(t *testing.T, name string, s store.Store, list, script, url, goal string) {
	t.Helper()
	before := counted(t, s, list)
	begin := time.Now()
	l := load202(t, script, url, 10*time.Second)
	for {
		n := counted(t, s, list) - before
		if n > l.requests+connections { // wrk leaves as many unanswered at its end
			t.Fatalf("%d were answered, %d are counted", l.requests, n)
		}
		if n >= l.requests {
			break
		}
		if time.Since(begin) > 2*time.Minute {
			t.Fatalf("%d were answered, %d are counted", l.requests, n)
		}
		time.Sleep(5 * time.Millisecond)
	}
	took := time.Since(begin)
	row(name, fmt.Sprintf("%.0f/s", float64(l.requests)/took.Seconds()),
		fmt.Sprintf("%d accepted in 10 s, all counted %.1f s later", l.requests, (took-10*time.Second).Seconds()), "-", goal)
}

func startAggregator(t *testing.T, nc *nats.Conn, r *ruleset.Rules) store.Store {
	t.Helper()
	s, err := redisstore.Open(t.Context(), redisstore.Options{URL: services.StartRedis(t).URL(), Shards: 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	a, err := app.New(app.Options{Store: s, Conn: nc, Rules: r, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Stop(context.Background()) })
	return s
}

func beaconEdge(dir string, nc *nats.Conn) string {
	return fmt.Sprintf(`hotboard {
		dir %s
		nats %s
		list articles
	}`, filepath.Join(dir, "spool"), nc.ConnectedUrl())
}

// connections is the number of clients waiting for an answer at a time.
const connections = 256

// post writes a script for wrk that posts JSON: body is an expression of Lua in
// which n counts the requests.
func post(t *testing.T, dir, name, path, body string) string {
	t.Helper()
	file := filepath.Join(dir, name+".lua")
	err := os.WriteFile(file, fmt.Appendf(nil, `
local n = 0
local headers = {
  ["Content-Type"] = "application/json",
  ["User-Agent"] = "%s",
}
request = function()
  n = n + 1
  headers["X-User"] = "user" .. n
  return wrk.format("POST", "%s", headers, %s)
end
`, firefox, path, body), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

type loaded struct {
	requests int64
	rate     float64
}

var requestsTotal = regexp.MustCompile(`(\d+) requests in`)

// load202 loads url with one thread of wrk. Every answer must be 202.
func load202(t *testing.T, script, url string, d time.Duration) loaded {
	t.Helper()
	wrk, err := exec.LookPath("wrk")
	if err != nil {
		t.Fatal("wrk is needed: apt-get install wrk")
	}
	out, err := exec.Command(wrk, "-t1", fmt.Sprintf("-c%d", connections), fmt.Sprintf("-d%ds", int(d.Seconds())), "-s", script, url).CombinedOutput()
	if err != nil || strings.Contains(string(out), "Non-2xx") || strings.Contains(string(out), "Socket errors") {
		t.Fatalf("wrk: %v\n%s", err, out)
	}
	rate, total := requestsPerSecond.FindSubmatch(out), requestsTotal.FindSubmatch(out)
	if rate == nil || total == nil {
		t.Fatalf("wrk says no rate:\n%s", out)
	}
	var l loaded
	l.rate, err = strconv.ParseFloat(string(rate[1]), 64)
	if err == nil {
		l.requests, err = strconv.ParseInt(string(total[1]), 10, 64)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}
