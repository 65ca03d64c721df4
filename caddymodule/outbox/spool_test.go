package outbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotboard/hotboard/hit"
)

func TestFullSpool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 10_000
		o := open(t, Options{Dir: t.TempDir(), MaxBytes: limit, Queue: 50})
		var items []string
		for i := 0; ; i++ {
			item := fmt.Sprintf("i%d", i)
			err := o.Append(t.Context(), view(item))
			if errors.Is(err, ErrFull) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			items = append(items, item)
		}
		if s := o.Stats(); s.Bytes > limit || s.Bytes < limit*9/10 || !errors.Is(s.SpoolError, ErrFull) {
			t.Errorf("full with %d of %d bytes, error %v", s.Bytes, limit, s.SpoolError)
		}
		// Views wait in the queue, until that is full as well.
		taken := 0
		for i := range 80 {
			item := fmt.Sprintf("v%d", i)
			if o.Offer(view(item)) {
				taken++
				items = append(items, item)
			}
		}
		if s := o.Stats(); taken != 50 || s.DroppedViews != 30 || s.QueuedViews != 50 {
			t.Errorf("%d views were taken, %d dropped, %d wait", taken, s.DroppedViews, s.QueuedViews)
		}
		// Once batches were applied for long enough, there is room again.
		bus := newFakeBus()
		stop := start(t, o, bus)
		time.Sleep(2 * time.Minute)
		mustAppend(t, o, "after")
		time.Sleep(time.Minute)
		bus.wantCounted(t, append(items, "after")...)
		if s := o.Stats(); s.SpoolError != nil {
			t.Errorf("still: %v", s.SpoolError)
		}
		stop()
		closeNow(t, o)
	})
}

// A message has no more batches than an aggregator reads, however small they are.
func TestSmallBatches(t *testing.T) {
	t.Parallel()
	o := open(t, Options{Dir: t.TempDir()})
	var batches []*batch
	for range hit.MaxBatches + 3 {
		batches = append(batches, &batch{})
	}
	if err := o.spool.write(batches, time.Now()); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[uint64]uint64{1: hit.MaxBatches, 3: hit.MaxBatches + 2, 100: hit.MaxBatches + 3} {
		data, last, err := o.spool.message(laneID{o.spool.edge, 0}, from, hit.MaxBatches+3)
		if err != nil || last != want {
			t.Errorf("the message from batch %d on ends with %d, want %d, %v", from, last, want, err)
		}
		if _, err := hit.DecodeMessage(data, o.spool.edge, 0, from, last-from+1); err != nil {
			t.Error(err)
		}
	}
	closeNow(t, o)
}

// TestAppendsShareATransaction: all that come while one write is under way are
// in the next one.
func TestAppendsShareATransaction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := open(t, Options{Dir: t.TempDir()})
		release := make(chan struct{})
		began := make(chan struct{}, 10)
		o.spool.sync = func(f *os.File) error {
			began <- struct{}{}
			<-release
			return f.Sync()
		}
		var wg sync.WaitGroup
		appendOne := func(item string) {
			wg.Go(func() {
				if err := o.Append(t.Context(), view(item)); err != nil {
					t.Error(err)
				}
			})
		}
		appendOne("first")
		<-began
		for i := range 100 {
			appendOne(fmt.Sprint(i))
		}
		synctest.Wait()
		close(release)
		wg.Wait()
		if s := o.Stats(); s.Writes != 2 || s.SpooledHits != 101 {
			t.Errorf("%d hits in %d writes, want 101 in 2", s.SpooledHits, s.Writes)
		}
		closeNow(t, o)
	})
}

func TestAppendReturnsWhenTheContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := open(t, Options{Dir: t.TempDir()})
		release := make(chan struct{})
		o.spool.sync = func(f *os.File) error {
			<-release
			return f.Sync()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := o.Append(ctx, view("i")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Append on a slow disk: %v", err)
		}
		close(release)
		closeNow(t, o)
	})
}

// TestDiskFails: an append is refused and leaves nothing behind; views wait.
func TestDiskFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := open(t, Options{Dir: t.TempDir()})
		bus := newFakeBus()
		stop := start(t, o, bus)
		synctest.Wait()
		errDisk := errors.New("the disk fails, says the test")
		var mu sync.Mutex
		failing := true
		o.spool.sync = func(f *os.File) error {
			mu.Lock()
			defer mu.Unlock()
			if failing {
				return errDisk
			}
			return f.Sync()
		}
		if err := o.Append(t.Context(), view("refused")); !errors.Is(err, errDisk) {
			t.Errorf("Append: %v", err)
		}
		o.Offer(view("v1"))
		time.Sleep(time.Minute)
		o.Offer(view("v2"))
		if s := o.Stats(); s.QueuedViews != 2 || s.SpoolError == nil || s.Batches != 0 {
			t.Errorf("stats while the disk fails: %+v", s)
		}
		mu.Lock()
		failing = false
		mu.Unlock()
		time.Sleep(10 * time.Second)
		bus.wantCounted(t, "v1", "v2")
		wantOrder(t, bus.messages())
		stop()
		closeNow(t, o)
	})
}
