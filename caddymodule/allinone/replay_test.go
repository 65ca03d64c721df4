package allinone_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/hotboard/hotboard/caddymodule/allinone"
	"github.com/hotboard/hotboard/caddymodule/internal/clock"
	"github.com/hotboard/hotboard/e2e/plaincount"
	"github.com/hotboard/hotboard/e2e/services"
)

// TestReplay sends the requests of an access log through Caddy, each at the time
// and from the address that the log says, and holds the boards to a count of
// the log in the plainest code.
func TestReplay(t *testing.T) {
	for name, file := range map[string]string{
		"sample":   "../../e2e/testdata/access.log",
		"real log": "../../../shared/data/semicomplete-access.log",
	} {
		// Not in parallel: Caddy's configuration and the clock are the process's.
		t.Run(name, func(t *testing.T) {
			log, err := os.Open(filepath.FromSlash(file))
			if os.IsNotExist(err) {
				t.Skipf("%s is not there: it is not part of this repository", file)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			lines, err := plaincount.Read(log)
			if err != nil {
				t.Fatal(err)
			}
			replay(t, lines)
		})
	}
}

const replayCaddyfile = `{
	admin off
	persist_config off
	storage file_system DIR/storage
	hotboard {
		dir DIR/hotboard
		embedded
		rules_file DIR/rules.yaml
	}
	servers {
		trusted_proxies static 127.0.0.1/32
	}
}

http://ADDRESS {
	hotboard
	header Content-Type "text/html; charset=utf-8"
	respond "" {http.request.header.Replay-Status}
}
`

func replay(t *testing.T, lines []plaincount.Line) {
	var now atomic.Int64 // seconds since the Unix epoch
	now.Store(lines[0].Time.Unix())
	t.Cleanup(clock.Set(func() time.Time { return time.Unix(now.Load(), 0) }))

	site := runCaddy(t)
	client := &http.Client{
		Timeout:       20 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	for i, line := range lines {
		if _, err := url.ParseRequestURI(line.URI); err != nil {
			continue // no client could send it today; it is no page either
		}
		now.Store(line.Time.Unix())
		r, err := http.NewRequestWithContext(t.Context(), line.Method, site+line.URI, nil)
		if err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		r.Header = http.Header{
			"Accept":          {"text/html,application/xhtml+xml,*/*;q=0.8"},
			"User-Agent":      {strings.TrimPrefix(line.UserAgent, "-")}, // an empty one is not sent
			"X-Forwarded-For": {line.IP},
			"Replay-Status":   {strconv.Itoa(line.Status)},
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		resp.Body.Close()
		if resp.StatusCode != line.Status {
			t.Fatalf("line %d is answered %s instead of %d", i+1, resp.Status, line.Status)
		}
	}

	// Boards are built once a second of this clock: it goes on from here.
	last, began := lines[len(lines)-1].Time, time.Now()
	t.Cleanup(clock.Set(func() time.Time { return last.Add(time.Since(began)) }))
	want := plaincount.Count(lines)
	if days := want.Days(); len(days) < 4 {
		t.Fatalf("the log has views on %q alone: that proves little", days)
	}
	counted(t, func() error { return want.CheckTotals(t.Context(), site) })
	if err := want.CheckBoards(t.Context(), site); err != nil {
		t.Error(err)
	}
}

// runCaddy runs replayCaddyfile in this process and returns the URL of the site.
func runCaddy(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(plaincount.Rules), 0o600); err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", services.FreePort(t))
	text := strings.NewReplacer("DIR", dir, "ADDRESS", address).Replace(replayCaddyfile)
	config, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": filepath.Join(dir, "Caddyfile")})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	if err := caddy.Load(config, true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	return "http://" + address
}

// counted waits until check returns nil.
func counted(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("not everything is counted after a minute: %v", err)
		case <-tick.C:
		}
	}
}
