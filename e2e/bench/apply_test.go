// Package bench measures what docs/performance.md states. Every figure is a
// ratio to something that is measured in the same run. It runs only when asked:
//
//	./e2e/bench.sh
package bench

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/hotboard/hotboard/aggregator/board"
	"github.com/hotboard/hotboard/aggregator/ingest"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/redisstore"
	"github.com/hotboard/hotboard/e2e/services"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

var run = flag.Bool("measure", false, "measure; without it every benchmark here is skipped")

func wanted(t *testing.T) {
	t.Helper()
	if !*run {
		t.Skip("a benchmark; ./e2e/bench.sh runs it")
	}
}

// row prints one line of the table.
func row(what, value, against, ratio, goal string) {
	fmt.Printf("BENCH\t%s\t%s\t%s\t%s\t%s\n", what, value, against, ratio, goal)
}

// Traffic of one day: 20,000 articles of Zipf popularity, 300,000 visitors.
const (
	articles = 20000
	visitors = 300000
)

func rules(t testing.TB) *ruleset.Rules {
	t.Helper()
	return ruleset.MustCompile(ruleset.Config{Lists: []*ruleset.ListConfig{{Name: "articles"}}})
}

// traffic makes n hits over two hours that end at end.
func traffic(n int, end time.Time) []hit.Hit {
	rng := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(rng, 1.1, 10, articles-1)
	hits := make([]hit.Hit, n)
	from := end.Add(-2 * time.Hour).UnixMilli()
	for i := range hits {
		hits[i] = hit.Hit{
			Kind: hit.View, List: "articles", Item: "article-" + strconv.FormatUint(zipf.Uint64(), 10),
			Visitor: uint64(rng.IntN(visitors)) * 0x9e3779b97f4a7c15,
			Time:    from + int64(i)*2*3600_000/int64(n),
		}
	}
	return hits
}

// publish puts hits on the log like an edge, and returns the number of batches of
// each shard.
func publish(t testing.TB, nc *nats.Conn, hits []hit.Hit, shards int) []uint64 {
	t.Helper()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(256))
	if err != nil {
		t.Fatal(err)
	}
	pending, seqs := make([][]hit.Hit, shards), make([]uint64, shards)
	flush := func(shard int) {
		seqs[shard]++
		data, err := hit.Encode(&hit.Batch{Edge: "bench", Shard: shard, Seq: seqs[shard], Rules: hit.RulesIDOf([]byte("{}")), Hits: pending[shard]})
		if err != nil {
			t.Fatal(err)
		}
		msg := nats.NewMsg(hit.Subject(shard, "bench"))
		msg.Data = data
		msg.Header.Set(hit.HeaderSeq, strconv.FormatUint(seqs[shard], 10))
		msg.Header.Set(hit.HeaderLow, "1")
		if _, err := js.PublishMsgAsync(msg, jetstream.WithStallWait(time.Minute)); err != nil {
			t.Fatal(err)
		}
		pending[shard] = pending[shard][:0]
	}
	for _, h := range hits {
		shard := hit.Shard(h.Kind, h.List, h.Item, shards)
		if pending[shard] = append(pending[shard], h); len(pending[shard]) == hit.MaxHits {
			flush(shard)
		}
	}
	for shard := range pending {
		if len(pending[shard]) > 0 {
			flush(shard)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(time.Minute):
		t.Fatal("the log did not take the hits within a minute")
	}
	return seqs
}

// applied waits until the counts include the batches of publish, and returns how
// long that took.
func applied(t testing.TB, nc *nats.Conn, s store.Store, seqs []uint64) time.Duration {
	t.Helper()
	in, err := ingest.New(ingest.Options{
		Conn: nc, Store: s, Rules: func(context.Context, hit.RulesID) (*ruleset.Rules, error) { return theRules, nil }, Owner: "bench",
		Faults:     faults.New(slog.New(slog.DiscardHandler), "hotboard", faults.Aggregator),
		Logger:     slog.New(slog.DiscardHandler),
		Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	begin := time.Now()
	wg.Go(func() { in.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		got, err := s.Applied(ctx, "bench")
		if err != nil {
			t.Fatal(err)
		}
		done := true
		for shard, seq := range seqs {
			done = done && got[shard] == seq
		}
		if done {
			break
		}
		if time.Since(begin) > 3*time.Minute {
			t.Fatal("not applied after 3 minutes")
		}
	}
	return time.Since(begin)
}

var theRules *ruleset.Rules

func connect(t testing.TB) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(services.StartNATS(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func ensure(t testing.TB, nc *nats.Conn, shards int) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := ingest.EnsureStreams(t.Context(), js, shards, ingest.LogOptions{}); err != nil {
		t.Fatal(err)
	}
}

// From the log into redis-server, with deduplication, uniques, the hot board and
// five period boards, against the plain per-hit algorithm on the same server.
func TestApplyRedis(t *testing.T) {
	wanted(t)
	theRules = rules(t)
	redisServer := services.StartRedis(t)
	nc := connect(t)
	ensure(t, nc, 16)
	end := time.Now()
	plain := plainRate(t, redisServer.Socket, traffic(60000, end))

	const n = 2_000_000
	hits := traffic(n, end)
	seqs := publish(t, nc, hits, 16)
	s, err := redisstore.Open(t.Context(), redisstore.Options{URL: redisServer.URL(), Shards: 16, Prefix: "bench"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	runtime.GC()
	took := applied(t, nc, s, seqs)
	check(t, s, n)
	rate := n / took.Seconds()
	row("apply, log to redis-server", fmt.Sprintf("%.0f hits/s", rate), fmt.Sprintf("plain per-hit %.0f hits/s", plain), fmt.Sprintf("%.1f", rate/plain), ">= 100000/s, >= 8")
}

// check makes sure that the measured run has counted its hits.
func check(t testing.TB, s store.Store, n int64) {
	t.Helper()
	b := board.New(s, func() *ruleset.Rules { return theRules }, time.Now)
	stats, err := b.Stats(t.Context(), "articles", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if all := stats.Periods[calendar.All]; all.Views+all.Duplicates != n {
		t.Fatalf("%d views and %d duplicates are not %d hits", all.Views, all.Duplicates, n)
	}
}

// plainRate measures the first implementation that comes to mind: for every hit SET
// NX for duplicates, SADD and EXPIRE for uniques, ZINCRBY for the board, ZREVRANGE
// and SET for the served list; 32 connections at once.
func plainRate(t testing.TB, socket string, hits []hit.Hit) float64 {
	t.Helper()
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, PoolSize: 32})
	defer client.Close()
	ctx := t.Context()
	next := make(chan hit.Hit, 1024)
	var wg sync.WaitGroup
	errs := make(chan error, 32)
	begin := time.Now()
	for range 32 {
		wg.Go(func() {
			for h := range next {
				if err := plainHit(ctx, client, h); err != nil {
					select {
					case errs <- err:
					default:
					}
				}
			}
		})
	}
	for _, h := range hits {
		next <- h
	}
	close(next)
	wg.Wait()
	select {
	case err := <-errs:
		t.Fatal(err)
	default:
	}
	return float64(len(hits)) / time.Since(begin).Seconds()
}

func plainHit(ctx context.Context, c *redis.Client, h hit.Hit) error {
	visitor := strconv.FormatUint(h.Visitor, 36)
	fresh, err := c.SetNX(ctx, "plain:seen:"+h.Item+":"+visitor, 1, 10*time.Minute).Result()
	if err != nil || !fresh {
		return err
	}
	if err := c.SAdd(ctx, "plain:uv:"+h.Item, visitor).Err(); err != nil {
		return err
	}
	if err := c.Expire(ctx, "plain:uv:"+h.Item, 48*time.Hour).Err(); err != nil {
		return err
	}
	if err := c.ZIncrBy(ctx, "plain:board", 1, h.Item).Err(); err != nil {
		return err
	}
	top, err := c.ZRangeArgs(ctx, redis.ZRangeArgs{Key: "plain:board", Start: 0, Stop: 9, Rev: true}).Result()
	if err != nil {
		return err
	}
	return c.Set(ctx, "plain:top", fmt.Sprint(top), time.Minute).Err()
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(m.Run())
}
