package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotboard/hotboard/aggregator/board"
	"github.com/hotboard/hotboard/aggregator/fold"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/memstore"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/reading"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// fixture is an API over a store in memory, with a clock that stands still.
type fixture struct {
	*API
	t     *testing.T
	store *spy
	rules *ruleset.Rules
	now   time.Time
	seq   uint64
}

// spy counts reads, and can fail or delay them.
type spy struct {
	*memstore.Store
	reads atomic.Int64
	err   error
	gate  chan struct{} // when set, reads wait for it
}

func (s *spy) Top(ctx context.Context, set store.Set, n int) ([][]store.Entry, error) {
	s.reads.Add(1)
	if s.gate != nil {
		<-s.gate
	}
	if s.err != nil {
		return nil, s.err
	}
	return s.Store.Top(ctx, set, n)
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{
		t: t, store: &spy{Store: memstore.New(1)},
		now: time.Date(2026, 11, 20, 12, 0, 0, 300e6, time.UTC),
		rules: ruleset.MustCompile(ruleset.Config{Lists: []*ruleset.ListConfig{
			{Name: "articles"},
			{Name: "sums", Score: ruleset.Score{Model: ruleset.HalfLife}, Boards: []calendar.Period{calendar.Day}},
			{Name: "classic", Score: ruleset.Score{Model: ruleset.Accumulate}},
			{Name: "plain", Score: ruleset.Score{Model: ruleset.Count}},
			{Name: "empty"},
		}}),
	}
	get, now := func() *ruleset.Rules { return f.rules }, func() time.Time { return f.now }
	f.API = New(Options{
		Boards: board.New(f.store, get, now), Rules: get, Now: now,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	return f
}

// view counts one view by a new visitor.
func (f *fixture) view(list, item string, ago time.Duration) {
	f.t.Helper()
	ctx := f.t.Context()
	state, err := f.store.Load(ctx, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	f.seq++
	h := hit.Hit{Kind: hit.View, List: list, Item: item, Visitor: f.seq, Time: f.now.Add(-ago).UnixMilli()}
	msg := fold.Message{
		Seq: f.seq, Received: f.now, Subject: hit.Subject(0, "e"), Edge: "e", BatchSeq: f.seq, Low: 1,
		LastSeq: f.seq, Batches: []*hit.Batch{{Edge: "e", Seq: f.seq, Hits: []hit.Hit{h}}},
	}
	folder := fold.Folder{Rules: func(context.Context, hit.RulesID) (*ruleset.Rules, error) { return f.rules, nil }, Store: f.store}
	res, err := folder.Fold(ctx, 0, state, []fold.Message{msg})
	if err == nil {
		err = f.store.Commit(ctx, 0, res.Commit)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// fill gives history to every list but one.
func (f *fixture) fill() {
	for _, l := range []string{"articles", "sums", "classic", "plain"} {
		for i := range 12 {
			for n := range i + 1 {
				f.view(l, fmt.Sprintf("2026/item %d", i), time.Duration(i*n)*time.Hour)
			}
		}
	}
}

func (f *fixture) get(url string, header ...string) *httptest.ResponseRecorder {
	f.t.Helper()
	return f.do(http.MethodGet, url, header...)
}

func (f *fixture) post(url, body string, header ...string) *httptest.ResponseRecorder {
	f.t.Helper()
	return f.send(httptest.NewRequestWithContext(f.t.Context(), http.MethodPost, url, strings.NewReader(body)), header...)
}

func (f *fixture) do(method, url string, header ...string) *httptest.ResponseRecorder {
	f.t.Helper()
	return f.send(httptest.NewRequestWithContext(f.t.Context(), method, url, nil), header...)
}

func (f *fixture) send(r *http.Request, header ...string) *httptest.ResponseRecorder {
	f.t.Helper()
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w
}

// ask sends a question like an edge.
func (f *fixture) ask(path, query, body string) *reading.Answer {
	f.t.Helper()
	q, bad := reading.Parse(path, query, []byte(body), f.rules.Lists[0].Name)
	if bad != nil {
		return bad.Answer()
	}
	return f.Answer(f.t.Context(), q)
}

func decode[T any](t *testing.T, body []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return v
}

func TestBoard(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.fill()
	w := f.get("/hot?list=plain&period=all&limit=3&offset=1")
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("status %d, %v", w.Code, w.Header())
	}
	b := decode[board.Board](t, w.Body.Bytes())
	if b.List != "plain" || b.Period != "all" || len(b.Items) != 3 || b.Items[0].ID != "2026/item 10" || b.Items[0].Rank != 2 || b.Items[0].Views != 11 {
		t.Errorf("board = %s", w.Body)
	}
	if got, want := w.Header().Get("Cache-Control"), "public, max-age=1, stale-while-revalidate=60"; got != want {
		t.Errorf("Cache-Control %q, want %q", got, want)
	}
	// The list defaults to the first, the period to hot, the limit to 10.
	d := decode[board.Board](t, f.get("/api/hot").Body.Bytes())
	if d.List != "articles" || d.Period != "hot" || len(d.Items) != 10 {
		t.Errorf("default board: list %s, period %s, %d items", d.List, d.Period, len(d.Items))
	}
	past := decode[board.Board](t, f.get("/hot?period=hour&at=2026-11-20T10:59:59%2B01:00").Body.Bytes())
	if past.From == nil || past.From.Hour() != 9 {
		t.Errorf("past board: %+v", past)
	}
	item := decode[board.Item](t, f.get("/api/items/plain/2026/item%2011").Body.Bytes())
	if item.ID != "2026/item 11" || item.Views != 12 {
		t.Errorf("item = %+v", item)
	}
	if stats := decode[board.Stats](t, f.get("/api/stats/plain").Body.Bytes()); stats.Items != 12 || stats.Periods["all"].Views != 78 {
		t.Errorf("stats = %+v", stats)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.fill()
	for _, c := range []struct {
		url    string
		status int
		code   string
	}{
		{"/hot?list=nope", 404, "unknown_list"},
		{"/api/stats/nope", 404, "unknown_list"},
		{"/api/stats/plain/x", 404, "unknown_list"},
		{"/api/stats/", 404, "unknown_list"},
		{"/api/items/nope/x", 404, "unknown_list"},
		{"/api/items/plain/nope", 404, "unknown_item"},
		{"/api/items/plain/", 400, "bad_item"},
		{"/api/items/plain", 400, "bad_item"},
		{"/api/items/plain/a%00b", 400, "bad_item"},
		{"/api/items/plain/%ff", 400, "bad_item"},
		{"/api/items/plain/" + strings.Repeat("x", hit.MaxIDBytes+1), 400, "bad_item"},
		{"/api/items/plain/x?limit=1", 400, "unknown_parameter"},
		{"/hot?list=sums&period=hour", 404, "not_kept"},
		{"/hot?period=hour&at=2020-01-01T00:00:00Z", 404, "not_kept"},
		{"/hot?period=year", 400, "bad_period"},
		{"/hot?limit=0", 400, "bad_limit"},
		{"/hot?limit=1001", 400, "bad_limit"},
		{"/hot?limit=ten", 400, "bad_limit"},
		{"/hot?limit=99999999999999999999", 400, "bad_limit"},
		{"/hot?offset=-1", 400, "bad_offset"},
		{"/hot?offset=10001", 400, "bad_offset"},
		{"/hot?at=yesterday", 400, "bad_at"},
		{"/hot?at=1969-12-31T23:59:59Z", 400, "bad_at"},
		{"/hot?explain=yes", 400, "bad_explain"},
		{"/hot?view=shown", 400, "unknown_parameter"},
		{"/hot?unseen_for=me", 400, "unknown_parameter"},
		{"/hot?limit=1&limit=2", 400, "repeated_parameter"},
		{"/hot?list=%zz", 400, "bad_query"},
		{"/hot?list=" + strings.Repeat("x", reading.MaxURLBytes), 414, "query_too_long"},
		{"/api/other", 404, "not_found"},
		{"/api/boards/", 400, "bad_list"},
		{"/api/boards/plain", 400, "bad_period"},
		{"/api/boards/plain/year", 400, "bad_period"},
		{"/api/boards/nope/day", 404, "unknown_list"},
		{"/api/boards/plain/day?limit=0", 400, "bad_limit"},
		{"/api/boards/plain/day?list=sums", 400, "repeated_parameter"},
	} {
		w := f.get(c.url)
		e := decode[struct{ Error reading.Error }](t, w.Body.Bytes()).Error
		if w.Code != c.status || e.Code != c.code || e.Message == "" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%.80s: %d %v %s, want %d %s", c.url, w.Code, w.Header(), w.Body, c.status, c.code)
		}
		path, query, _ := strings.Cut(c.url, "?")
		if a := f.ask(path, query, ""); a.Status != c.status || string(a.Body) != w.Body.String() {
			t.Errorf("%.80s: at an edge %d %s, over HTTP %d %s", c.url, a.Status, a.Body, w.Code, w.Body)
		}
	}
	w := f.do(http.MethodPost, "/hot")
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") == "" || !strings.Contains(w.Body.String(), "method_not_allowed") {
		t.Errorf("POST: %d %v %s", w.Code, w.Header(), w.Body)
	}
}

func TestEntityTag(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.view("plain", "a", 0)
	first := f.get("/hot?list=plain&period=all")
	etag := first.Header().Get("ETag")
	f.now = f.now.Add(time.Minute)
	if w := f.get("/hot?list=plain&period=all", "If-None-Match", `"x", `+etag); w.Code != http.StatusNotModified || w.Body.Len() != 0 {
		t.Errorf("same counts a minute later: %d %s", w.Code, w.Body)
	}
	if w := f.get("/hot?list=plain&period=all", "If-None-Match", "*"); w.Code != http.StatusNotModified {
		t.Errorf("any tag: %d", w.Code)
	}
	f.view("plain", "b", 0)
	f.now = f.now.Add(time.Minute)
	if w := f.get("/hot?list=plain&period=all", "If-None-Match", etag); w.Code != http.StatusOK || w.Header().Get("ETag") == etag {
		t.Errorf("other counts: %d %s", w.Code, w.Header().Get("ETag"))
	}
}

func TestBuiltOncePerSlice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.view("plain", "a", 0)
	f.store.gate = make(chan struct{})
	var wg sync.WaitGroup
	for _, query := range []string{"list=plain&limit=10", "limit=10&list=plain", "list=plain", "list=plain&offset=0&explain=false"} {
		for range 10 {
			wg.Go(func() { f.get("/hot?" + query) })
		}
	}
	close(f.store.gate)
	wg.Wait()
	if n := f.store.reads.Load(); n != 1 {
		t.Errorf("%d reads for one question in one slice, want 1", n)
	}
	a := f.ask("/hot", "list=plain", "")
	if w := f.get("/hot?list=plain"); a.ETag == "" || a.ETag != w.Header().Get("ETag") {
		t.Errorf("entity tag over NATS %q, over HTTP %q", a.ETag, w.Header().Get("ETag"))
	}
	if a.Status != 200 || a.Holds != 700*time.Millisecond || f.store.reads.Load() != 1 {
		t.Errorf("over NATS: %+v, %d reads", a, f.store.reads.Load())
	}
	f.now = f.now.Add(700 * time.Millisecond) // the next slice begins
	f.get("/hot?list=plain")
	if n := f.store.reads.Load(); n != 2 {
		t.Errorf("%d reads in two slices, want 2", n)
	}
	f.Forget()
	f.get("/hot?list=plain")
	if n := f.store.reads.Load(); n != 3 {
		t.Errorf("%d reads after the rules changed, want 3", n)
	}
}

func TestStoreAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.store.err = errors.New("connection refused at 10.1.2.3")
	w := f.get("/hot?list=plain")
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), "10.1.2.3") {
		t.Errorf("store away: %d %v %s", w.Code, w.Header(), w.Body)
	}
	f.store.err = nil
	if w := f.get("/hot?list=plain"); w.Code != http.StatusOK {
		t.Errorf("store back in the same slice: %d %s", w.Code, w.Body)
	}
}

func TestImpatientCallerDoesNotSpoilTheAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.store.gate = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q, bad := reading.Parse("/hot", "list=plain", nil, "")
	if bad != nil {
		t.Fatal(bad)
	}
	if a := f.Answer(ctx, q); a.Status != 503 || a.Holds != 0 {
		t.Errorf("impatient: %+v", a)
	}
	close(f.store.gate)
	if a := f.ask("/hot", "list=plain", ""); a.Status != 200 {
		t.Errorf("patient: %+v", a)
	}
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.fill()
	for i := range 2 * cacheBytes / (20 << 10) {
		r := reading.Request{Kind: reading.BoardOf, List: "plain", Period: "all", Limit: 1, Offset: i, At: reading.NoTime}
		f.cache.Set(r, entry{answer: &reading.Answer{Body: make([]byte, 20<<10)}})
	}
	f.cache.CleanUp()
	if n := f.cache.WeightedSize(); n > cacheBytes || n < cacheBytes/2 {
		t.Errorf("%d bytes of answers, want up to %d", n, cacheBytes)
	}
}
