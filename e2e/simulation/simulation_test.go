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
// counted. It returns what is wrong, or "".
func run(seed uint64, d design) (wrong string, faults map[string]int) {
	w := newWorld(seed, d)
	for range 150 {
		w.step()
	}
	if !w.settle() {
		return "stuck: not everything is counted after 20 minutes without faults", w.faults
	}
	return w.wrong(), w.faults
}

// step is one thing that happens.
func (w *world) step() {
	w.now = w.now.Add(time.Duration(w.rng.IntN(1500)) * time.Millisecond)
	e, a := w.edges[w.rng.IntN(len(w.edges))], w.aggs[w.rng.IntN(len(w.aggs))]
	switch n := w.rng.IntN(100); {
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
		w.start(e)
		w.faults["edge killed"]++
	case n < 94:
		*a = aggregator{}
		w.faults["aggregator killed"]++
	case n < 96:
		w.hurtLog()
	case n < 98:
		w.hurtStore()
	default: // a quiet time: spools are trimmed
		w.now = w.now.Add(keep / 2)
		for _, e := range w.edges {
			w.poll(e)
		}
	}
}

// hurtLog takes the log's tail away, or all of it: a power cut, a stream made
// anew. The connection is lost, which makes everyone look again.
//
// What is promised for a log that loses what it acknowledged rests on the
// edges, which keep a batch for a while after it was applied, and so does what
// is promised for a store that goes back. Both within that time is more than
// the protocol can repair; it then reports what is lost.
func (w *world) hurtLog() {
	if !w.forgetful && w.now.Sub(w.storeHurt) < 3*keep {
		return
	}
	kind := w.rng.IntN(3)
	switch {
	case kind == 0:
		w.log = &logModel{next: 1}
		w.faults["stream created anew"]++
	case kind == 1 && w.forgetful: // retention
		n := w.rng.IntN(len(w.log.msgs) + 1)
		w.log.msgs = w.log.msgs[n:]
		w.faults["log trimmed"]++
		return
	default:
		cut := w.now.Add(-time.Duration(w.rng.Int64N(int64(keep))))
		for n := len(w.log.msgs); n > 0 && w.log.msgs[n-1].Received.After(cut); n-- {
			w.log.next = w.log.msgs[n-1].Seq
			w.log.msgs = w.log.msgs[:n-1]
		}
		w.faults["log tail lost"]++
	}
	w.logHurt = w.now
	for _, a := range w.aggs {
		if w.rng.IntN(2) == 0 {
			a.loaded = false
		} else if a.ready == nil {
			a.loaded = false
		} // else its commit is on the way already
	}
}

// hurtStore takes the store back to what it was a short time ago.
func (w *world) hurtStore() {
	if !w.forgetful && !w.logHurt.IsZero() && w.now.Sub(w.logHurt) < 3*keep {
		return
	}
	if w.forgetful && w.rng.IntN(3) == 0 {
		w.store.Restore(w.snaps[0].data) // however old
		w.faults["store restored from a backup"]++
	} else {
		s := w.snaps[w.rng.IntN(len(w.snaps))]
		if w.now.Sub(s.at) > keep {
			return
		}
		w.store.Restore(s.data)
		w.faults["store rolled back"]++
	}
	w.storeHurt = w.now
}

// settle lets the world run without faults until every edge knows that all it
// accepted is in the counts.
func (w *world) settle() bool {
	for _, m := range w.late {
		w.log.append(m, w.now)
	}
	w.late = nil
	for _, e := range w.edges {
		w.accept(e) // what is gone is reported with the next hit
	}
	for _, a := range w.aggs {
		w.commitReady(a)
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
			applied, err := w.store.Producer(ctx, e.id)
			if err != nil {
				panic(err)
			}
			done = done && applied[0] == e.last
		}
		if done || w.noProducerSequence {
			return true
		}
	}
	return false
}

// commitReady ends what an aggregator was about to do. One that is stopped
// for a while and then goes on is the second owner that has to be fenced.
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

// Nothing is lost, nothing is counted twice, and no quota is exceeded.
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

// With a log that keeps less than the store forgets, hits are lost, but each of
// them is reported, none is counted twice, and nothing waits for ever.
func TestNothingIsLostSilently(t *testing.T) {
	if n, example := simulate(t, *seeds/4, design{forgetful: true}); n > 0 {
		t.Errorf("%d histories are wrong, for example %s", n, example)
	}
}

// Each part of the protocol is needed: without it the simulation finds histories
// that go wrong. This also shows that the simulation can see a fault.
func TestEveryPartIsNeeded(t *testing.T) {
	for name, d := range map[string]design{
		"position check":    {noPositionCheck: true},
		"producer sequence": {noProducerSequence: true},
		"re-send timer":     {noResend: true},
		"count of a quota":  {noMemos: true},
	} {
		n, example := simulate(t, 200, d)
		t.Logf("without the %s: %s", name, example)
		if n == 0 {
			t.Errorf("without the %s nothing goes wrong: it is not needed, or the simulation does not see it", name)
		}
	}
}
