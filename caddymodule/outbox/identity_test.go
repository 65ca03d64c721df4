package outbox

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/faults"
)

// copyDir copies a spool as cp does: while it may be in use.
func copyDir(t *testing.T, from string) (to string) {
	t.Helper()
	to = filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestCopiesOfASpool: a directory is copied while a process uses it and nothing is
// counted, or nothing even published. The processes on both copies accept hits.
// All hits that either of them acknowledged are counted, those from before the copy
// once.
func TestCopiesOfASpool(t *testing.T) {
	t.Parallel()
	for name, noLog := range map[string]bool{"no aggregator answers": false, "the log is away": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				bus := newFakeBus()
				bus.away = true
				if noLog {
					bus.publish = func(int) (bool, error) { return false, errBus }
				}
				dir := t.TempDir()
				first := open(t, Options{Dir: dir})
				items := names("before", 50)
				for chunk := range slices.Chunk(items, 3) {
					mustAppend(t, first, chunk...)
				}
				stop := start(t, first, bus)
				time.Sleep(5 * time.Second)
				second := open(t, Options{Dir: copyDir(t, dir)})
				stopSecond := start(t, second, bus)
				for round := range names("", 20) {
					for i, o := range []*Outbox{first, second} {
						more := names(strings.Repeat("x", round+1)+string(rune('a'+i)), 7)
						mustAppend(t, o, more...)
						items = append(items, more...)
					}
					time.Sleep(2 * time.Second)
				}
				bus.set(func() { bus.away, bus.publish = false, nil })
				time.Sleep(2 * time.Minute)
				bus.wantCounted(t, items...)
				for _, o := range []*Outbox{first, second} {
					if s := o.Stats(); s.Batches != 0 || s.Renewed != 0 {
						t.Errorf("%+v", s)
					}
				}
				stop()
				stopSecond()
				closeNow(t, first)
				closeNow(t, second)
			})
		})
	}
}

// TestRestoredSpool: an older copy takes the place of a spool that was used since.
func TestRestoredSpool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		bus := newFakeBus()
		o := open(t, Options{Dir: dir, Shards: 2})
		before := names("before", 10)
		for _, item := range before {
			mustAppend(t, o, item)
		}
		backup := copyDir(t, dir)
		stop := start(t, o, bus)
		after := names("after", 10)
		for _, item := range after {
			mustAppend(t, o, item)
		}
		time.Sleep(10 * time.Second)
		stop()
		closeNow(t, o)
		bus.wantCounted(t, append(before, after...)...)

		o = open(t, Options{Dir: backup, Shards: 2})
		restored := names("restored", 10)
		for _, item := range restored {
			mustAppend(t, o, item)
		}
		bus.set(func() { bus.away = true }) // the aggregator is slow to start
		stop = start(t, o, bus)
		time.Sleep(5 * time.Second)
		bus.set(func() { bus.away = false })
		time.Sleep(10 * time.Second)
		later := names("later", 10)
		for _, item := range later {
			mustAppend(t, o, item)
		}
		time.Sleep(10 * time.Second)
		bus.wantCounted(t, slices.Concat(before, after, restored, later)...)
		// The former id is forgotten once its batches are trimmed.
		time.Sleep(2 * time.Minute)
		if s := o.Stats(); s.Batches != 0 || s.Bytes != 0 || len(o.lanes) != 2 {
			t.Errorf("%d lanes are left, stats %+v", len(o.lanes), s)
		}
		stop()
		closeNow(t, o)
	})
}

// TestDoubtful: another process has the same edge id, as after a copy of a whole
// machine while it ran, and no aggregator answered for a while. What it sent in the
// place of this one's batches is counted. Nothing of this one is lost: it is counted
// under a new id, or in a file.
func TestDoubtful(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		bus := newFakeBus()
		bus.away = true
		o := open(t, Options{Dir: dir, Shards: 1})
		old := o.Edge()
		bus.set(func() {
			for seq := range uint64(10) {
				bus.fold(message{edge: old, seq: seq + 1, low: 1, hits: []hit.Hit{view("other" + string(rune('0'+seq)))}})
			}
		})
		mine := names("mine", 7)
		for _, item := range mine {
			mustAppend(t, o, item)
		}
		stop := start(t, o, bus)
		time.Sleep(5 * time.Second)
		if o.fault(faults.Doubtful) != "" {
			t.Fatal("in doubt before anybody could know")
		}
		bus.set(func() { bus.away = false })
		mustAppend(t, o, "at-that-moment") // under the one id or the other
		time.Sleep(10 * time.Second)
		mustAppend(t, o, "later")
		time.Sleep(10 * time.Second)
		if s := o.Stats(); o.Edge() == old || s.Renewed != 1 {
			t.Errorf("edge %s, stats %+v", o.Edge(), s)
		}
		if f := o.fault(faults.Doubtful); !strings.Contains(f, "aggregator replay") || !strings.Contains(f, dir) {
			t.Errorf("fault %q", f)
		}
		files, err := filepath.Glob(filepath.Join(dir, doubtfulFiles))
		if err != nil || len(files) != 1 {
			t.Fatalf("files %v, %v", files, err)
		}
		written := itemsOf(t, files[0])
		if !slices.Equal(written[:len(mine)], mine) {
			t.Errorf("the file has %v, want %v", written, mine)
		}
		bus.set(func() {
			for _, item := range written { // as aggregator replay does
				bus.counted[item]++
			}
		})
		bus.wantCounted(t, slices.Concat(names("other", 10), mine, []string{"at-that-moment", "later"})...)
		// The fault outlives the process, not the file.
		stop()
		closeNow(t, o)
		o = open(t, Options{Dir: dir, Shards: 1})
		time.Sleep(time.Second)
		if o.fault(faults.Doubtful) == "" {
			t.Error("no fault after a restart")
		}
		if err := os.Remove(files[0]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * lookEvery)
		if f := o.opts.Faults.Active(); len(f) > 0 {
			t.Errorf("faults %+v without the file", f)
		}
		closeNow(t, o)
	})
}

// itemsOf reads a file of doubtful batches.
func itemsOf(t *testing.T, path string) (items []string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for dec := cbor.NewDecoder(f); ; {
		var b hit.Batch
		if err := dec.Decode(&b); err == io.EOF {
			return items
		} else if err != nil {
			t.Fatal(err)
		}
		for _, h := range b.Hits {
			items = append(items, h.Item)
		}
	}
}

// TestRenew: batches that were never sent get the new id, also for the next process.
func TestRenew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := openSpool(dir, 2, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	old := s.edge
	for shard, n := range []int{200, 3} {
		for i := range n {
			if err := s.write([]*batch{{shard: shard, rules: someID, hits: hitsOf(names(strings.Repeat("i", i), 1))}}, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
	}
	last, err := s.renew([]uint64{50, 3}, time.Now())
	if err != nil || !slices.Equal(last, []uint64{150, 0}) {
		t.Errorf("the new id has %v batches, %v", last, err)
	}
	edge := s.edge
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if s, err = openSpool(dir, 2, 1<<20); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[laneID]uint64{{old, 0}: 50, {old, 1}: 3, {edge, 0}: 150, {edge, 1}: 0} {
		if n := s.count(id); n != want {
			t.Errorf("%d batches of %v, want %d", n, id, want)
		}
	}
	if b, err := s.batch(laneID{edge, 0}, 1); err != nil || b.rules != someID || b.hits[0].Item != strings.Repeat("i", 50)+"0" {
		t.Errorf("the first batch of the new id has %+v, %v", b, err)
	}
	if s.damage != (damage{}) || s.batches.Load() != 203 {
		t.Errorf("%d batches, %+v", s.batches.Load(), s.damage)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
}
