package e2e

import (
	"testing"

	"github.com/hotboard/hotboard/e2e/services"
	"github.com/hotboard/hotboard/e2e/stack"
)

// TestPausedPastItsLease pauses an aggregator just after it has sent commits, and
// holds them back until its leases have expired and another aggregator has counted
// the same hits, and more. The late commits must fail.
func TestPausedPastItsLease(t *testing.T) {
	t.Parallel()
	redis := services.StartRedis(t, "--appendonly", "yes")
	proxy := services.StartProxy(t, redis.Addr)
	s := stack.Start(t, stack.Options{Store: "redis://" + proxy.Addr})
	paused := s.Aggregators[0]
	st := s.Store()
	l := startLoad(t, loadOptions{sites: []string{s.Edges[0].URL}, beacons: 200, pages: 50, strict: true})
	enough(t, l, 200)

	proxy.Hold("hset") // only commits contain it
	eventually(t, func() string {
		if proxy.Held() == 0 {
			return "nothing was committed"
		}
		return ""
	})
	paused.Pause()
	s.AddAggregator(stack.AggregatorOptions{Redis: redis.URL()})
	enough(t, l, 200)
	drain(t, s, l)
	t.Logf("%d commits come late", proxy.Held())
	proxy.Release()
	enough(t, l, 200)
	paused.Resume()
	enough(t, l, 200)
	ledger := l.stop()
	settle(t, s, st, ledger.exact)
	eventually(t, func() string { return unready(s.Aggregators) })
}
