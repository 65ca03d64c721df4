package outbox

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestRestoredCopy: a spool that is an old copy would use sequences again. It
// takes a new edge id; nothing new is lost, nothing old counted twice.
func TestRestoredCopy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		file := filepath.Join(dir, spoolFile)
		bus := newFakeBus()
		o := open(t, Options{Dir: dir, Shards: 2})
		old := o.Edge()
		before := names("before", 10)
		for _, item := range before {
			mustAppend(t, o, item)
		}
		closeNow(t, o)
		backup, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}

		o = open(t, Options{Dir: dir, Shards: 2})
		stop := start(t, o, bus)
		after := names("after", 10)
		for _, item := range after {
			mustAppend(t, o, item)
		}
		time.Sleep(10 * time.Second)
		stop()
		closeNow(t, o)
		bus.wantCounted(t, append(before, after...)...)

		if err := os.WriteFile(file, backup, 0o600); err != nil {
			t.Fatal(err)
		}
		o = open(t, Options{Dir: dir, Shards: 2})
		restored := names("restored", 10)
		for _, item := range restored {
			mustAppend(t, o, item)
		}
		bus.set(func() { bus.away = true }) // the aggregator is slow to start
		stop = start(t, o, bus)
		time.Sleep(5 * time.Second)
		bus.set(func() { bus.away = false })
		time.Sleep(10 * time.Second)
		if o.Edge() == old {
			t.Error("the edge id was kept")
		}
		later := names("later", 10)
		for _, item := range later {
			mustAppend(t, o, item)
		}
		time.Sleep(10 * time.Second)
		bus.wantCounted(t, slices.Concat(before, after, restored, later)...)
		if s := o.Stats(); s.Renewed != 1 {
			t.Errorf("stats %+v", s)
		}
		// The former id is forgotten once its batches are trimmed.
		time.Sleep(2 * time.Minute)
		if s := o.Stats(); s.Batches != 0 || s.Bytes != 0 || len(o.lanes) != 2 {
			t.Errorf("%d lanes are left, stats %+v", len(o.lanes), s)
		}
		edge := o.Edge()
		stop()
		closeNow(t, o)
		o = open(t, Options{Dir: dir, Shards: 2})
		if o.Edge() != edge || len(o.lanes) != 2 {
			t.Errorf("after a restart the id is %s, want %s; %d lanes", o.Edge(), edge, len(o.lanes))
		}
		closeNow(t, o)
	})
}
