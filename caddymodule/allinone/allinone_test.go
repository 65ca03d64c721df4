package allinone

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

const patience = 20 * time.Second

// caddyfileOf is a site whose data is in dir; embedded is the default broker.
func caddyfileOf(dir, list string) string {
	return `{
	admin off
	persist_config off
	hotboard {
		dir ` + dir + `
		list articles {
			page /articles/{id}
			` + list + `
		}
	}
}
http://localhost {
	bind unix/` + dir + `.sock
	header Content-Type text/html
	hotboard
	respond "page"
}`
}

// load makes config the one that Caddy runs in this process, until the test
// ends.
func load(t *testing.T, config string) error {
	t.Helper()
	data, _, err := caddyfile.Adapter{ServerType: httpcaddyfile.ServerType{}}.Adapt([]byte(config), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		t.Fatal(err)
	}
	return caddy.Load(data, true)
}

func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hotboard") // short enough for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "data")
}

// do sends a request to the site that runs.
func do(t *testing.T, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	ctx := caddy.ActiveContext()
	app, err := ctx.App("http")
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	for _, s := range app.(*caddyhttp.App).Servers {
		s.ServeHTTP(w, r)
	}
	return w
}

func request(method, path, body string) *http.Request {
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	r.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
	r.Header.Set("Accept", "text/html")
	return r
}

// board is what the tests look at in an answer.
type board struct {
	Items []struct {
		Rank  int
		ID    string
		Views int
	}
}

// waitForBoard asks for the hot board until it is as wanted.
func waitForBoard(t *testing.T, want string) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last string
	for {
		w := do(t, request("GET", "/hot?list=articles&period=all", ""))
		var b board
		if err := json.Unmarshal(w.Body.Bytes(), &b); err != nil {
			t.Fatalf("%d %s: %v", w.Code, w.Body, err)
		}
		var got []string
		for _, i := range b.Items {
			got = append(got, fmt.Sprintf("%s:%d", i.ID, i.Views))
		}
		if last = strings.Join(got, " "); last == want {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("the board has %q, want %q", last, want)
		}
	}
}

func TestAllInOne(t *testing.T) {
	dir := tempDir(t)
	defer caddy.Stop()
	if err := load(t, caddyfileOf(dir, "")); err != nil {
		t.Fatal(err)
	}
	do(t, request("GET", "/articles/one", ""))
	if w := do(t, request("POST", "/api/views", `[{"articleId":"two"},{"articleId":"two","fingerprint":"other"}]`)); w.Code != http.StatusAccepted {
		t.Fatalf("a beacon: %d %s", w.Code, w.Body)
	}
	waitForBoard(t, "two:2 one:1")
	if w := do(t, request("GET", "/api/items/articles/two", "")); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"two"`) {
		t.Errorf("an item: %d %s", w.Code, w.Body)
	}
	if w := do(t, request("GET", "/api/stats/articles", "")); w.Code != http.StatusOK {
		t.Errorf("statistics: %d %s", w.Code, w.Body)
	}

	t.Run("a reload changes the rules and keeps the counts", func(t *testing.T) {
		if err := load(t, caddyfileOf(dir, "boards day all")); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() string {
			if w := do(t, request("GET", "/hot?period=hour", "")); w.Code == http.StatusOK {
				return fmt.Sprintf("a board that is not kept any more: %d %s", w.Code, w.Body)
			}
			return ""
		})
		do(t, request("GET", "/articles/three", ""))
		waitForBoard(t, "two:2 three:1 one:1")
	})
	t.Run("a reload that fails leaves the rules", func(t *testing.T) {
		config := caddyfileOf(dir, "") + "\nhttp://localhost:1 {\n bind 256.0.0.1\n }"
		if err := load(t, config); err == nil {
			t.Fatal("a server that cannot listen was accepted")
		}
		backends.Range(func(_, v any) bool {
			if boards := v.(backend).Rules().List("articles").Boards; len(boards) != 2 {
				t.Errorf("the boards are %v, want those of before", boards)
			}
			return true
		})
		if n, _ := backends.References(dir); n != 1 {
			t.Errorf("%d configurations hold the backend, want 1", n)
		}
	})
	t.Run("the admin endpoint shows the aggregator", func(t *testing.T) {
		for path, want := range map[string]string{"/hotboard/-/healthy": "", "/hotboard/metrics": "hotboard_", "/hotboard/hot?list=articles&period=all": `"two"`} {
			w := httptest.NewRecorder()
			if err := serveAdmin(w, httptest.NewRequest("GET", path, nil)); err != nil || w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s: %d %s, %v", path, w.Code, w.Body, err)
			}
		}
	})
	t.Run("readiness is the edge's and the aggregator's", func(t *testing.T) {
		module, err := caddy.GetModule("admin.api.hotboard")
		if err != nil {
			t.Fatal(err)
		}
		edge := module.New().(caddy.AdminRouter).Routes()[0].Handler
		ready := func(status int, body string) {
			t.Helper()
			eventually(t, func() string {
				w := httptest.NewRecorder()
				if err := edge.ServeHTTP(w, httptest.NewRequest("GET", "/hotboard/-/ready", nil)); err != nil {
					t.Fatal(err)
				}
				if w.Code != status || !strings.Contains(w.Body.String(), body) {
					return fmt.Sprintf("%d %s, want %d %s", w.Code, w.Body, status, body)
				}
				return ""
			})
		}
		ready(http.StatusOK, `"ready":true`)
		aside := filepath.Join(dir, "counts.db.damaged-20261120T120000.000Z")
		if err := os.WriteFile(aside, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		ready(http.StatusServiceUnavailable, "store_damaged")
		if err := os.Remove(aside); err != nil {
			t.Fatal(err)
		}
		ready(http.StatusOK, `"ready":true`)
	})
	t.Run("Caddy's metrics have the aggregator's", func(t *testing.T) {
		ctx := caddy.ActiveContext()
		families, err := ctx.GetMetricsRegistry().Gather()
		if err != nil {
			t.Fatal(err)
		}
		have := make(map[string]bool)
		for _, f := range families {
			prefix, _, _ := strings.Cut(f.GetName(), "_")
			have[prefix+" "+fmt.Sprint(strings.HasPrefix(f.GetName(), "hotboard_edge_"))] = true
		}
		if !have["hotboard true"] || !have["hotboard false"] {
			t.Errorf("the metrics are not those of the edge and of the aggregator: %v", have)
		}
	})
	t.Run("a restart keeps the counts", func(t *testing.T) {
		if err := caddy.Stop(); err != nil {
			t.Fatal(err)
		}
		if _, ok := backends.References(dir); ok {
			t.Error("the backend is still open")
		}
		if w := httptest.NewRecorder(); serveAdmin(w, httptest.NewRequest("GET", "/hotboard/-/healthy", nil)) == nil {
			t.Error("the admin endpoint shows an aggregator that was stopped")
		}
		if err := load(t, caddyfileOf(dir, "boards day all")); err != nil {
			t.Fatal(err)
		}
		waitForBoard(t, "two:2 three:1 one:1")
	})
}

func TestValidateTouchesNothing(t *testing.T) {
	dir := tempDir(t)
	data, _, err := caddyfile.Adapter{ServerType: httpcaddyfile.ServerType{}}.Adapt([]byte(caddyfileOf(dir, "")), nil)
	if err != nil {
		t.Fatal(err)
	}
	var cfg caddy.Config
	if err := json.Unmarshal(data, &cfg); err != nil {
		t.Fatal(err)
	}
	if err := caddy.Validate(&cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("validating touched the data directory: %v", err)
	}
}

func TestCaddyfile(t *testing.T) {
	for config, want := range map[string]string{
		"embedded":                 `{"dir":"DIR","broker":{"type":"embedded"}}`,
		"embedded /srv/counts":     `{"dir":"DIR","broker":{"dir":"/srv/counts","type":"embedded"}}`,
		"embedded a b":             "wrong argument count",
		"embedded {\n shards 2\n}": `unknown option "shards": embedded has no options`,
	} {
		data, _, err := caddyfile.Adapter{ServerType: httpcaddyfile.ServerType{}}.Adapt([]byte("{\n hotboard {\n dir DIR\n "+config+"\n }\n}"), nil)
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want %s", config, err, want)
			}
			continue
		}
		var cfg struct {
			Apps struct{ Hotboard json.RawMessage }
		}
		if err := json.Unmarshal(data, &cfg); err != nil {
			t.Fatal(err)
		}
		if got := string(cfg.Apps.Hotboard); got != want {
			t.Errorf("%s: %s, want %s", config, got, want)
		}
	}
}
