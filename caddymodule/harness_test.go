package caddymodule

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	dto "github.com/prometheus/client_model/go"

	"github.com/hotboard/hotboard/caddymodule/internal/clock"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// patience bounds all waits; nothing takes that long unless it fails.
const patience = 20 * time.Second

const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"

// natsLog is a NATS server in this process that plays the log and, when asked
// to, the aggregator.
type natsLog struct {
	url    string
	conn   *nats.Conn
	server *server.Server
	hits   chan hit.Hit

	mu      sync.Mutex
	applied map[string]map[int]uint64 // by edge
}

// startLog starts a server with the log's stream. Batches are acknowledged as
// applied as soon as they are in the log.
func startLog(t testing.TB, shards int) *natsLog {
	t.Helper()
	l := &natsLog{hits: make(chan hit.Hit, 1<<16), applied: make(map[string]map[int]uint64)}
	l.server = startNATS(t, -1, t.TempDir())
	l.url = l.server.ClientURL()
	nc, err := nats.Connect(l.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	l.conn = nc
	createStream(t, nc, shards)
	l.subscribe(t, hit.SubjectHits+".>", func(m *nats.Msg) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, b := range batchesOf(t, m) {
			if l.applied[b.Edge] == nil {
				l.applied[b.Edge] = make(map[int]uint64)
			}
			low, _ := strconv.ParseUint(m.Header.Get(hit.HeaderLow), 10, 64)
			l.applied[b.Edge][b.Shard] = max(l.applied[b.Edge][b.Shard], max(low, 1)-1) // lower batches are lost
			if b.Seq != l.applied[b.Edge][b.Shard]+1 {
				continue // sent again
			}
			l.applied[b.Edge][b.Shard] = b.Seq
			for _, h := range b.Hits {
				l.hits <- h
			}
		}
	})
	l.subscribe(t, hit.SubjectApplied, func(m *nats.Msg) {
		l.mu.Lock()
		defer l.mu.Unlock()
		var waiting hit.Waiting
		if err := json.Unmarshal(m.Data, &waiting); err != nil {
			t.Error(err)
		}
		applied := hit.Applied{Shards: l.applied[waiting.Edge]}
		if applied.Shards == nil {
			applied.Shards = map[int]uint64{}
		}
		data, _ := json.Marshal(applied)
		m.Respond(data)
	})
	return l
}

// batchesOf returns the batches of a message that an edge has published.
func batchesOf(t testing.TB, m *nats.Msg) []*hit.Batch {
	t.Helper()
	shard, edge, err := hit.ParseSubject(m.Subject)
	if err != nil {
		t.Error(err)
	}
	first, _ := strconv.ParseUint(m.Header.Get(hit.HeaderSeq), 10, 64) // 0 is no batch's
	last, err := strconv.ParseUint(m.Header.Get(hit.HeaderLast), 10, 64)
	if err != nil {
		last = first
	}
	batches, err := hit.DecodeMessage(m.Data, edge, shard, first, last-first+1)
	if err != nil {
		t.Errorf("the edge published what cannot be read: %v", err)
		return nil
	}
	return batches
}

func startNATS(t testing.TB, port int, dir string) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatal("the NATS server does not start")
	}
	return s
}

func createStream(t testing.TB, nc *nats.Conn, shards int) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	_, err = js.CreateOrUpdateStream(context.Background(), jetstream.StreamConfig{
		Name:     hit.Stream,
		Subjects: []string{hit.SubjectHits + ".*.*"},
		Metadata: map[string]string{hit.StreamShards: fmt.Sprint(shards)},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (l *natsLog) subscribe(t testing.TB, subject string, handler nats.MsgHandler) *nats.Subscription {
	t.Helper()
	sub, err := l.conn.Subscribe(subject, handler)
	if err == nil {
		err = l.conn.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

// next waits for a hit.
func (l *natsLog) next(t testing.TB) hit.Hit {
	t.Helper()
	select {
	case h := <-l.hits:
		return h
	case <-time.After(patience):
		t.Fatal("no hit arrives in the log")
		return hit.Hit{}
	}
}

// edge is a Caddy configuration in this process, without a listener.
type edge struct {
	*caddyhttp.Server
	app *App
	ctx caddy.Context
}

// startEdge provisions and starts a Caddyfile. Occurrences of NATS and DIR in it
// are replaced.
func startEdge(t testing.TB, l *natsLog, config string) *edge {
	t.Helper()
	config = strings.ReplaceAll(config, "DIR", t.TempDir())
	if l != nil {
		config = strings.ReplaceAll(config, "NATS", "nats "+l.url+" {\n shards 1\n }")
	}
	e, err := provisionEdge(t, config)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.app.Start(); err != nil {
		t.Fatal(err)
	}
	return e
}

func provisionEdge(t testing.TB, config string) (*edge, error) {
	t.Helper()
	ctx, err := caddy.ProvisionContext(adapt(t, config))
	if err != nil {
		return nil, err
	}
	e := edgeOf(t, ctx)
	t.Cleanup(func() {
		if err := e.app.Cleanup(); err != nil {
			t.Errorf("cleaning up: %v", err)
		}
	})
	return e, nil
}

// rules returns the rules in force.
func (e *edge) rules() *ruleset.Rules { return e.app.generation.Load().rules }

func edgeOf(t testing.TB, ctx caddy.Context) *edge {
	t.Helper()
	httpApp, err := ctx.App("http")
	if err != nil {
		t.Fatal(err)
	}
	app, err := ctx.App("hotboard")
	if err != nil {
		t.Fatal(err)
	}
	e := &edge{app: app.(*App), ctx: ctx}
	for _, s := range httpApp.(*caddyhttp.App).Servers {
		e.Server = s
	}
	return e
}

func adapt(t testing.TB, config string) *caddy.Config {
	t.Helper()
	cfg := new(caddy.Config)
	if err := json.Unmarshal(adaptJSON(t, config), cfg); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func adaptJSON(t testing.TB, config string) []byte {
	t.Helper()
	data, _, err := caddyfile.Adapter{ServerType: httpcaddyfile.ServerType{}}.Adapt([]byte(config), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		t.Fatalf("adapting:\n%s\n%v", config, err)
	}
	return data
}

// do sends a request to the edge, and returns when it is dealt with.
func (e *edge) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	return w
}

// browse is the request of a person's browser for a page.
func browse(path string, header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "http://example.com"+path, nil)
	r.Header.Set("User-Agent", firefox)
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	r.Header.Set("Sec-Fetch-Dest", "document")
	setHeaders(r, header)
	return r
}

// fetch is the request of a page's script.
func fetch(method, path, body string, header ...string) *http.Request {
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, "http://example.com"+path, content)
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil }
	r.Header.Set("User-Agent", firefox)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Sec-Fetch-Dest", "empty")
	r.Header.Set("Content-Type", "application/json")
	setHeaders(r, header)
	return r
}

// setHeaders sets name, value pairs; an empty value removes the header.
func setHeaders(r *http.Request, header []string) {
	for i := 0; i < len(header); i += 2 {
		if header[i+1] == "" {
			r.Header.Del(header[i])
		} else {
			r.Header.Set(header[i], header[i+1])
		}
	}
}

// counted returns how often a list's requests had a reason so far.
func counted(list string, reason ruleset.Reason) int {
	var m dto.Metric
	if err := requestsTotal.WithLabelValues(list, string(reason)).Write(&m); err != nil {
		panic(err)
	}
	return int(m.GetCounter().GetValue())
}

// errorCode returns the code in an error's body.
func errorCode(t testing.TB, w *httptest.ResponseRecorder) string {
	t.Helper()
	var body struct {
		Error      struct{ Code, Message string }
		RetryAfter int `json:"retry_after"`
	}
	dec := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&body); err != nil {
		t.Fatalf("the body %q is no error: %v", w.Body, err)
	}
	if m := body.Error.Message; !strings.HasSuffix(m, ".") || strings.ToLower(m[:1]) == m[:1] {
		t.Errorf("the message %q is no sentence", m)
	}
	return body.Error.Code
}

// clientAddr parses an address.
func clientAddr(t testing.TB, s string) netip.Addr {
	t.Helper()
	ip, err := netip.ParseAddr(s)
	if err != nil {
		t.Fatal(err)
	}
	return ip
}

// stopClock makes the edges' time stand still until the test ends, so that no
// window of a limit ends meanwhile.
func stopClock(t testing.TB) {
	t.Helper()
	now := time.Now()
	t.Cleanup(clock.Set(func() time.Time { return now }))
}
