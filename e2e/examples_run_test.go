package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hotboard/hotboard/e2e/services"
)

const trafficPackage = module + "/e2e/traffic"

// believeMe makes an edge trust the traffic generator's header for the visitor's
// address.
const believeMe = "\tservers {\n\t\ttrusted_proxies static 127.0.0.1/32\n\t}\n"

// example is a copy of an example, with ports, directories and addresses of other
// servers for the test.
type example struct {
	t   *testing.T
	dir string
}

func copyExample(t *testing.T, name string, replace ...string) *example {
	t.Helper()
	e := &example{t: t, dir: t.TempDir()}
	from := filepath.Join(examples, name)
	changes := strings.NewReplacer(replace...)
	err := filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		to := filepath.Join(e.dir, rel)
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if base := filepath.Base(path); base == "Caddyfile" || filepath.Ext(base) == ".yaml" {
			text = []byte(changes.Replace(string(text)))
		}
		return os.WriteFile(to, text, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// caddy runs a Caddyfile of the example and returns the URL of its site, once its
// boards can be read.
func (e *example) caddy(file string, port int) (*services.Program, string) {
	e.t.Helper()
	url := "http://localhost:" + strconv.Itoa(port)
	p := services.StartProgram(e.t, services.Caddy, url+"/api/stats/articles",
		"run", "--adapter", "caddyfile", "--config", filepath.Join(e.dir, file))
	return p, url
}

// admin gives a Caddyfile an admin port.
func admin(port int) string { return fmt.Sprintf("\tadmin localhost:%d\n", port) }

// sharesSecret waits until an edge identifies visitors like all other edges. An
// edge that starts for the first time needs a moment to get the shared secrets.
func sharesSecret(t *testing.T, adminPort int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	url := fmt.Sprintf("http://localhost:%d/metrics", adminPort)
	for !bytes.Contains(get(t, url), []byte("\nhotboard_edge_salt_shared 1\n")) {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: the edge does not have the shared secret", url)
		case <-tick.C:
		}
	}
}

// readers sends generated readers, and fails unless they are counted exactly.
func readers(t *testing.T, urls []string, args ...string) {
	t.Helper()
	args = append([]string{"-for", "5s", "-rate", "200", "-check"}, args...)
	for _, u := range urls {
		args = append(args, "-url", u)
	}
	out, err := exec.CommandContext(t.Context(), services.Binary(t, trafficPackage), args...).CombinedOutput()
	if err != nil {
		t.Errorf("traffic: %v\n%s", err, out)
	}
}

// origin is a site of a few pages behind an edge.
func origin(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if r.URL.Path == "/" {
			for i := range 10 {
				fmt.Fprintf(w, "<a href=/articles/%d>%d</a>\n", i, i)
			}
			return
		}
		fmt.Fprintf(w, "<h1>%s</h1>", r.URL.Path)
	}))
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

func get(t *testing.T, url string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s: %s", url, resp.Status, body)
	}
	return body
}

func totalViews(t *testing.T, site string) int {
	t.Helper()
	var stats struct {
		Periods map[string]struct{ Views int }
	}
	if err := json.Unmarshal(get(t, site+"/api/stats/articles"), &stats); err != nil {
		t.Fatal(err)
	}
	return stats.Periods["all"].Views
}

func TestQuickstartRuns(t *testing.T) {
	t.Parallel()
	site, err := filepath.Abs(filepath.Join(examples, "quickstart", "site"))
	if err != nil {
		t.Fatal(err)
	}
	port := services.FreePort(t)
	e := copyExample(t, "quickstart",
		":8080", ":"+strconv.Itoa(port),
		"\thotboard {\n\t\t#", admin(services.FreePort(t))+"\thotboard {\n\t\t#",
		"dir hotboard-data", "dir "+filepath.Join(t.TempDir(), "hotboard-data"),
		"caddyfile-examples/quickstart/site", site)
	caddy, url := e.caddy("Caddyfile", port)

	for path, want := range map[string]string{
		"/":                            "<h1>Short notes",
		"/articles/tail-latency":       "<h1>The slowest one percent is everybody</h1>",
		"/hotboard.js":                 `define("hot-list"`,
		"/assets/hot.js":               `addEventListener("hotboard"`,
		"/hot?list=articles":           `"items":[`,
		"/api/hot?period=day":          `"period":"day"`,
		"/articles/etags-still-matter": "If-None-Match",
	} {
		if body := get(t, url+path); !strings.Contains(string(body), want) {
			t.Errorf("%s does not hold %q:\n%s", path, want, body)
		}
	}

	readers(t, []string{url})
	views := totalViews(t, url)
	if views < 100 {
		t.Errorf("%d views were counted", views)
	}
	caddy.Kill()
	caddy.Restart()
	if got := totalViews(t, url); got != views {
		t.Errorf("after kill -9 there are %d views, and %d before", got, views)
	}
	var board struct {
		Items []struct {
			ID    string
			Views int
		}
	}
	if err := json.Unmarshal(get(t, url+"/hot?list=articles&period=all&limit=100"), &board); err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, item := range board.Items {
		sum += item.Views
		if _, err := os.Stat(filepath.Join(site, "articles", item.ID+".md")); err != nil {
			t.Errorf("%q is on the board and not an article", item.ID)
		}
	}
	if sum != views {
		t.Errorf("the board adds up to %d views, the totals say %d", sum, views)
	}
}

func TestBehindCDNRuns(t *testing.T) {
	t.Parallel()
	port := services.FreePort(t)
	e := copyExample(t, "behind-cdn",
		":8080", ":"+strconv.Itoa(port),
		"\thotboard {\n\t\tlist", admin(services.FreePort(t))+"\thotboard {\n\t\tdir "+t.TempDir()+"\n\t\tlist",
		"203.0.113.0/24", "127.0.0.1/32",
		"{$SITE:127.0.0.1:3000}", origin(t))
	_, url := e.caddy("Caddyfile", port)
	readers(t, []string{url})
}

func TestSingleEdgeRuns(t *testing.T) {
	t.Parallel()
	nats, redis := services.StartNATS(t), services.StartRedis(t, "--appendonly", "yes")
	port, listen := services.FreePort(t), services.FreePort(t)
	e := copyExample(t, "single-edge",
		":8080", ":"+strconv.Itoa(port),
		"\thotboard {\n\t\tnats", admin(services.FreePort(t))+believeMe+"\thotboard {\n\t\tdir "+t.TempDir()+"\n\t\tnats",
		"{$SITE:127.0.0.1:3000}", origin(t),
		"{$NATS_URL:nats://127.0.0.1:4222}", nats.URL,
		"nats://127.0.0.1:4222", nats.URL,
		"redis://127.0.0.1:6379", redis.URL(),
		"127.0.0.1:7070", net.JoinHostPort("127.0.0.1", strconv.Itoa(listen)))
	e.aggregator(listen)
	_, url := e.caddy("Caddyfile", port)
	readers(t, []string{url}, "-dedup", "1h")
}

func TestTwoEdgesRun(t *testing.T) {
	t.Parallel()
	nats, redis := services.StartNATS(t), services.StartRedis(t, "--appendonly", "yes")
	portA, portB, listen := services.FreePort(t), services.FreePort(t), services.FreePort(t)
	e := copyExample(t, "two-edges",
		":8081", ":"+strconv.Itoa(portA),
		":8082", ":"+strconv.Itoa(portB),
		"\tadmin localhost:2020\n", "",
		"\thotboard {\n\t\tnats", "<admin>"+believeMe+"\thotboard {\n\t\tnats",
		"/var/lib/hotboard", t.TempDir(),
		"{$SITE:127.0.0.1:3000}", origin(t),
		"{$NATS_URL:nats://127.0.0.1:4222}", nats.URL,
		"nats://127.0.0.1:4222", nats.URL,
		"redis://127.0.0.1:6379", redis.URL(),
		"127.0.0.1:7070", net.JoinHostPort("127.0.0.1", strconv.Itoa(listen)))
	e.aggregator(listen)
	var urls []string
	for edge, port := range map[string]int{"edge-a": portA, "edge-b": portB} {
		file := filepath.Join(e.dir, edge, "Caddyfile")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		adminPort := services.FreePort(t)
		text = bytes.Replace(text, []byte("<admin>"), []byte(admin(adminPort)), 1)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		_, url := e.caddy(filepath.Join(edge, "Caddyfile"), port)
		sharesSecret(t, adminPort)
		urls = append(urls, url)
	}
	readers(t, urls)
}

// aggregator runs the aggregator of the example.
func (e *example) aggregator(port int) *services.Program {
	e.t.Helper()
	return services.StartProgram(e.t, services.Aggregator, "http://127.0.0.1:"+strconv.Itoa(port)+"/-/ready",
		"-config", filepath.Join(e.dir, "aggregator.yaml"))
}

func TestPollRuns(t *testing.T) {
	t.Parallel()
	site, err := filepath.Abs(filepath.Join(examples, "poll", "site"))
	if err != nil {
		t.Fatal(err)
	}
	port := services.FreePort(t)
	e := copyExample(t, "poll",
		":8080", ":"+strconv.Itoa(port),
		"\thotboard {\n\t\t# Votes", admin(services.FreePort(t))+believeMe+"\thotboard {\n\t\t# Votes",
		"dir hotboard-data", "dir "+filepath.Join(t.TempDir(), "hotboard-data"),
		"caddyfile-examples/poll/site", site,
		"max 1 per day", "max 1 per campaign", // no midnight comes between
		"confirm 2s", "confirm 10s") // on a busy machine
	caddy, url := e.caddy("Caddyfile", port)
	for path, want := range map[string]string{
		"/":            `<hot-list list="dinner"`,
		"/poll.js":     "/api/votes",
		"/hotboard.js": "hot-list",
	} {
		if body := get(t, url+path); !strings.Contains(string(body), want) {
			t.Errorf("%s does not hold %q:\n%s", path, want, body)
		}
	}

	// An edge's first vote may have to wait for the shared secrets: then 503 asks to
	// send it again.
	for _, v := range []struct {
		address, option, query string
		status                 int
	}{
		{"192.0.2.1", "ramen", "", http.StatusOK},
		{"192.0.2.1", "ramen", "", http.StatusTooManyRequests},
		{"192.0.2.1", "tacos", "", http.StatusTooManyRequests},
		{"192.0.2.1", "ramen", "?via=newsletter", http.StatusOK},
		{"192.0.2.1", "ramen", "?via=newsletter", http.StatusTooManyRequests},
		{"192.0.2.2", "curry", "", http.StatusOK},
		{"2001:db8::3", "curry", "", http.StatusOK},
		{"2001:db8::4", "curry", "", http.StatusTooManyRequests}, // the same /64
		{"192.0.2.4", "pizza", "", http.StatusBadRequest},
		{"192.0.2.5", "curry", "", http.StatusOK},
	} {
		status, body := castVote(t, url+"/api/votes"+v.query, v.address, `{"list":"dinner","option":"`+v.option+`"}`)
		if status != v.status {
			t.Errorf("%s votes for %s (%s): %d %s, want %d", v.address, v.option, v.query, status, body, v.status)
		}
		if status == http.StatusOK && !strings.Contains(string(body), `"verdict":"counted"`) {
			t.Errorf("%s votes for %s: %s", v.address, v.option, body)
		}
	}
	votes := func() map[string]int {
		var board struct {
			Items []struct {
				ID    string
				Views int
			}
		}
		if err := json.Unmarshal(get(t, url+"/hot?list=dinner&period=all"), &board); err != nil {
			t.Fatal(err)
		}
		counts := make(map[string]int)
		for _, item := range board.Items {
			counts[item.ID] = item.Views
		}
		return counts
	}
	// After a restart: a fresh answer instead of one from the last time slice.
	caddy.Kill()
	caddy.Restart()
	if got, want := fmt.Sprint(votes()), "map[curry:3 ramen:2]"; got != want {
		t.Errorf("after kill -9 the board says %s, want %s", got, want)
	}
	if status, body := castVote(t, url+"/api/votes", "192.0.2.5", `{"list":"dinner","option":"curry"}`); status != http.StatusOK || !strings.Contains(string(body), `"verdict":"over_quota"`) {
		t.Errorf("after kill -9, a second vote of the day: %d %s", status, body)
	}
}

// castVote posts a vote from an address, again while the edge answers 503.
func castVote(t *testing.T, url, address, vote string) (status int, body []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(vote))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Forwarded-For", address)
		req.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err = io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusServiceUnavailable {
			return resp.StatusCode, body
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %s", url, body)
		case <-tick.C:
		}
	}
}
