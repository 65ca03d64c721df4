package importer

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hotboard/hotboard/aggregator/app"
	"github.com/hotboard/hotboard/aggregator/ingest"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/memstore"
	"github.com/hotboard/hotboard/internal/brokertest"
	"github.com/hotboard/hotboard/ruleset"
)

const testShards = 3

const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"

func rules(t *testing.T, lists ...*ruleset.ListConfig) *ruleset.Rules {
	t.Helper()
	if len(lists) == 0 {
		lists = []*ruleset.ListConfig{{Name: "articles", Pages: []string{"/articles/{id}"}}}
	}
	return ruleset.MustCompile(ruleset.Config{Lists: lists})
}

type fixture struct {
	t      *testing.T
	server *brokertest.Server
	nc     *nats.Conn
	store  *memstore.Store
}

func newFixture(t *testing.T, r *ruleset.Rules) *fixture {
	t.Helper()
	s := brokertest.NewServer(t)
	f := &fixture{t: t, server: s, nc: s.Connect(), store: memstore.New(testShards)}
	a, err := app.New(app.Options{Store: f.store, Conn: s.Connect(), Rules: r,
		Log: ingest.LogOptions{MaxBytes: 64 << 20}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Stop(context.Background()) })
	if err := ingest.EnsureStreams(t.Context(), s.JetStream(), testShards, ingest.LogOptions{MaxBytes: 64 << 20}); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) imports(r *ruleset.Rules, log []byte) *Summary {
	f.t.Helper()
	s, err := Import(f.t.Context(), Options{Conn: f.nc, Rules: r}, bytes.NewReader(log))
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// scores returns the views of every item of a list.
func (f *fixture) scores(list string) map[string]int {
	f.t.Helper()
	shards, err := f.store.Top(f.t.Context(), store.AllSet(list), 1000)
	if err != nil {
		f.t.Fatal(err)
	}
	got := map[string]int{}
	for _, entries := range shards {
		for _, e := range entries {
			got[e.Item] = int(e.Views)
		}
	}
	return got
}

// accessLog is a log of n requests in combined format, each by another visitor
// and for the item i modulo 7.
func accessLog(n int) []byte {
	var b bytes.Buffer
	at := time.Date(2015, 5, 17, 10, 0, 0, 0, time.UTC)
	for i := range n {
		fmt.Fprintf(&b, "10.%d.%d.%d - - [%s] \"GET /articles/%d HTTP/1.1\" 200 1 \"-\" %q\n",
			i>>16, i>>8&255, i&255, at.Add(time.Duration(i)*time.Second).Format("02/Jan/2006:15:04:05 -0700"), i%7, firefox)
	}
	return b.Bytes()
}

func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

func TestImportTwiceIsImportOnce(t *testing.T) {
	t.Parallel()
	r := rules(t)
	f := newFixture(t, r)
	log := accessLog(3*linesPerBatch + 5)
	s := f.imports(r, log)
	if s.Lines != 3*linesPerBatch+5 || s.Views["articles"] != s.Lines || s.Already {
		t.Errorf("summary %+v", s)
	}
	first := f.scores("articles")
	if sum(first) != s.Lines || len(first) != 7 {
		t.Errorf("counted %v", first)
	}
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := w.Write(log); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, again := range map[string][]byte{"again": log, "compressed": z.Bytes()} {
		s := f.imports(r, again)
		if got := f.scores("articles"); !s.Already || fmt.Sprint(got) != fmt.Sprint(first) {
			t.Errorf("%s: %+v, counted %v, want %v", name, s, got, first)
		}
	}
	// Another log is another log.
	f.imports(r, log[:len(log)/2])
	if got := f.scores("articles"); sum(got) <= sum(first) {
		t.Errorf("half of the log as a log of its own: %v", got)
	}
}

func TestImportGoesOnWhereItWasBrokenOff(t *testing.T) {
	t.Parallel()
	r := rules(t)
	f := newFixture(t, r)
	log := accessLog(10 * linesPerBatch)
	for _, after := range []int{1, 3, 7} {
		ctx, cancel := context.WithCancel(t.Context())
		o := Options{Conn: f.nc, Rules: r, Progress: func(p Progress) {
			if p.Lines >= after*linesPerBatch {
				cancel()
			}
		}}
		if _, err := Import(ctx, o, bytes.NewReader(log)); !errors.Is(err, context.Canceled) {
			t.Errorf("broken off: %v", err)
		}
		cancel()
	}
	f.imports(r, log)
	if got := f.scores("articles"); sum(got) != 10*linesPerBatch {
		t.Errorf("%d views counted, want %d", sum(got), 10*linesPerBatch)
	}
}

func TestListsAreImportedOneByOne(t *testing.T) {
	t.Parallel()
	r := rules(t,
		&ruleset.ListConfig{Name: "articles", Pages: []string{"/articles/{id}"}},
		&ruleset.ListConfig{Name: "pages", Pages: []string{"/{id...}"}},
		&ruleset.ListConfig{Name: "beacons"},
		&ruleset.ListConfig{Name: "poll", Votes: &ruleset.Votes{Options: []string{"*"}}},
		&ruleset.ListConfig{Name: "placeholder", ID: "{http.request.uri.query.id}"})
	f := newFixture(t, r)
	log := accessLog(300)
	one := func(list string) *Summary {
		s, err := Import(t.Context(), Options{Conn: f.nc, Rules: r, List: list}, bytes.NewReader(log))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	one("pages")
	if a, p := sum(f.scores("articles")), sum(f.scores("pages")); a != 0 || p != 300 {
		t.Errorf("%d articles and %d pages", a, p)
	}
	s := f.imports(r, log)
	if a, p := sum(f.scores("articles")), sum(f.scores("pages")); a != 300 || p != 300 {
		t.Errorf("%d articles and %d pages", a, p)
	}
	if len(s.Skipped) != 1 || s.Skipped[0] != "placeholder" {
		t.Errorf("skipped %v", s.Skipped)
	}
	var said strings.Builder
	if s.Write(&said); !strings.Contains(said.String(), "Skipped list poll: it counts votes") {
		t.Errorf("the summary does not mention the skipped poll:\n%s", &said)
	}
	for _, list := range []string{"nope", "beacons", "poll", "placeholder"} {
		if _, err := Import(t.Context(), Options{Conn: f.nc, Rules: r, List: list}, bytes.NewReader(log)); err == nil {
			t.Errorf("list %s was imported", list)
		}
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	r := rules(t)
	f := newFixture(t, r)
	line := func(method, path string, status int, ua string) string {
		return fmt.Sprintf("192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"%s %s HTTP/1.1\" %d 1 \"-\" %q\n", method, path, status, ua)
	}
	log := strings.Join([]string{
		line("GET", "/articles/a", 200, firefox),
		line("GET", "/articles/a", 200, firefox), // a duplicate, which the aggregator finds
		line("GET", "/articles/b", 304, firefox),
		line("GET", "/articles/c", 404, firefox),
		line("POST", "/articles/c", 200, firefox),
		line("GET", "/articles/c", 200, "Googlebot/2.1 (+http://www.google.com/bot.html)"),
		line("GET", "/articles/c", 200, "-"),
		line("GET", "/style.css", 200, firefox),
		"\n",
		"no log line\n",
		line("GET", "/articles/%00", 200, firefox),
		strings.Repeat("x\n", firstUnreadable),
		"192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET /articles/d HTTP/1.1\" 200 1", // common format, no line end
	}, "")
	s, err := Import(t.Context(), Options{Conn: f.nc, Rules: r, WithoutBotsCheck: true}, strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	want := map[ruleset.Reason]int{ruleset.Status: 1, ruleset.Method: 1, ruleset.Bot: 2, ruleset.BadItem: 1}
	if fmt.Sprint(s.Reasons) != fmt.Sprint(want) || s.Views["articles"] != 4 || s.NoPage != 1 || s.Unreadable != 1+firstUnreadable ||
		s.Lines != 12+firstUnreadable || len(s.FirstUnreadable) != firstUnreadable || s.FirstUnreadable[0].Line != 10 {
		t.Errorf("summary %+v", s)
	}
	if got := f.scores("articles"); fmt.Sprint(got) != "map[a:1 b:1 d:1]" {
		t.Errorf("counted %v", got)
	}
	var b strings.Builder
	s.Write(&b)
	for _, part := range []string{"17  lines", "line 10:", "… and 1 more", "2  are for a page but do not count: a bot's", "4  views of list articles", "the User-Agents of 1 requests: bots among them count as readers"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("%q is not in\n%s", part, b.String())
		}
	}
}

func TestEmptyLog(t *testing.T) {
	t.Parallel()
	r := rules(t)
	f := newFixture(t, r)
	if s := f.imports(r, nil); s.Lines != 0 || s.Already {
		t.Errorf("summary %+v", s)
	}
}

func TestWaitsForTheAggregator(t *testing.T) {
	t.Parallel()
	s := brokertest.NewServer(t)
	r := rules(t)
	nc := s.Connect()
	if _, err := Import(t.Context(), Options{Conn: nc, Rules: r}, bytes.NewReader(nil)); !errors.Is(err, ErrNoLog) {
		t.Errorf("without a log: %v", err)
	}
	if err := ingest.EnsureStreams(t.Context(), s.JetStream(), testShards, ingest.LogOptions{MaxBytes: 64 << 20}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := Import(ctx, Options{Conn: nc, Rules: r}, bytes.NewReader(accessLog(1))); err == nil {
		t.Error("the import ended without an aggregator")
	}
}

func TestVisitorsDependOnTheDayAndTheContent(t *testing.T) {
	t.Parallel()
	r := rules(t)
	visitor := func(content byte, at time.Time) string {
		j, err := newJudge(Options{Rules: r}, [32]byte{content})
		if err != nil {
			t.Fatal(err)
		}
		return string(j.secretOf(at))
	}
	morning := time.Date(2026, 11, 20, 1, 0, 0, 0, time.UTC)
	same, evening := visitor(1, morning), visitor(1, morning.Add(22*time.Hour))
	if same != evening {
		t.Error("the secret changes within a day")
	}
	if same == visitor(1, morning.Add(23*time.Hour)) || same == visitor(2, morning) {
		t.Error("two days or two logs have the same secret")
	}
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, "a": 1, "a\n": 1, "a\nb": 2, "\n\n": 2, strings.Repeat("x", 200_000) + "\ny\n": 2} {
		if _, n, err := fingerprint(strings.NewReader(text)); err != nil || n != want {
			t.Errorf("%.20q has %d lines (%v), want %d", text, n, err, want)
		}
	}
	if _, _, err := fingerprint(strings.NewReader("\x1f\x8bnonsense")); err == nil {
		t.Error("a broken gzip file was read")
	}
}
