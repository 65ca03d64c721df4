package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/hotboard/hotboard/aggregator/app"
	"github.com/hotboard/hotboard/aggregator/board"
	"github.com/hotboard/hotboard/aggregator/store/redisstore"
	"github.com/hotboard/hotboard/caddymodule/outbox"
	"github.com/hotboard/hotboard/e2e/services"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// The time from accepting a hit until /hot shows it, while 20,000 hits a second go
// the same way. It includes the time slice of a second.
func TestFreshness(t *testing.T) {
	wanted(t)
	const (
		rate     = 20000
		duration = 20 * time.Second
		probes   = 100 * time.Millisecond // between two probes
	)
	nc := connect(t)
	ensure(t, nc, 16)
	s, err := redisstore.Open(t.Context(), redisstore.Options{URL: services.StartRedis(t).URL(), Shards: 16})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := ruleset.MustCompile(ruleset.Config{Lists: []*ruleset.ListConfig{{Name: "articles"}, {Name: "probes"}}})
	a, err := app.New(app.Options{Store: s, Conn: nc, Rules: r, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Stop(context.Background()) }()
	web := httptest.NewServer(a.Handler())
	defer web.Close()

	box, err := outbox.Open(outbox.Options{Dir: t.TempDir(), Shards: 16, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	rules := box.Document(r.Document())
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = box.Run(ctx, outbox.NewNATS(func() *nats.Conn { return nc }, 16)) })
	defer wg.Wait()
	defer cancel()

	// A probe is a hit of one item from a new visitor: the n-th is visible when the
	// item has n views.
	var (
		mu       sync.Mutex
		accepted []time.Time
		latency  []time.Duration
	)
	sent := 0
	wg.Go(func() { sent = load(t, ctx, box, rules, rate) })
	wg.Go(func() {
		tick := time.NewTicker(probes)
		defer tick.Stop()
		for n := uint64(1); ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			h := hit.Hit{Kind: hit.View, List: "probes", Item: "probe", Visitor: n, Time: time.Now().UnixMilli(), Rules: rules}
			mu.Lock() // a probe must be recorded before anyone can see it
			if err := box.Append(ctx, h); err == nil {
				accepted = append(accepted, time.Now())
			}
			mu.Unlock()
		}
	})
	begin := time.Now()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for time.Since(begin) < duration {
		<-poll.C
		views := probesSeen(t, web.URL)
		now := time.Now()
		mu.Lock()
		for len(latency) < min(views, len(accepted)) {
			latency = append(latency, now.Sub(accepted[len(latency)]))
		}
		mu.Unlock()
	}
	cancel()
	wg.Wait()
	if len(latency) < 50 {
		t.Fatalf("only %d of %d probes were seen", len(latency), len(accepted))
	}
	slices.Sort(latency)
	p99 := latency[len(latency)*99/100]
	row("accepted to visible on /hot", fmt.Sprintf("p50 %.2f s, p99 %.2f s", latency[len(latency)/2].Seconds(), p99.Seconds()),
		fmt.Sprintf("beside %.0f hits/s", float64(sent)/time.Since(begin).Seconds()), "-", "p99 <= 1.5 s at 20000/s")
}

// load offers hits at a steady rate, like page views, and returns how many the edge
// took.
func load(t *testing.T, ctx context.Context, box *outbox.Outbox, rules hit.RulesID, rate int) (sent int) {
	hits := traffic(rate*4, time.Now())
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	begin := time.Now()
	for tried := 0; ; {
		select {
		case <-ctx.Done():
			return sent
		case <-tick.C:
		}
		for due := int(time.Since(begin).Seconds() * float64(rate)); tried < due; tried++ {
			h := hits[tried%len(hits)]
			h.Time, h.Visitor, h.Rules = time.Now().UnixMilli(), h.Visitor+uint64(tried), rules
			if box.Offer(h) {
				sent++
			}
		}
	}
}

// probesSeen returns the number of probes on the day's board.
func probesSeen(t *testing.T, url string) int {
	t.Helper()
	resp, err := http.Get(url + "/hot?list=probes&period=day")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b board.Board
	if err := json.NewDecoder(resp.Body).Decode(&b); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status, err)
	}
	if len(b.Items) == 0 {
		return 0
	}
	return int(b.Items[0].Views)
}
