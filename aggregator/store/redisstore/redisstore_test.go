package redisstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/redisstore"
	"github.com/hotboard/hotboard/aggregator/store/storetest"
	"github.com/hotboard/hotboard/e2e/services"
)

// open opens a store or ends the test.
func open(t testing.TB, o redisstore.Options) *redisstore.Store {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s, err := redisstore.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // a test may have closed it
	return s
}

// client connects to a server directly.
func client(t testing.TB, r *services.Redis) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: r.Socket})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// suite runs the conformance suite; each store has its own prefix on one server.
func suite(t *testing.T, url string) {
	var n atomic.Int64
	var opened sync.Map // store → its options
	again := func(t testing.TB, s store.Store) store.Store {
		t.Helper()
		o, _ := opened.Load(s)
		return open(t, o.(redisstore.Options))
	}
	storetest.Run(t, storetest.Backend{
		Open: func(t testing.TB, shards int) store.Store {
			t.Helper()
			o := redisstore.Options{URL: url, Prefix: fmt.Sprint("test", n.Add(1)), Shards: shards}
			s := open(t, o)
			opened.Store(s, o)
			return s
		},
		Reopen: func(t testing.TB, s store.Store) store.Store {
			t.Helper()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return again(t, s)
		},
		Share: again,
	})
}

func TestStore(t *testing.T) {
	t.Parallel()
	suite(t, services.StartRedis(t).URL())
}

// TestStoreInCluster runs the suite in a cluster of one server, which refuses
// commands across slots like any other.
func TestStoreInCluster(t *testing.T) {
	t.Parallel()
	r := services.StartRedis(t, "--cluster-enabled", "yes")
	c := client(t, r)
	if err := c.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	awaitCluster(t, c)
	suite(t, "redis+cluster://"+r.Addr)
}

func awaitCluster(t testing.TB, c *redis.Client) {
	t.Helper()
	eventually(t, "the cluster is up", func() bool {
		info, err := c.ClusterInfo(t.Context()).Result()
		return err == nil && strings.Contains(info, "cluster_state:ok")
	})
}

// eventually waits until ok returns true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within 30 s", what)
		case <-tick.C:
		}
	}
}
