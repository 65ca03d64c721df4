package simulation

import (
	"flag"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	seeds = flag.Int("seeds", 2000, "histories to simulate with the whole protocol")
	seed  = flag.Uint64("seed", 0, "simulate this history alone")
)

// run plays a history: random steps with faults, then quiet until everything is
// counted. It returns a description of the first mistake, or "".
func run(seed uint64, d design) (wrong string, faults map[string]int) {
	w := newWorld(seed, d)
	for n := range steps {
		if n == w.mourning {
			w.lose(w.edges[w.rng.IntN(len(w.edges))])
		}
		w.step()
	}
	if !w.settle() {
		return "stuck: not everything is counted after 20 minutes without faults", w.faults
	}
	return w.wrong(), w.faults
}

// step makes one thing happen.
func (w *world) step() {
	w.now = w.now.Add(time.Duration(w.rng.IntN(1500)) * time.Millisecond)
	w.away = max(0, w.away-1)
	if w.changes != nil {
		w.change()
	}
	e, a := w.edges[w.rng.IntN(len(w.edges))], w.aggs[w.rng.IntN(len(w.aggs))]
	switch n := w.rng.IntN(102); {
	case n < 14:
		w.accept(e)
	case n < 36:
		w.publish(e, true)
	case n < 48:
		w.poll(e)
	case n < 82:
		w.fold(a, true)
	case n < 86:
		w.snap()
	case n < 90 && len(w.late) > 0:
		i := w.rng.IntN(len(w.late))
		w.log.append(w.late[i], w.now)
		w.late = append(w.late[:i], w.late[i+1:]...)
		w.faults["late message"]++
	case n < 92:
		if !e.gone {
			w.start(e)
			w.faults["edge killed"]++
		}
	case n < 94:
		*a = aggregator{upgraded: w.upgraded()}
		w.faults["aggregator killed"]++
		if w.rng.IntN(4) == 0 { // all of them, for a while
			w.away = w.rng.IntN(30)
			w.faults["aggregators away"]++
		}
	case n < 100 && w.undamaged:
	case n < 96:
		w.hurtLog()
	case n < 98:
		w.hurtStore()
	case n < 100:
		w.powerCut()
	default: // a quiet time: spools are trimmed
		w.now = w.now.Add(keep / 2)
		for _, e := range w.edges {
			w.poll(e)
		}
	}
}

// settle lets the world run without faults until every edge knows that all its
// accepted hits are in the counts.
func (w *world) settle() bool {
	for _, m := range w.late {
		w.log.append(m, w.now)
	}
	w.late = nil
	if w.changes != nil {
		w.changes.unread = 0
		w.announce(len(w.changes.revisions))
	}
	for _, e := range w.edges {
		w.accept(e) // missing batches are reported with the next hit
	}
	w.away = 0
	for _, a := range w.aggs {
		w.commitReady(a)
		if w.upgrades {
			*a = aggregator{upgraded: true}
		}
	}
	for range 600 {
		w.now = w.now.Add(2 * time.Second)
		for _, e := range w.edges {
			for range 64 {
				w.publish(e, false)
			}
		}
		for _, a := range w.aggs {
			for range 200 {
				w.fold(a, false)
			}
		}
		done := true
		for _, e := range w.edges {
			w.poll(e)
			if e.gone {
				done = done && w.applied(e) >= e.promised
			} else {
				done = done && w.applied(e) == e.last
			}
		}
		if done || w.noNumbers {
			return true
		}
	}
	return false
}

// commitReady commits the prepared fold of an aggregator. An aggregator that is
// paused in between is the second owner that must be fenced.
func (w *world) commitReady(a *aggregator) {
	if a.loaded && a.ready != nil {
		w.commit(a, false)
	}
}

func simulate(t *testing.T, n int, d design) (failures int, example string) {
	t.Helper()
	var (
		next   atomic.Uint64
		mu     sync.Mutex
		wg     sync.WaitGroup
		faults = map[string]int{}
	)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for s := next.Add(1); s <= uint64(n); s = next.Add(1) {
				wrong, f := run(s, d)
				mu.Lock()
				for k, v := range f {
					faults[k] += v
				}
				if wrong != "" {
					failures++
					if example == "" {
						example = fmt.Sprintf("-seed %d: %s", s, wrong)
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("%d histories, %d wrong; faults: %v", n, failures, faults)
	return failures, example
}

// No hit is lost or counted twice, and no quota is exceeded.
func TestExactlyOnce(t *testing.T) {
	if *seed != 0 {
		if wrong, faults := run(*seed, design{}); wrong != "" {
			t.Fatal(wrong, faults)
		}
		return
	}
	if n, example := simulate(t, *seeds, design{}); n > 0 {
		t.Errorf("%d histories are wrong, for example %s", n, example)
	}
}

// When the log keeps less than the store forgets, hits are lost, but each of them
// is reported, none is counted twice, and nothing waits for ever.
func TestNothingIsLostSilently(t *testing.T) {
	if n, example := simulate(t, *seeds/4, design{forgetful: true}); n > 0 {
		t.Errorf("%d histories are wrong, for example %s", n, example)
	}
}
