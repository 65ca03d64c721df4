package allinone

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hotboard/hotboard/e2e/damage"
	"github.com/hotboard/hotboard/internal/faults"
)

// site is a configuration in this process without a listener, of which there can
// be several.
type site struct {
	*caddyhttp.Server
	dir string
	app interface {
		caddy.App
		caddy.CleanerUpper
	}
}

// provisioning is held while Caddy provisions a configuration: it does so with one
// at a time.
var provisioning sync.Mutex

func startSite(t *testing.T, dir string) *site {
	t.Helper()
	data, _, err := caddyfile.Adapter{ServerType: httpcaddyfile.ServerType{}}.Adapt([]byte(caddyfileOf(dir, "")), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		t.Fatal(err)
	}
	cfg := new(caddy.Config)
	if err := json.Unmarshal(data, cfg); err != nil {
		t.Fatal(err)
	}
	provisioning.Lock()
	ctx, err := caddy.ProvisionContext(cfg)
	provisioning.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	s := &site{dir: dir}
	app, err := ctx.App("hotboard")
	if err != nil {
		t.Fatal(err)
	}
	s.app = app.(interface {
		caddy.App
		caddy.CleanerUpper
	})
	web, err := ctx.App("http")
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range web.(*caddyhttp.App).Servers {
		s.Server = server
	}
	if err := s.app.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *site) stop(t *testing.T) {
	t.Helper()
	if err := s.app.Cleanup(); err != nil {
		t.Error(err)
	}
}

func (s *site) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// beacon reports n views of an item by different visitors, until they are accepted.
func (s *site) beacon(t *testing.T, item string, n int) {
	t.Helper()
	var views []map[string]string
	for i := range n {
		views = append(views, map[string]string{"articleId": item, "fingerprint": fmt.Sprint(i)})
	}
	body, err := json.Marshal(views)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if w := s.do(request("POST", "/api/views", string(body))); w.Code != http.StatusAccepted {
			return fmt.Sprintf("a beacon: %d %s", w.Code, w.Body)
		}
		return ""
	})
}

// faulty waits until the backend shows a fault.
func (s *site) faulty(t *testing.T, kind faults.Kind) {
	t.Helper()
	eventually(t, func() (failed string) {
		backends.Range(func(dir, v any) bool {
			if dir == s.dir {
				found := v.(backend).Faults(t.Context())
				if !slices.ContainsFunc(found, func(f faults.Fault) bool { return f.Kind == kind }) {
					failed = fmt.Sprintf("the faults are %v, want %s", found, kind)
				}
			}
			return true
		})
		return failed
	})
}

// counts waits until the board of all time is as wanted.
func (s *site) counts(t *testing.T, want string) {
	t.Helper()
	eventually(t, func() string {
		w := s.do(request("GET", "/hot?list=articles&period=all", ""))
		var b board
		if err := json.Unmarshal(w.Body.Bytes(), &b); err != nil {
			t.Fatalf("%d %s: %v", w.Code, w.Body, err)
		}
		var got []string
		for _, i := range b.Items {
			got = append(got, fmt.Sprintf("%s:%d", i.ID, i.Views))
		}
		if got := strings.Join(got, " "); got != want {
			return fmt.Sprintf("the board has %q, want %q", got, want)
		}
		return ""
	})
}

// eventually waits until check returns "".
func eventually(t *testing.T, check func() string) {
	t.Helper()
	deadline, tick := time.NewTimer(patience), time.NewTicker(20*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for {
		failed := check()
		if failed == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatal(failed)
		}
	}
}

// directory sees to a directory in the place of a file. Where no other file can
// take its place, it is reported, and once it is gone all goes on.
func (s *site) directory(t *testing.T, file string) {
	t.Helper()
	path := filepath.Join(s.dir, file)
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return // was moved away
	}
	switch {
	case file == "counts.db-lock":
		s.faulty(t, faults.BackendAway)
	case strings.HasPrefix(file, "spool"):
		if w := s.do(request("POST", "/api/views", `{"articleId":"none"}`)); w.Code != http.StatusServiceUnavailable {
			t.Errorf("a beacon without a spool: %d %s", w.Code, w.Body)
		}
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

// TestDamage damages each file of a site that was killed in each way. The site
// comes up, serves pages, and counts exactly: no file is the only place of
// anything that was counted.
func TestDamage(t *testing.T) {
	t.Parallel()
	before := tempDir(t)
	s := startSite(t, before)
	s.beacon(t, "one", 10)
	s.counts(t, "one:10")
	s.stop(t) // moves SQLite's write-ahead log into the file
	s = startSite(t, before)
	s.beacon(t, "two", 5)
	s.counts(t, "one:10 two:5")
	killed := tempDir(t)
	if err := os.CopyFS(killed, os.DirFS(before)); err != nil {
		t.Fatal(err)
	}
	s.stop(t)

	for _, file := range damage.Files(t, killed) {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			running := map[string]*site{}
			for kind, apply := range damage.Kinds { // all at once: most of the time is waiting
				dir := tempDir(t)
				if err := os.CopyFS(dir, os.DirFS(killed)); err != nil {
					t.Fatal(err)
				}
				apply(t, filepath.Join(dir, file))
				s := startSite(t, dir)
				t.Cleanup(func() { s.stop(t) })
				running[kind] = s
				if w := s.do(request("GET", "/articles/page", "")); w.Code != http.StatusOK || w.Body.String() != "page" {
					t.Fatalf("%s: a page: %d %s", kind, w.Code, w.Body)
				}
				if kind != "a directory" {
					s.beacon(t, "three", 3)
				}
			}
			for kind, s := range running {
				t.Run(kind, func(t *testing.T) {
					if kind == "a directory" {
						s.directory(t, file)
						s.beacon(t, "three", 3)
					}
					s.counts(t, "one:10 two:5 three:3 page:1")
				})
			}
		})
	}
}
