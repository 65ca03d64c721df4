package ingest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/internal/brokertest"
	"github.com/hotboard/hotboard/internal/faults"
)

// blocked is a store that commits nothing to one shard until it is released.
type blocked struct {
	store.Store
	shard int
	free  chan struct{}
}

func (b blocked) Commit(ctx context.Context, shard int, c *store.Commit) error {
	if shard == b.shard && c.To.Seq > 0 {
		select {
		case <-b.free:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return b.Store.Commit(ctx, shard, c)
}

func soonBehind(o *Options) { o.BehindAfter = 600 * time.Millisecond }

// behind waits until exactly these shards are behind.
func (f *fixture) behind(fl *faults.Registry, shards ...int) {
	f.t.Helper()
	brokertest.Eventually(f.t, func() string {
		var got []int
		for _, x := range fl.Active() {
			if x.Kind == faults.Behind {
				got = append(got, x.Shards...)
			}
		}
		if !slices.Equal(got, shards) {
			return fmt.Sprintf("shards %v are behind, want %v", got, shards)
		}
		return ""
	})
}

// While a worker hangs, its shard has a fault, which ends when the messages are
// applied.
func TestStuckWorkerIsBehind(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := blocked{f.store, 1, make(chan struct{})}
	fl, _ := f.startWith(s, "a", soonBehind)
	f.ensure()
	f.send(20)
	f.behind(fl, 1)
	close(s.free)
	f.counted()
	f.behind(fl)
}

// A stopped process's lease keeps everybody from counting. Another aggregator
// raises the fault.
func TestLeaseOfAStoppedProcessIsBehind(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.ensure()
	for shard := range testShards {
		if ok, err := f.store.Lease(t.Context(), shard, "stopped", time.Hour); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	fl, _ := f.startWith(f.store, "a", soonBehind)
	f.send(20)
	f.behind(fl, 0, 1)
	for shard := range testShards {
		if err := f.store.Release(t.Context(), shard, "stopped"); err != nil {
			t.Fatal(err)
		}
	}
	f.counted()
	f.behind(fl)
}

// A shard without hits is not behind when others have some.
func TestIdleShardIsNotBehind(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fl, _ := f.startWith(f.store, "a", soonBehind)
	f.ensure()
	began := time.Now()
	item := brokertest.View("articles", "x", 1, time.Now())
	brokertest.Eventually(t, func() string {
		f.sent++
		item.Visitor++
		f.edge.Send(item)
		f.counted()
		if got := fl.Active(); len(got) > 0 {
			t.Fatalf("faults: %+v", got)
		}
		if time.Since(began) < 2*time.Second {
			return "not long enough"
		}
		return ""
	})
}
