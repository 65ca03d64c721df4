package e2e

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/hotboard/hotboard/e2e/services"
	"github.com/hotboard/hotboard/e2e/stack"
)

// TestBadNetwork puts a bad network between the processes: high latency, and
// connections that are reset or go silent.
func TestBadNetwork(t *testing.T) {
	t.Parallel()
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 0))
	natsServer := services.StartNATS(t)
	redis := services.StartRedis(t, "--appendonly", "yes")
	toNATS := services.StartProxy(t, strings.TrimPrefix(natsServer.URL, "nats://"))
	toRedis := services.StartProxy(t, redis.Addr)
	proxies := []*services.Proxy{toNATS, toRedis}
	s := stack.Start(t, stack.Options{
		Edges: 2, Aggregators: 2, Broker: []string{"nats://" + toNATS.Addr}, Store: "redis://" + toRedis.Addr,
	})
	st := s.Store()
	l := startLoad(t, loadOptions{sites: []string{s.Edges[0].URL, s.Edges[1].URL}, beacons: 100, pages: 20, strict: true})

	for _, fault := range []struct {
		name          string
		begin, finish func(*services.Proxy)
		// flows: hits are counted meanwhile, not only afterwards.
		flows bool
	}{
		{"200 ms away", func(p *services.Proxy) { p.Delay(100 * time.Millisecond) }, func(p *services.Proxy) { p.Delay(0) }, true},
		{"silent", (*services.Proxy).Silence, (*services.Proxy).Speak, false},
	} {
		for _, p := range proxies {
			fault.begin(p)
		}
		enough(t, l, 500)
		if fault.flows {
			drain(t, s, l)
		}
		for _, p := range proxies {
			fault.finish(p)
		}
		drain(t, s, l)
		t.Logf("%s: %d beacons are acknowledged", fault.name, l.ledger.acknowledged())
	}
	for range 20 {
		proxies[rng.IntN(len(proxies))].Reset()
		enough(t, l, 1+rng.IntN(40))
	}
	ledger := l.stop()
	settle(t, s, st, ledger.exact)
	eventually(t, func() string { return unready(s.Aggregators) })
	t.Logf("acknowledged %d beacons and served %d pages", ledger.acknowledged(), ledger.pageViews())
}

// drain pauses a load until all accepted hits are counted.
func drain(t *testing.T, s *stack.Stack, l *load) {
	t.Helper()
	l.pause()
	defer l.resume()
	eventually(t, func() string { return unapplied(s.Edges) })
}
