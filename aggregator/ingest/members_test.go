package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/redisstore"
	"github.com/hotboard/hotboard/e2e/services"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/brokertest"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/ruleset"
)

const dividedShards = 16

// dividing is an aggregator among others.
type dividing struct {
	*Ingest
	store store.Store
	cut   *cut
	stop  func()
}

// cut is a store that can be cut off, so that the aggregator looks dead to the
// others.
type cut struct {
	store.Store
	off atomic.Bool
}

var errCut = errors.New("cut off")

func (c *cut) Lease(ctx context.Context, shard int, owner string, ttl time.Duration) (bool, error) {
	if c.off.Load() {
		return false, errCut
	}
	return c.Store.Lease(ctx, shard, owner, ttl)
}

func (c *cut) Members(ctx context.Context, owner string, ttl time.Duration) ([]string, error) {
	if c.off.Load() {
		return nil, errCut
	}
	return c.Store.Members(ctx, owner, ttl)
}

func (c *cut) Commit(ctx context.Context, shard int, commit *store.Commit) error {
	if c.off.Load() {
		return errCut
	}
	return c.Store.Commit(ctx, shard, commit)
}

func (c *cut) Release(ctx context.Context, shard int, owner string) error {
	if c.off.Load() {
		return errCut
	}
	return c.Store.Release(ctx, shard, owner)
}

func startDividing(t *testing.T, server *brokertest.Server, url, owner string) *dividing {
	t.Helper()
	s, err := redisstore.Open(t.Context(), redisstore.Options{
		URL: url, Shards: dividedShards, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	r := rules(t)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	d := &dividing{store: s, cut: &cut{Store: s}}
	d.Ingest, err = New(Options{
		Conn: server.Connect(), Store: d.cut, Rules: func(context.Context, hit.RulesID) (*ruleset.Rules, error) { return r, nil },
		Log: LogOptions{MaxBytes: 64 << 20}, Owner: owner, Logger: log,
		Faults: faults.New(slog.New(slog.DiscardHandler), "hotboard", faults.Aggregator), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { d.Run(ctx) })
	d.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(d.stop)
	return d
}

// owned is the number of shards that an aggregator folds, according to its metric.
func (d *dividing) owned(t *testing.T) int {
	t.Helper()
	var m dto.Metric
	if err := d.metrics.owned.Write(&m); err != nil {
		t.Fatal(err)
	}
	return int(m.GetGauge().GetValue())
}

// TestAggregatorsDivideTheShards starts and stops aggregators: soon after each
// change they fold equally many shards, and count each hit once.
func TestAggregatorsDivideTheShards(t *testing.T) {
	t.Parallel()
	server, redis := brokertest.NewServer(t), services.StartRedis(t)
	start := func(owner string) *dividing { return startDividing(t, server, redis.URL(), owner) }
	a := start("a")
	edge := brokertest.NewEdge(t, server.JetStream(), "edge-1", dividedShards)
	sent := 0
	send := func() {
		t.Helper()
		for range 2 * dividedShards {
			sent++
			edge.Send(brokertest.View("articles", fmt.Sprintf("item-%d", sent%100), uint64(sent), time.Now()))
		}
	}
	// divided waits until each aggregator folds its number of shards, and hits sent
	// meanwhile are counted.
	divided := func(what string, all []*dividing, want ...int) {
		t.Helper()
		began := time.Now()
		send()
		brokertest.Eventually(t, func() string {
			var got []int
			for _, d := range all {
				got = append(got, d.owned(t))
			}
			slices.Sort(got)
			if n := views(t, a.store); !slices.Equal(got, want) || n != sent {
				return fmt.Sprintf("%s: %v shards are folded, want %v; %d of %d views are counted", what, got, want, n, sent)
			}
			return ""
		})
		took := time.Since(began)
		t.Logf("%s: %v after %v", what, want, took.Round(10*time.Millisecond))
		if took > 10*time.Second {
			t.Errorf("%s: the shards are divided after %v, want at most 10 s", what, took)
		}
	}
	divided("one aggregator", []*dividing{a}, 16)
	b := start("b")
	divided("a second one", []*dividing{a, b}, 8, 8)
	c := start("c")
	divided("a third one", []*dividing{a, b, c}, 5, 5, 6)
	b.cut.off.Store(true)
	divided("one is cut off", []*dividing{a, c}, 8, 8)
	b.cut.off.Store(false)
	divided("it is back", []*dividing{a, b, c}, 5, 5, 6)
	c.Conn.Close()
	divided("one cannot read the log", []*dividing{a, b}, 8, 8)
	b.stop()
	divided("one stops", []*dividing{a}, 16)
}
