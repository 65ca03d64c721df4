package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/memstore"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/brokertest"
	"github.com/hotboard/hotboard/internal/faults"
)

// purge removes all messages from the log.
func (f *fixture) purge() {
	f.t.Helper()
	js, err := jetstream.New(f.nc)
	if err != nil {
		f.t.Fatal(err)
	}
	stream, err := js.Stream(f.t.Context(), hit.Stream)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := stream.Purge(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// incomplete waits until the fault is active with all of texts, or gone when there
// are none.
func incomplete(t *testing.T, a *App, texts ...string) {
	t.Helper()
	brokertest.Eventually(t, func() string {
		got := message(a.faults, faults.Incomplete)
		if (got == "") != (len(texts) == 0) {
			return fmt.Sprintf("the fault is %q", got)
		}
		for _, text := range texts {
			if !strings.Contains(got, text) {
				return fmt.Sprintf("the fault is %q, without %q", got, text)
			}
		}
		return ""
	})
}

// An empty store behind a log that has lost its beginning lacks hits. That stays a
// fault, over restarts and at every aggregator, until an operator acknowledges it.
func TestEmptyStoreBehindAShortenedLog(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.inForce(1) // by a message in each shard
	now := time.Now()
	for i := range 6 {
		f.edge.Send(brokertest.View("articles", "a", uint64(i), now))
	}
	f.counts("articles", 6)
	if found := f.Faults(t.Context()); len(found) > 0 {
		t.Fatalf("before: %+v", found)
	}
	if err := f.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.purge()
	f.store.Restore(memstore.New(testShards).Snapshot())

	next := func() *App {
		t.Helper()
		a, err := New(f.opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Stop(t.Context()) })
		return a
	}
	f.opts.Registry, f.opts.BehindAfter = nil, time.Second // checks ten times as often
	reset := func() { f.opts.Registry = nil }
	a := next()
	incomplete(t, a, "all messages of the log before message 9 (the store of 2 shards was empty)")

	shard := hit.Shard(hit.View, "articles", "a", testShards)
	f.edge.Low = 7 // the edge knows that the first six are counted
	f.edge.Send(brokertest.View("articles", "a", 7, now))
	texts := []string{"before message 9", fmt.Sprintf("6 batches of edge edge-1 (1 to 6 of shard %d)", shard)}
	incomplete(t, a, texts...)
	if err := a.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	reset()
	a = next()
	incomplete(t, a, texts...)
	reset()
	other := next()
	incomplete(t, other, texts...)

	post := func(change func(*http.Request)) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/-/acknowledge", nil)
		r.RemoteAddr = "127.0.0.1:1234"
		change(r)
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, r)
		return w
	}
	for name, change := range map[string]func(*http.Request){
		"another machine":  func(r *http.Request) { r.RemoteAddr = "192.0.2.1:1234" },
		"a page elsewhere": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"a GET":            func(r *http.Request) { r.Method = http.MethodGet },
	} {
		if w := post(change); w.Code < 400 {
			t.Errorf("%s may acknowledge: %d %s", name, w.Code, w.Body)
		}
	}
	incomplete(t, a, texts...)
	var answer struct{ Acknowledged []store.Loss }
	if w := post(func(*http.Request) {}); w.Code != 200 || json.Unmarshal(w.Body.Bytes(), &answer) != nil || len(answer.Acknowledged) != testShards+1 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if got := message(a.faults, faults.Incomplete); got != "" {
		t.Errorf("acknowledged, and still %q", got)
	}
	incomplete(t, other)
	if w := post(func(*http.Request) {}); w.Code != 200 || strings.TrimSpace(w.Body.String()) != `{"acknowledged":[]}` {
		t.Errorf("a second time: %d %s", w.Code, w.Body)
	}
}

// A shard without hits is not an empty store, whatever the log has lost since.
func TestShardWithoutHitsIsComplete(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	now := time.Now()
	f.edge.Send(brokertest.View("articles", "a", 1, now)) // to one of two shards
	f.counts("articles", 1)
	brokertest.Eventually(t, func() string { // all workers have begun
		for shard := range testShards {
			if p, err := f.store.Position(t.Context(), shard); err != nil || p == (store.Position{}) {
				return fmt.Sprintf("shard %d is at %+v, %v", shard, p, err)
			}
		}
		return ""
	})
	if err := f.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.purge()
	f.opts.Registry = nil
	a, err := New(f.opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Stop(t.Context()) })
	f.edge.Send(brokertest.View("articles", "a", 2, now))
	f.App = a
	f.counts("articles", 2)
	if found := a.Faults(t.Context()); len(found) > 0 {
		t.Errorf("faults: %+v", found)
	}
}
