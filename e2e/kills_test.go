package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/hotboard/hotboard/e2e/stack"
	"github.com/hotboard/hotboard/internal/faults"
)

var (
	kills    = flag.Int("kills", 100, "how often TestKills kills a process")
	killSeed = flag.Uint64("kill-seed", 0, "the schedule of TestKills; 0: another one each time")
)

// process is a target of TestKills.
type process interface {
	Kill()
	Relaunch()
	Running() bool
}

// victim is a process with its history.
type victim struct {
	name string
	process
	kills int
	// absent is the number of further kills for which it stays dead.
	absent int
}

// TestKills kills processes of every kind, like kill -9, at random moments under
// load, and compares the counts with the answers that visitors got.
func TestKills(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes for minutes, which -short is too short for")
	}
	t.Parallel()
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-kill-seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))

	s := stack.Start(t, stack.Options{Edges: 2, Aggregators: 2})
	st := s.Store()
	victims := []*victim{
		{name: "edge 1", process: s.Edges[0]},
		{name: "edge 2", process: s.Edges[1]},
		{name: "nats-server", process: s.NATS},
		{name: "redis-server", process: s.Redis},
		{name: "aggregator 1", process: s.Aggregators[0]},
		{name: "aggregator 2", process: s.Aggregators[1]},
	}
	l := startLoad(t, loadOptions{sites: []string{s.Edges[0].URL, s.Edges[1].URL}, beacons: 400, pages: 40})

	timer := time.NewTimer(0)
	defer timer.Stop()
	for range *kills {
		select {
		case <-timer.C:
		case <-t.Context().Done():
			return
		}
		// Measured from the kill before, however long the restart takes.
		timer.Reset(500*time.Millisecond + time.Duration(rng.Int64N(int64(time.Second))))
		killOne(t, rng, victims)
	}
	for _, v := range victims {
		if !v.Running() {
			v.Relaunch()
		}
	}
	ledger := l.stop()

	counts := settle(t, s, st, func(counts map[string]int) string { return ledger.balance(counts).wrong() })
	b := ledger.balance(counts)
	var killed []string
	for _, v := range victims {
		killed = append(killed, fmt.Sprintf("%s %d", v.name, v.kills))
		if v.kills == 0 && *kills >= 100 {
			t.Errorf("%s was never killed", v.name)
		}
	}
	t.Logf("%d kills (%s): acknowledged %d, lost %d, double %d; %d more were counted without an answer",
		*kills, strings.Join(killed, ", "), b.acknowledged, b.lost, b.double, b.unknown)
	for i, a := range s.Aggregators {
		if strings.Contains(a.Printed(), string(faults.BatchesLost)) {
			t.Errorf("aggregator %d has reported %s: nothing was", i+1, faults.BatchesLost)
		}
	}
	eventually(t, func() string { return unready(s.Aggregators) })
	if b.acknowledged < 1000 {
		t.Errorf("only %d beacons were acknowledged: that proves little", b.acknowledged)
	}
}

// killOne kills one of the running processes, and restarts those that are due: the
// killed one at once, or after some more kills.
func killOne(t *testing.T, rng *rand.Rand, victims []*victim) {
	t.Helper()
	var running []*victim
	for _, v := range victims {
		switch {
		case v.absent > 1:
			v.absent--
		case v.absent == 1:
			v.absent = 0
			v.Relaunch()
			running = append(running, v)
		case !v.Running():
			t.Errorf("%s ended by itself", v.name)
			v.Relaunch()
			running = append(running, v)
		default:
			running = append(running, v)
		}
	}
	v := running[rng.IntN(len(running))]
	v.Kill()
	v.kills++
	if len(running) > 3 && rng.IntN(3) == 0 {
		v.absent = 1 + rng.IntN(4)
		return
	}
	v.Relaunch()
}
