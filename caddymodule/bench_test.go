package caddymodule

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/reading"
	"github.com/hotboard/hotboard/ruleset"
)

// discard is a response writer that costs nothing, so that what is measured is
// the server.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

// fourLimits are limits of all kinds, none of which a benchmark uses up.
const fourLimits = `
	limit second {
		by ip
		max 900000000 per second
	}
	limit minute {
		by ip
		max 900000000 per minute
	}
	limit hour {
		by visitor
		max 900000000 per hour
	}
	limit day {
		by ip item
		max 900000000 per day
	}
`

// limited is site with more global options.
func limited(list, limits string, options ...string) string {
	return strings.Replace(site(list, options...), "dir DIR", "dir DIR\n"+limits, 1)
}

// startBareLog starts a log that nobody reads, so that what is measured is the edge
// and not the test that plays the aggregator.
func startBareLog(t testing.TB) *natsLog {
	t.Helper()
	s := startNATS(t, -1, t.TempDir())
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name:     hit.Stream,
		Subjects: []string{hit.SubjectHits + ".*.*"},
		Metadata: map[string]string{hit.StreamShards: "1"},
		Storage:  jetstream.MemoryStorage,
		MaxMsgs:  1000,
	}); err != nil {
		t.Fatal(err)
	}
	return &natsLog{url: s.ClientURL(), conn: nc, server: s}
}

// serving is Caddy with a static answer: stock, and with this module, which counts
// with four limits.
type serving struct{ stock, with http.Handler }

func startServing(b *testing.B) serving {
	const respond = "header Content-Type text/html\n respond \"page\""
	with := startEdge(b, startBareLog(b), strings.Replace(limited("bench", fourLimits), "test_origin", respond, 1))
	ctx, err := caddy.ProvisionContext(adapt(b, "http:// {\n "+respond+"\n }"))
	if err != nil {
		b.Fatal(err)
	}
	app, err := ctx.App("http")
	if err != nil {
		b.Fatal(err)
	}
	var stock *caddyhttp.Server
	for _, s := range app.(*caddyhttp.App).Servers {
		stock = s
	}
	return serving{stock, with}
}

func serve(h http.Handler, r *http.Request) { h.ServeHTTP(&discard{make(http.Header)}, r) }

// BenchmarkServe measures a request through Caddy's server in this process, with a
// static answer: what is stock; and what this module adds to a page view that is
// counted, with four limits and a User-Agent that was seen before, to the page of
// a bot, and to any other request.
func BenchmarkServe(b *testing.B) {
	s := startServing(b)
	for _, bm := range []struct {
		name    string
		server  http.Handler
		request *http.Request
	}{
		{"stock", s.stock, browse("/bench/page")},
		{"uncounted", s.with, browse("/style.css")},
		{"bot", s.with, browse("/bench/page", "User-Agent", googlebot)},
		{"hotboard", s.with, browse("/bench/page")}, // last: its hits are still on their way when it ends
	} {
		b.Run(bm.name, func(b *testing.B) {
			before := counted("bench", ruleset.Counted)
			b.ReportAllocs()
			for b.Loop() {
				serve(bm.server, bm.request)
			}
			if bm.name == "hotboard" {
				b.ReportMetric(float64(counted("bench", ruleset.Counted)-before)/float64(b.N), "counted/op")
			}
		})
	}
}

// BenchmarkAdded measures the same differences on a machine that is busy with
// other things: stock and the module take turns, and of all differences between two
// neighbours it reports the median.
func BenchmarkAdded(b *testing.B) {
	s := startServing(b)
	const turn = 50
	for _, bm := range []struct {
		name    string
		request *http.Request
	}{
		{"uncounted", browse("/style.css")},
		{"bot", browse("/bench/page", "User-Agent", googlebot)},
		{"hotboard", browse("/bench/page")},
	} {
		b.Run(bm.name, func(b *testing.B) {
			var added []float64
			for b.Loop() {
				start := time.Now()
				for range turn {
					serve(s.stock, bm.request)
				}
				middle := time.Now()
				for range turn {
					serve(s.with, bm.request)
				}
				added = append(added, float64(time.Since(middle)-middle.Sub(start))/turn)
			}
			slices.Sort(added)
			b.ReportMetric(added[len(added)/2], "added-ns")
			b.ReportMetric(0, "ns/op") // meaningless for both together
		})
	}
}

// BenchmarkHandler measures the handler alone.
func BenchmarkHandler(b *testing.B) {
	log := startBareLog(b)
	e := startEdge(b, log, limited("alone", fourLimits))
	h := provisionedHandler(b, e)
	next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		w.Header()["Content-Type"] = []string{"text/html"}
		w.WriteHeader(http.StatusOK)
		return nil
	})
	for _, bm := range []struct{ name, path string }{
		{"other", "/style.css"},
		{"view", "/alone/page"},
	} {
		b.Run(bm.name, func(b *testing.B) {
			w := &discard{make(http.Header)}
			r := caddyhttp.PrepareRequest(browse(bm.path), caddy.NewReplacer(), w, e.Server)
			b.ReportAllocs()
			for b.Loop() {
				if err := h.ServeHTTP(w, r, next); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("board", func(b *testing.B) {
		log.answerQueries(b, func(*reading.Question) *reading.Answer {
			return &reading.Answer{Status: 200, Body: []byte(strings.Repeat("x", 2000)), ETag: `"x"`, Holds: time.Hour}
		})
		w := &discard{make(http.Header)}
		r := caddyhttp.PrepareRequest(browse("/hot"), caddy.NewReplacer(), w, e.Server)
		b.ReportAllocs()
		for b.Loop() {
			if err := h.ServeHTTP(w, r, next); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestOtherRequestsAllocateNothing: what is no business of the handler costs no
// memory.
func TestOtherRequestsAllocateNothing(t *testing.T) {
	log := startLog(t, 1)
	e := startEdge(t, log, site("free"))
	h := provisionedHandler(t, e)
	next := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })
	w := &discard{make(http.Header)}
	r := caddyhttp.PrepareRequest(browse("/assets/app.js"), caddy.NewReplacer(), w, e.Server)
	if n := testing.AllocsPerRun(100, func() { _ = h.ServeHTTP(w, r, next) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
