package caddymodule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/nats-io/nats.go"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// live is a Caddy that runs in this process, as the one configuration that it
// has. Tests with one do not run in parallel.
type live struct {
	t      testing.TB
	dir    string
	socket string
	client *http.Client
}

// runCaddy runs a site on a Unix socket until the test ends. Caddy trusts
// X-Forwarded-For there.
func runCaddy(t testing.TB, config string) *live {
	t.Helper()
	// a socket's path has at most 108 bytes, which t.TempDir may exceed
	dir, err := os.MkdirTemp("", "hotboard")
	if err != nil {
		t.Fatal(err)
	}
	l := &live{t: t, dir: dir, socket: filepath.Join(dir, "caddy.sock")}
	transport := &http.Transport{
		MaxIdleConnsPerHost: 64,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", l.socket)
		},
	}
	l.client = &http.Client{Transport: transport, Timeout: patience}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
		os.RemoveAll(dir)
	})
	if err := l.load(config); err != nil {
		t.Fatal(err)
	}
	return l
}

// load makes a Caddyfile the configuration. DIR and SOCKET in it are replaced.
func (l *live) load(config string) error {
	l.t.Helper()
	config = strings.NewReplacer("DIR", filepath.Join(l.dir, "data"), "SOCKET", l.socket).Replace(config)
	var cfg map[string]any
	if err := json.Unmarshal(adaptJSON(l.t, config), &cfg); err != nil {
		l.t.Fatal(err)
	}
	cfg["admin"] = map[string]any{"disabled": true, "config": map[string]any{"persist": false}}
	for _, s := range cfg["apps"].(map[string]any)["http"].(map[string]any)["servers"].(map[string]any) {
		s.(map[string]any)["trusted_proxies_unix"] = true
	}
	data, err := json.Marshal(cfg)
	if err != nil {
		l.t.Fatal(err)
	}
	err = caddy.Load(data, true)
	// Connections that rest are the old server's, which closes them about now.
	l.client.CloseIdleConnections()
	return err
}

// send sends a request made for httptest, and returns the response, read.
func (l *live) send(r *http.Request) (*http.Response, string, error) {
	r.RequestURI = ""
	resp, err := l.client.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

// edge is the configuration in force, to be asked without a connection. One that is
// opened right after a reload may be accepted by the old server, which closes it
// without an answer.
func (l *live) edge() *edge {
	l.t.Helper()
	return edgeOf(l.t, caddy.ActiveContext())
}

// liveSite is site on a socket.
func liveSite(list, broker string, options ...string) string {
	s := strings.Replace(site(list, options...), "http:// {", "http:// {\n bind unix/SOCKET", 1)
	return strings.Replace(s, "NATS", broker, 1)
}

func natsBroker(url string) string { return "nats " + url + " {\n shards 1\n }" }

// settle waits until a condition holds.
func settle(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline.C:
			stacks := make([]byte, 1<<20)
			t.Fatalf("waited in vain for %s\n%s", what, stacks[:goruntime.Stack(stacks, true)])
		}
	}
}

func TestReload(t *testing.T) {
	log := startLog(t, 1)
	const reloads = 50
	config := func(i int) string {
		return liveSite("reload", natsBroker(log.url)) + fmt.Sprintf("\n# %d", i)
	}
	c := runCaddy(t, config(0))
	before := counted("reload", ruleset.Counted)

	var (
		stop     atomic.Bool
		requests atomic.Int64
		load     sync.WaitGroup
		retried  sync.Map // requests whose connection was closed under them, as a reload does
	)
	for worker := range 4 {
		load.Go(func() {
			for i := 0; !stop.Load(); i++ {
				id := fmt.Sprintf("w%d-%d", worker, i)
				r, want := browse("/reload/"+id), http.StatusOK
				if i%2 == 1 {
					r, want = fetch(http.MethodPost, "/api/views", `{"articleId":"`+id+`"}`), http.StatusAccepted
				}
				resp, body, err := c.send(r)
				for range 5 {
					if err == nil {
						break
					}
					retried.Store(id, true)
					if r.GetBody != nil {
						r.Body, _ = r.GetBody()
					}
					resp, body, err = c.send(r)
				}
				if err != nil {
					t.Errorf("request %s failed: %v", id, err)
					return
				}
				if resp.StatusCode != want {
					t.Errorf("request %s: %d %s", id, resp.StatusCode, body)
					return
				}
				requests.Add(1)
			}
		})
	}
	goroutines := 0
	for i := range reloads {
		from := requests.Load()
		if err := c.load(config(i + 1)); err != nil {
			t.Fatal(err)
		}
		settle(t, "requests between reloads", func() bool { return requests.Load() >= from+20 || t.Failed() })
		if i == 4 {
			goroutines = goruntime.NumGoroutine()
		}
	}
	under := goruntime.NumGoroutine()
	stop.Store(true)
	load.Wait()
	if under > goroutines+30 {
		t.Errorf("%d goroutines after 5 reloads, %d after %d", goroutines, under, reloads)
	}

	seen, hits := make(map[string]int), 0
	for len(seen) < int(requests.Load()) {
		seen[log.next(t).Item]++
		hits++
	}
	for item, n := range seen {
		if _, again := retried.Load(item); n != 1 && !again {
			t.Errorf("%s was counted %d times", item, n)
		}
	}
	settle(t, "the metric", func() bool { return counted("reload", ruleset.Counted)-before >= hits })
	ctx := caddy.ActiveContext()
	families, err := ctx.GetMetricsRegistry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.Metric {
			shown[f.GetName()] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	if got := shown["hotboard_edge_spooled_hits_total"]; int(got) < hits {
		t.Errorf("the last configuration shows %v spooled hits of %d: metrics do not survive reloads", got, hits)
	}
	if shown["hotboard_edge_requests_total"] < float64(len(seen)) || shown["hotboard_edge_broker_connected"] != 1 {
		t.Errorf("metrics of the last configuration: %v", shown)
	}
}

func TestReloadThatFails(t *testing.T) {
	log := startLog(t, 1)
	c := runCaddy(t, liveSite("failing", natsBroker(log.url)))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, config := range map[string]string{
		"a file is missing":    strings.Replace(liveSite("failing", natsBroker(log.url)), "dir DIR", "dir DIR\n bots {\n file /dev/null/bots.json\n }", 1),
		"a port is taken":      liveSite("failing", natsBroker(log.url)) + "\nhttp://127.0.0.1:" + strings.TrimPrefix(taken.Addr().String(), "127.0.0.1:") + " {\n bind 127.0.0.1\n respond hello\n}",
		"another log's shards": liveSite("failing", "nats "+log.url+" {\n shards 2\n }"),
	} {
		if err := c.load(config); err == nil {
			t.Fatalf("%s, and the configuration was accepted", name)
		}
		if _, body, err := c.send(browse("/failing/page")); err != nil || body != "page" {
			t.Fatalf("%s, and the old configuration serves %q, %v", name, body, err)
		}
		if h := log.next(t); h.Item != "page" {
			t.Errorf("%s: hit %+v", name, h)
		}
	}
	if n, _ := runtimes.References(filepath.Join(c.dir, "data")); n != 1 {
		t.Errorf("%d configurations hold the spool, want 1", n)
	}
}

func TestStopLeavesNothing(t *testing.T) {
	log := startLog(t, 1)
	run := func(t *testing.T) {
		c := runCaddy(t, liveSite("stopping", natsBroker(log.url)))
		if _, _, err := c.send(browse("/stopping/page")); err != nil {
			t.Fatal(err)
		}
		log.next(t)
	}
	t.Run("once", run) // what Caddy starts for the rest of the process
	before := goruntime.NumGoroutine()
	for range 3 {
		t.Run("again", run)
	}
	settle(t, "goroutines to end", func() bool { return goruntime.NumGoroutine() <= before+2 })
	runtimes.Range(func(dir, _ any) bool {
		t.Errorf("the spool in %v is still open", dir)
		return true
	})
	natsConnections.Range(func(_, _ any) bool {
		t.Error("a connection is still open")
		return true
	})
}

func TestValidateTouchesNothing(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "data")
	config := strings.Replace(site("validated"), "DIR", dir, 1)
	config = strings.Replace(config, "NATS", natsBroker("nats://"+server.Addr().String()), 1)
	if err := caddy.Validate(adapt(t, config)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("validating touched the data directory: %v", err)
	}
	if _, ok := runtimes.References(dir); ok {
		t.Error("validating opened the spool")
	}
	server.Close()
	if conn, err := server.Accept(); err == nil {
		conn.Close()
		t.Error("validating connected to the broker")
	}
}

func TestEverythingAway(t *testing.T) {
	// The port of a server that is gone.
	storeDir := t.TempDir()
	gone := startNATS(t, -1, storeDir)
	url := gone.ClientURL()
	port := gone.Addr().(*net.TCPAddr).Port
	gone.Shutdown()
	gone.WaitForShutdown()

	data := t.TempDir()
	config := strings.Replace(liveSite("away", natsBroker(url)), "DIR", data, 1)
	t.Run("without a broker", func(t *testing.T) {
		c := runCaddy(t, config)
		if resp, body, err := c.send(browse("/away/page")); err != nil || resp.StatusCode != http.StatusOK || body != "page" {
			t.Errorf("a page: %v %q %v", resp, body, err)
		}
		resp, body, err := c.send(fetch(http.MethodPost, "/api/views", `{"articleId":"beacon"}`))
		if err != nil || resp.StatusCode != http.StatusAccepted {
			t.Errorf("a beacon: %v %q %v", resp, body, err)
		}
		if resp, body, err = c.send(browse("/hot")); err != nil || resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("a board: %v %q %v", resp, body, err)
		}
	})
	t.Run("the broker returns", func(t *testing.T) {
		c := runCaddy(t, config)
		startNATS(t, port, storeDir)
		nc, err := nats.Connect(url)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		hits := make(chan hit.Hit, 16)
		if _, err := nc.Subscribe(hit.SubjectHits+".>", func(m *nats.Msg) {
			for _, b := range batchesOf(t, m) {
				for _, h := range b.Hits {
					hits <- h
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
		createStream(t, nc, 1)
		_ = c
		got := make(map[string]bool)
		for len(got) < 2 {
			select {
			case h := <-hits:
				got[h.Item] = true
			case <-time.After(patience):
				t.Fatalf("only %v arrived in the log", got)
			}
		}
		if !got["page"] || !got["beacon"] {
			t.Errorf("got hits of %v", got)
		}
	})
}

func TestAcquireBeforeStartAndAfterCleanup(t *testing.T) {
	dir := t.TempDir()
	app := &App{Dir: dir, broker: &NATSBroker{Shards: 1}}
	app.generation.Store(newGeneration(new(ruleset.Rules), nil))
	first, err := app.acquire() // a request that comes before Start
	if err != nil {
		t.Fatal(err)
	}
	if second, err := app.acquire(); err != nil || second != first {
		t.Errorf("acquired %p, then %p, %v", first, second, err)
	}
	if err := app.Cleanup(); err != nil {
		t.Fatal(err)
	}
	if err := app.Cleanup(); err != nil {
		t.Errorf("the second Cleanup: %v", err)
	}
	late := &App{Dir: dir, broker: &NATSBroker{Shards: 1}}
	if err := late.Cleanup(); err != nil {
		t.Fatal(err)
	}
	if _, err := late.acquire(); err == nil {
		t.Error("a configuration that was stopped acquired the spool")
	}
	if _, ok := runtimes.References(dir); ok {
		t.Error("the spool is still open")
	}
}
