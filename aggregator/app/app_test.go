package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hotboard/hotboard/aggregator/board"
	"github.com/hotboard/hotboard/aggregator/ingest"
	"github.com/hotboard/hotboard/aggregator/store/memstore"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/brokertest"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/internal/reading"
	"github.com/hotboard/hotboard/ruleset"
)

const testShards = 2

type fixture struct {
	*App
	t      *testing.T
	server *brokertest.Server
	nc     *nats.Conn // of an edge
	edge   *brokertest.Edge
	store  *memstore.Store
	load   func() (*ruleset.Rules, error)
}

func lists(names ...string) *ruleset.Rules {
	var c ruleset.Config
	for _, n := range names {
		c.Lists = append(c.Lists, &ruleset.ListConfig{Name: n})
	}
	return ruleset.MustCompile(c)
}

func start(t *testing.T, change func(*Options)) *fixture {
	t.Helper()
	s := brokertest.NewServer(t)
	f := &fixture{t: t, server: s, nc: s.Connect(), store: memstore.New(testShards)}
	f.edge = brokertest.NewEdge(t, s.JetStream(), "edge-1", testShards)
	f.edge.Rules = lists("articles").ID()
	f.load = func() (*ruleset.Rules, error) { return lists("articles", "more"), nil }
	o := Options{
		Store: f.store, Conn: s.Connect(), Rules: lists("articles"), Listen: "127.0.0.1:0",
		LoadRules: func() (*ruleset.Rules, error) { return f.load() },
		Slice:     20 * time.Millisecond,
		Log:       ingest.LogOptions{MaxBytes: 64 << 20},
		Logger:    brokertest.Logger(t),
	}
	if change != nil {
		change(&o)
	}
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Stop(t.Context()) })
	f.App = a
	return f
}

// get sends a request to the app's own listener.
func (f *fixture) get(path string) (status int, body string) {
	f.t.Helper()
	resp, err := http.Get("http://" + f.Addr().String() + path)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// request sends a request over NATS until an aggregator answers.
func request[T any](f *fixture, subject string, body []byte) (v T) {
	f.t.Helper()
	brokertest.Eventually(f.t, func() string {
		msg, err := f.nc.Request(subject, body, time.Second)
		if err != nil {
			return fmt.Sprintf("%s: %v", subject, err)
		}
		if err := json.Unmarshal(msg.Data, &v); err != nil {
			return fmt.Sprintf("%s: %v in %s", subject, err, msg.Data)
		}
		return ""
	})
	return v
}

// inForce waits until all shards have a revision in force.
func (f *fixture) inForce(number uint64) {
	f.t.Helper()
	brokertest.Eventually(f.t, func() string {
		shards, err := f.store.InForce(f.t.Context())
		for _, s := range shards {
			if err != nil || s.Revision != number {
				return fmt.Sprintf("in force: %+v, %v; want revision %d", shards, err, number)
			}
		}
		return ""
	})
}

func (f *fixture) counts(list string, views int64) {
	f.t.Helper()
	brokertest.Eventually(f.t, func() string {
		status, body := f.get("/hot?period=all&list=" + list)
		var b board.Board
		if status != 200 || json.Unmarshal([]byte(body), &b) != nil {
			return fmt.Sprintf("%d %s", status, body)
		}
		var n int64
		for _, r := range b.Items {
			n += r.Views
		}
		if n != views {
			return fmt.Sprintf("list %s has %d views, want %d", list, n, views)
		}
		return ""
	})
}

func TestFromTheLogToTheBoard(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	now := time.Now()
	f.edge.Send(brokertest.View("articles", "a", 1, now), brokertest.View("articles", "a", 2, now), brokertest.View("articles", "b", 1, now))
	f.counts("articles", 3)

	applied := request[hit.Applied](f, hit.SubjectApplied, []byte(`{"edge":"edge-1"}`))
	shard := hit.Shard(hit.View, "articles", "a", testShards)
	if applied.Shards[shard] != 1 {
		t.Errorf("applied = %+v", applied)
	}
	if none := request[hit.Applied](f, hit.SubjectApplied, []byte(`{"edge":"edge-2"}`)); len(none.Shards) != 0 {
		t.Errorf("applied of an edge that sent nothing = %+v", none)
	}
	question, bad := reading.Parse("/api/items/articles/a", "", nil, "")
	if bad != nil {
		t.Fatal(bad)
	}
	body, err := json.Marshal(question)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := f.nc.Request(hit.SubjectQuery, body, brokertest.Patience)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := reading.ReadAnswer(reply.Header, reply.Data)
	if err != nil {
		t.Fatal(err)
	}
	var item board.Item
	if err := json.Unmarshal(answer.Body, &item); err != nil || answer.Status != 200 || item.Views != 2 {
		t.Errorf("answer %d %s (%v)", answer.Status, answer.Body, err)
	}
	if status, body := f.get("/metrics"); status != 200 || !strings.Contains(body, `hotboard_hits_total{list="articles",reason="counted"} 3`) {
		t.Errorf("metrics: %d\n%s", status, body)
	}
	for path, want := range map[string]int{"/-/healthy": 200, "/-/ready": 200, "/openapi.yaml": 200, "/": 404, "/api/hot": 200,
		"/api/stats/articles": 200, "/api/items/articles/x//y": 404} {
		if status, body := f.get(path); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, body, want)
		}
	}
}

func TestReload(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	post := func(change func(*http.Request)) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/-/reload", nil)
		r.RemoteAddr = "127.0.0.1:1234"
		if change != nil {
			change(r)
		}
		w := httptest.NewRecorder()
		f.Handler().ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	if status, _ := f.get("/hot?list=more"); status != 404 {
		t.Fatalf("list more is there before the reload: %d", status)
	}
	for name, change := range map[string]func(*http.Request){
		"another machine":  func(r *http.Request) { r.RemoteAddr = "192.0.2.1:1234" },
		"through a proxy":  func(r *http.Request) { r.Header.Set("X-Forwarded-For", "192.0.2.1") },
		"a page elsewhere": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
	} {
		if status, body := post(change); status != 403 {
			t.Errorf("%s may reload: %d %s", name, status, body)
		}
	}
	good := f.load
	f.load = func() (*ruleset.Rules, error) { return nil, errors.New("rules.yaml:3:5: no") }
	if status, body := post(nil); status != 422 || !strings.Contains(body, "rules.yaml:3:5") {
		t.Errorf("rules that cannot be read: %d %s", status, body)
	}
	if f.Rules().List("articles") == nil || f.Rules().List("more") != nil {
		t.Error("rules that were refused are in force")
	}
	f.edge.Send(brokertest.View("more", "x", 1, time.Now())) // under rules without the list
	brokertest.Eventually(t, func() string {
		if _, body := f.get("/metrics"); !strings.Contains(body, `reason="unknown_list"} 1`) {
			return "the hit of an unknown list is not counted as one"
		}
		return ""
	})
	f.load = good
	if status, body := post(nil); status != 200 {
		t.Fatalf("reload: %d %s", status, body)
	}
	f.counts("more", 0)
	f.edge.Send(brokertest.View("more", "x", 2, time.Now())) // the edge has not been reloaded
	f.edge.Rules = f.Rules().ID()
	f.edge.Send(brokertest.View("more", "x", 3, time.Now()))
	f.counts("more", 1)
}

func TestReloadToken(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options) { o.ReloadToken = "secret" })
	for token, want := range map[string]int{"": 403, "Bearer wrong": 403, "secret": 403, "Bearer secret": 200} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/-/reload", nil)
		r.RemoteAddr = "127.0.0.1:1234"
		r.Header.Set("Authorization", token)
		w := httptest.NewRecorder()
		f.Handler().ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("Authorization %q: %d, want %d", token, w.Code, want)
		}
	}
}

func TestReadyTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	ready := func(kind faults.Kind) {
		t.Helper()
		brokertest.Eventually(t, func() string {
			status, body := f.get("/-/ready")
			var v struct {
				Ready  bool
				Faults []faults.Fault
			}
			if err := json.Unmarshal([]byte(body), &v); err != nil {
				t.Fatal(err)
			}
			if kind == "" && status == 200 && v.Ready && len(v.Faults) == 0 {
				return ""
			}
			if kind != "" && status == 503 && !v.Ready {
				for _, x := range v.Faults {
					if x.Kind == kind {
						return ""
					}
				}
			}
			return fmt.Sprintf("want fault %q, got %d %s", kind, status, body)
		})
	}
	ready("")
	f.server.Stop()
	ready(faults.LogAway)
	f.server.Start()
	ready("")
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	ready(faults.StoreAway)
	if status, body := f.get("/-/healthy"); status != 200 {
		t.Errorf("not healthy because the store is away: %d %s", status, body)
	}
}

// A failure is an answer that nobody can mistake for a fact.
func TestFailuresAreAnswers(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	failed := func(body, want string) {
		t.Helper()
		msg, err := f.nc.Request(hit.SubjectApplied, []byte(body), brokertest.Patience)
		if err != nil {
			t.Fatal(err)
		}
		if err := hit.ReplyError(msg.Header); err == nil || !strings.Contains(err.Error(), want) || len(msg.Data) > 0 {
			t.Errorf("%q was answered %q, %v; want the error %q", body, msg.Data, err, want)
		}
	}
	for _, body := range []string{"", "edge-1"} {
		failed(body, "reading an edge's report")
	}
	for _, body := range []string{`{}`, `{"edge":"NOT AN EDGE"}`, `{"edge":"` + strings.Repeat("x", 65) + `"}`} {
		failed(body, "is not the id of an edge")
	}
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	failed(`{"edge":"edge-1"}`, "reading how far edge edge-1 is applied")
}

func TestStartRefusesALogOfOtherShards(t *testing.T) {
	t.Parallel()
	s := brokertest.NewServer(t)
	if err := ingest.EnsureStreams(t.Context(), s.JetStream(), testShards+1, ingest.LogOptions{MaxBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	a, err := New(Options{Store: memstore.New(testShards), Conn: s.Connect(), Rules: lists("articles"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	brokertest.Eventually(t, func() string {
		if !a.opts.Conn.IsConnected() {
			return "not connected"
		}
		return ""
	})
	if err := a.Start(t.Context()); !errors.Is(err, ingest.ErrShards) {
		t.Errorf("Start: %v", err)
	}
}

func TestStopLeavesNothingBehind(t *testing.T) {
	s := brokertest.NewServer(t)
	nc, st := s.Connect(), memstore.New(testShards)
	cycle := func() {
		a, err := New(Options{Store: st, Conn: nc, Rules: lists("articles"), Listen: "127.0.0.1:0",
			Log: ingest.LogOptions{MaxBytes: 64 << 20}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		brokertest.Eventually(t, func() string {
			if f := a.Faults(t.Context()); len(f) > 0 {
				return fmt.Sprintf("%+v", f)
			}
			return ""
		})
		if err := a.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := a.Stop(t.Context()); err != nil {
			t.Errorf("second Stop: %v", err)
		}
	}
	cycle()
	before := runtime.NumGoroutine()
	for range 5 {
		cycle()
	}
	brokertest.Eventually(t, func() string {
		if n := runtime.NumGoroutine(); n > before {
			buf := make([]byte, 1<<20)
			return fmt.Sprintf("%d goroutines, %d before\n%s", n, before, buf[:runtime.Stack(buf, true)])
		}
		return ""
	})
}
