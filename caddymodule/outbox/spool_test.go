package outbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

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
		data, last, ok := o.spool.message(o.spool.edge, 0, from, hit.MaxBatches+3)
		if !ok || last != want {
			t.Errorf("the message from batch %d on ends with %d, want %d", from, last, want)
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
		o.spool.commit = func(tx *bbolt.Tx) error {
			began <- struct{}{}
			<-release
			return tx.Commit()
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
		o.spool.commit = func(tx *bbolt.Tx) error {
			<-release
			return tx.Commit()
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
		o.spool.commit = func(tx *bbolt.Tx) error {
			mu.Lock()
			defer mu.Unlock()
			if failing {
				return errDisk
			}
			return tx.Commit()
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

// TestUnsureCommit: when the last step of a commit fails, the hits can be read
// but may not be durable. They are not published before another commit settled
// it, and not written twice.
func TestUnsureCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := open(t, Options{Dir: t.TempDir()})
		bus := newFakeBus()
		stop := start(t, o, bus)
		synctest.Wait()
		var mu sync.Mutex
		failing := true
		o.spool.commit = func(tx *bbolt.Tx) error {
			mu.Lock()
			defer mu.Unlock()
			err := tx.Commit()
			if err == nil && failing {
				err = errors.New("syncing fails, says the test")
			}
			return err
		}
		o.Offer(view("v"))
		if err := o.Append(t.Context(), view("a")); !errors.Is(err, errUnsure) {
			t.Errorf("Append: %v", err)
		}
		time.Sleep(10 * time.Second)
		if n := len(bus.messages()); n != 0 {
			t.Errorf("%d messages were published", n)
		}
		mu.Lock()
		failing = false
		mu.Unlock()
		time.Sleep(10 * time.Second)
		bus.wantCounted(t, "v", "a")
		stop()
		closeNow(t, o)
	})
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		prepare func(t *testing.T, dir string)
		want    string
	}{
		"another number of shards": {
			func(t *testing.T, dir string) { closeNow(t, open(t, Options{Dir: dir, Shards: 16})) },
			"made for 16 shards, not 4",
		},
		"a spool in use": {
			func(t *testing.T, dir string) {
				o := open(t, Options{Dir: dir})
				t.Cleanup(func() { closeNow(t, o) })
			},
			"is in use",
		},
		"something else": {
			func(t *testing.T, dir string) {
				text := strings.Repeat("not a spool\n", 5000)
				if err := os.WriteFile(filepath.Join(dir, spoolFile), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			},
			"can be moved away",
		},
		"a file that was cut off": {
			func(t *testing.T, dir string) {
				o := open(t, Options{Dir: dir})
				mustAppend(t, o, names("i", 5000)...)
				closeNow(t, o)
				if err := os.Truncate(filepath.Join(dir, spoolFile), 20_000); err != nil {
					t.Fatal(err)
				}
			},
			"was cut off",
		},
		"a missing batch": {
			func(t *testing.T, dir string) {
				o := open(t, Options{Dir: dir, Shards: 4})
				for range 3 {
					mustAppend(t, o, "i")
				}
				shard := hit.Shard(hit.View, "articles", "i", 4)
				err := o.spool.db.Update(func(tx *bbolt.Tx) error {
					b, err := shardBucket(tx, o.Edge(), shard)
					return errors.Join(err, b.Delete(seqKey(2)))
				})
				if err != nil {
					t.Fatal(err)
				}
				closeNow(t, o)
			},
			"batch 2 is missing",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			test.prepare(t, dir)
			o, err := Open(Options{Dir: dir, Shards: 4})
			if err == nil {
				closeNow(t, o)
				t.Fatal("it was opened")
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %q, want %q in it", err, test.want)
			}
		})
	}
	for _, opts := range []Options{{Shards: 1}, {Dir: "x"}, {Dir: "x", Shards: hit.MaxShards + 1}} {
		if _, err := Open(opts); err == nil {
			t.Errorf("Open(%+v) was accepted", opts)
		}
	}
}
