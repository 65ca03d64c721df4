package outbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotboard/hotboard/hit"
)

// start runs the publisher until the returned function is called.
func start(t *testing.T, o *Outbox, bus Bus) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- o.Run(ctx, bus) }()
	synctest.Wait() // it runs
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestHitsArePublishedInOrderAndTrimmedOnceApplied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := open(t, Options{Dir: t.TempDir()})
		bus := newFakeBus()
		stop := start(t, o, bus)
		items := names("a", 1000)
		for chunk := range slices.Chunk(items, 37) {
			mustAppend(t, o, chunk...)
		}
		views := names("v", 1000)
		for _, item := range views {
			if !o.Offer(view(item)) {
				t.Fatal("a view was dropped")
			}
		}
		time.Sleep(3 * time.Second)
		bus.wantCounted(t, append(items, views...)...)
		wantOrder(t, bus.messages())
		s := o.Stats()
		if s.Unsent != 0 || s.Unapplied != 0 || s.SpooledHits != 2000 || s.Published != s.SpooledBatches {
			t.Errorf("stats after 3 s: %+v", s)
		}
		if s.Batches != int64(s.SpooledBatches) || s.Bytes == 0 {
			t.Errorf("batches were trimmed at once: %+v", s)
		}
		time.Sleep(70 * time.Second)
		if s := o.Stats(); s.Batches != 0 || s.Bytes != 0 {
			t.Errorf("not trimmed a minute after being applied: %+v", s)
		}
		stop()
		closeNow(t, o)
	})
}

// TestFaultyBus counts every hit once although a third of what the bus says is
// wrong.
func TestFaultyBus(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				busRand := rand.New(rand.NewPCG(seed, 1)) // under the bus's mutex
				rng := rand.New(rand.NewPCG(seed, 2))
				bus := newFakeBus()
				bus.publish = func(int) (bool, error) {
					switch busRand.IntN(9) {
					case 0:
						return true, errBus // the acknowledgement is lost
					case 1:
						return false, errBus
					case 2:
						return false, nil // acknowledged, then lost by the log
					}
					return true, nil
				}
				dir := t.TempDir()
				items := names("i", 600)
				o := open(t, Options{Dir: dir})
				stop := start(t, o, bus)
				for chunk := range slices.Chunk(items, 10) {
					mustAppend(t, o, chunk...)
					time.Sleep(time.Duration(rng.IntN(1000)) * time.Millisecond)
					if rng.IntN(10) == 0 { // another process goes on with the spool
						stop()
						closeNow(t, o)
						o = open(t, Options{Dir: dir})
						stop = start(t, o, bus)
					}
				}
				time.Sleep(10 * time.Minute)
				bus.wantCounted(t, items...)
				if s := o.Stats(); s.Batches != 0 {
					t.Errorf("%d batches are left", s.Batches)
				}
				stop()
				closeNow(t, o)
			})
		})
	}
}

func TestWhileTheAggregatorIsAwayNothingIsTrimmedOrSentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bus := newFakeBus()
		bus.away = true
		o := open(t, Options{Dir: t.TempDir()})
		stop := start(t, o, bus)
		items := names("i", 100)
		mustAppend(t, o, items...)
		time.Sleep(time.Hour)
		s := o.Stats()
		if s.Batches == 0 || s.Resent != 0 || s.Published != s.SpooledBatches {
			t.Errorf("after an hour: %+v", s)
		}
		if s.OldestUnapplied < time.Hour || s.AppliedError == nil {
			t.Errorf("oldest %s, error %v", s.OldestUnapplied, s.AppliedError)
		}
		bus.set(func() { bus.away = false })
		time.Sleep(2 * time.Minute)
		if s := o.Stats(); s.Batches != 0 || s.AppliedError != nil {
			t.Errorf("after it came back: %+v", s)
		}
		bus.wantCounted(t, items...)
		stop()
		closeNow(t, o)
	})
}

func TestStoreRolledBackAndLogTailLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bus := newFakeBus()
		o := open(t, Options{Dir: t.TempDir(), Shards: 1})
		stop := start(t, o, bus)
		items := names("i", 90)
		for _, item := range items {
			mustAppend(t, o, item)
		}
		time.Sleep(10 * time.Second)
		bus.wantCounted(t, items...)
		bus.set(func() { // both forget the last 80 batches
			bus.log = bus.log[:10]
			bus.applied[o.Edge()][0] = 10
			for _, item := range items[10:] {
				delete(bus.counted, item)
			}
		})
		time.Sleep(30 * time.Second)
		bus.wantCounted(t, items...)
		if s := o.Stats(); s.WentBack != 1 || s.Resent != 80 {
			t.Errorf("stats %+v", s)
		}
		stop()
		closeNow(t, o)
	})
}

func TestWhatIsInTheSpoolIsPublishedByTheNextProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		o := open(t, Options{Dir: dir})
		edge := o.Edge()
		items := names("i", 500)
		mustAppend(t, o, items[:400]...)
		for _, item := range items[400:] {
			o.Offer(view(item))
		}
		closeNow(t, o) // the queue goes to disk

		o = open(t, Options{Dir: dir})
		if o.Edge() == edge {
			t.Errorf("two processes have the edge id %s", edge)
		}
		bus := newFakeBus()
		stop := start(t, o, bus)
		time.Sleep(time.Minute)
		bus.wantCounted(t, items...)
		wantOrder(t, bus.messages())

		// Once everything is trimmed, nothing is left.
		time.Sleep(2 * time.Minute)
		stop()
		closeNow(t, o)
		o = open(t, Options{Dir: dir})
		if s := o.Stats(); s.Batches != 0 {
			t.Fatalf("%d batches are left", s.Batches)
		}
		stop = start(t, o, bus)
		mustAppend(t, o, "more")
		time.Sleep(time.Minute)
		bus.wantCounted(t, append(items, "more")...)
		wantOrder(t, bus.messages())
		stop()
		closeNow(t, o)
	})
}

// TestRestartWhileTheAggregatorIsAway: what is in the spool gets into the log
// all the same.
func TestRestartWhileTheAggregatorIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		o := open(t, Options{Dir: dir})
		mustAppend(t, o, "i")
		closeNow(t, o)
		o = open(t, Options{Dir: dir})
		bus := newFakeBus()
		bus.away = true
		stop := start(t, o, bus)
		time.Sleep(20 * time.Second)
		bus.wantCounted(t, "i")
		stop()
		closeNow(t, o)
	})
}

func TestClosePublishesTheRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bus := newFakeBus()
		bus.publish = func(n int) (bool, error) {
			if n < 20 {
				return false, errBus
			}
			return true, nil
		}
		o := open(t, Options{Dir: t.TempDir()})
		done := make(chan error, 1)
		go func() { done <- o.Run(t.Context(), bus) }()
		synctest.Wait()
		items := names("i", 100)
		for _, item := range items {
			o.Offer(view(item))
		}
		if err := o.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		bus.wantCounted(t, items...)
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if o.Offer(view("late")) {
			t.Error("a view was taken after Close")
		}
		if err := o.Append(t.Context(), view("late")); !errors.Is(err, ErrClosed) {
			t.Errorf("Append after Close: %v", err)
		}
		if err := o.Run(t.Context(), bus); !errors.Is(err, ErrClosed) {
			t.Errorf("Run after Close: %v", err)
		}
		if err := o.Close(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("Close after Close: %v", err)
		}
	})
}

func TestCloseGivesUpPublishingWhenTheContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bus := newFakeBus()
		bus.publish = func(int) (bool, error) { return false, errBus }
		dir := t.TempDir()
		o := open(t, Options{Dir: dir})
		stop := start(t, o, bus)
		mustAppend(t, o, "i")
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		if err := o.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("Close took %s", took)
		}
		stop()
		o = open(t, Options{Dir: dir})
		if s := o.Stats(); s.Unapplied != 1 {
			t.Errorf("the spool has %d batches, want 1", s.Unapplied)
		}
		closeNow(t, o)
	})
}

func TestRunTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := open(t, Options{Dir: t.TempDir()})
		stop := start(t, o, newFakeBus())
		synctest.Wait()
		if err := o.Run(t.Context(), newFakeBus()); !errors.Is(err, ErrRunning) {
			t.Errorf("second Run: %v", err)
		}
		stop()
		bus := newFakeBus() // after the first has ended, another bus may be used
		stop = start(t, o, bus)
		mustAppend(t, o, "i")
		time.Sleep(time.Second)
		bus.wantCounted(t, "i")
		stop()
		closeNow(t, o)
	})
}

func TestInvalidHits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := open(t, Options{Dir: t.TempDir()})
		bus := newFakeBus()
		stop := start(t, o, bus)
		bad := view("\xff")
		if err := o.Append(t.Context(), view("x"), bad); !errors.Is(err, hit.ErrIDText) {
			t.Errorf("Append of an invalid hit: %v", err)
		}
		if err := o.Append(t.Context()); err != nil {
			t.Errorf("Append of nothing: %v", err)
		}
		o.Offer(bad)
		o.Offer(view("good"))
		time.Sleep(time.Second)
		bus.wantCounted(t, "good")
		if s := o.Stats(); s.RejectedHits != 1 {
			t.Errorf("%d rejected", s.RejectedHits)
		}
		stop()
		closeNow(t, o)
	})
}

// TestConcurrently is for the race detector, and counts.
func TestConcurrently(t *testing.T) {
	t.Parallel()
	bus := newFakeBus()
	o := open(t, Options{Dir: filepath.Join(t.TempDir(), "a", "b"), Queue: 100})
	done := make(chan error, 1)
	go func() { done <- o.Run(t.Context(), bus) }()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var items []string
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				item := fmt.Sprintf("%d-%d", g, i)
				if g%2 == 0 {
					if err := o.Append(t.Context(), view(item)); err != nil {
						t.Error(err)
					}
				} else if !o.Offer(view(item)) {
					continue // full: dropped
				}
				mu.Lock()
				items = append(items, item)
				mu.Unlock()
				if i%50 == 0 {
					o.Stats()
				}
			}
		})
	}
	wg.Wait()
	if err := o.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	bus.wantCounted(t, items...)
	wantOrder(t, bus.messages())
}

// Small batches that the log does not keep up with must not pile up for ever:
// those that wait go out together.
func TestBacklogMakesLargerMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := open(t, Options{Dir: t.TempDir(), Shards: 1})
		items := names("a", 500)
		for _, item := range items { // nobody publishes yet
			mustAppend(t, o, item)
		}
		bus := newFakeBus()
		done := make(chan error, 1)
		go func() { done <- o.Run(t.Context(), bus) }()
		synctest.Wait()
		if batches := o.counters.batches.Load(); batches != uint64(len(items)) || bus.n != 1 {
			t.Errorf("%d batches were published in %d messages", batches, bus.n)
		}
		if err := o.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		bus.wantCounted(t, items...)
		wantOrder(t, bus.messages())
	})
}
