package ingest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotboard/hotboard/e2e/services"
	"github.com/hotboard/hotboard/internal/brokertest"
	"github.com/hotboard/hotboard/internal/faults"
)

// TestStoreThatEvicts switches eviction on during counting. Folding stops until the
// store is emptied; then the log is counted again.
func TestStoreThatEvicts(t *testing.T) {
	t.Parallel()
	server, r := brokertest.NewServer(t), services.StartRedis(t)
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: r.Socket})
	t.Cleanup(func() { _ = c.Close() })
	configure := func(name, value string) {
		t.Helper()
		if err := c.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	a := startDividing(t, server, r.URL(), "a")
	edge := brokertest.NewEdge(t, server.JetStream(), "edge-1", dividedShards)
	sent := 0
	send := func() {
		t.Helper()
		for range 20 {
			sent++
			edge.Send(brokertest.View("articles", fmt.Sprintf("item-%d", sent%100), uint64(sent), time.Now()))
		}
	}
	counted := func() {
		t.Helper()
		brokertest.Eventually(t, func() string {
			if n := views(t, a.store); n != sent {
				return fmt.Sprintf("%d of %d views are counted; faults %+v", n, sent, a.Faults.Active())
			}
			return ""
		})
	}
	fault := func() (message string) {
		t.Helper()
		brokertest.Eventually(t, func() string {
			for _, f := range a.Faults.Active() {
				if f.Kind == faults.StoreEvicts {
					message = f.Message
					return ""
				}
			}
			return fmt.Sprintf("no fault, only %+v", a.Faults.Active())
		})
		return message
	}
	send()
	counted()

	// A policy that may evict keys stops folding before anything is lost.
	configure("maxmemory", "100mb")
	configure("maxmemory-policy", "allkeys-lru")
	fault()
	positions := func() (all []uint64) {
		for shard := range dividedShards {
			p, err := a.store.Position(context.Background(), shard)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, p.Seq)
		}
		return all
	}
	before := fmt.Sprint(positions())
	send()
	if after := fmt.Sprint(positions()); after != before {
		t.Errorf("folding went on, from %s to %s", before, after)
	}
	configure("maxmemory-policy", "noeviction")
	counted()

	// Evictions stop it until an operator acts.
	configure("maxmemory-policy", "allkeys-lru")
	configure("maxmemory", "1mb") // less than in use
	brokertest.Eventually(t, func() string {
		if n := c.DBSize(t.Context()).Val(); n > 100 {
			_ = c.Set(t.Context(), "other", "x", 0).Err() // evicts
			return fmt.Sprintf("%d keys are left", n)
		}
		return ""
	})
	configure("maxmemory", "0")
	configure("maxmemory-policy", "noeviction")
	send()
	if message := fault(); !strings.Contains(message, "keys were evicted") {
		t.Errorf("the fault is %q", message)
	}
	if err := c.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	counted()
	brokertest.Eventually(t, func() string {
		for _, f := range a.Faults.Active() {
			if f.Kind == faults.StoreEvicts {
				return "the fault stays: " + f.Message
			}
		}
		return ""
	})
}
