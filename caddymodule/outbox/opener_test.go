package outbox

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/faults"
)

// TestOpenInAnyCase: whatever is wrong with the directory, there is an outbox, with a
// fault with the remedy. It recovers by itself once that is done.
func TestOpenInAnyCase(t *testing.T) {
	t.Parallel()
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	mkdir := func(name string) func(*testing.T, string) func() {
		return func(t *testing.T, dir string) func() {
			path := filepath.Join(dir, name)
			must(t, os.MkdirAll(filepath.Join(path, "not-empty"), 0o700))
			return func() { must(t, os.RemoveAll(path)) }
		}
	}
	tests := map[string]struct {
		spoil func(t *testing.T, dir string) (mend func())
		want  string
	}{
		"another number of shards": {
			func(t *testing.T, dir string) func() {
				o := open(t, Options{Dir: dir, Shards: 16})
				mustAppend(t, o, "of-another-log")
				closeNow(t, o)
				return func() { must(t, os.RemoveAll(dir)) }
			},
			"made for 16 shards, not 4",
		},
		"a spool in use": {
			func(t *testing.T, dir string) func() {
				o := open(t, Options{Dir: dir})
				return func() { closeNow(t, o) }
			},
			"is in use",
		},
		"the spool of an earlier build": {
			func(t *testing.T, dir string) func() {
				must(t, os.WriteFile(filepath.Join(dir, "outbox.db"), nil, 0o600))
				return func() { must(t, os.Remove(filepath.Join(dir, "outbox.db"))) }
			},
			"earlier build",
		},
		"a file for a directory": {
			func(t *testing.T, dir string) func() {
				must(t, os.Remove(dir))
				must(t, os.WriteFile(dir, nil, 0o600))
				return func() { must(t, os.Remove(dir)) }
			},
			"it is a file",
		},
		"a state that cannot be opened":  {mkdir("state.1"), "state"},
		"a lock that cannot be opened":   {mkdir("lock"), "lock"},
		"a segment that cannot be read":  {mkdir("00000001.hits"), "move it away"},
		"something that cannot be tided": {mkdir(".tmp-directory"), ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "spool")
				must(t, os.Mkdir(dir, 0o700))
				mend := tc.spoil(t, dir)
				o := open(t, Options{Dir: dir, Queue: 10})
				bus := newFakeBus()
				stop := start(t, o, bus)
				if tc.want != "" {
					if err := o.Append(t.Context(), view("refused")); !errors.Is(err, ErrUnavailable) || o.Edge() != "" {
						t.Errorf("Append: %v, edge %q", err, o.Edge())
					}
					if f := o.fault(faults.SpoolFailing); !strings.Contains(f, tc.want) {
						t.Errorf("fault %q, want %q in it", f, tc.want)
					}
				}
				items := names("waits", 10)
				for _, item := range items {
					if !o.Offer(view(item)) {
						t.Error("a view was dropped")
					}
				}
				time.Sleep(time.Minute)
				if tc.want != "" {
					if o.Offer(view("too-much")) {
						t.Error("the queue has no bound")
					}
					if s := o.Stats(); s.SpoolError == nil || s.QueuedViews != 10 || s.DroppedViews != 1 {
						t.Errorf("%+v", s)
					}
				}
				mend()
				time.Sleep(10 * time.Second)
				mustAppend(t, o, "after")
				time.Sleep(time.Second)
				bus.wantCounted(t, append(items, "after")...)
				if f := o.opts.Faults.Active(); len(f) > 0 {
					t.Errorf("faults %+v", f)
				}
				stop()
				closeNow(t, o)
			})
		})
	}
	for _, opts := range []Options{{Shards: 1}, {Dir: "x"}, {Dir: "x", Shards: hit.MaxShards + 1}} {
		if _, err := Open(opts); err == nil {
			t.Errorf("Open(%+v) was accepted", opts)
		}
	}
}

// TestCloseWithoutASpool: nothing is waited for that cannot come.
func TestCloseWithoutASpool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(dir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, view := range [][]hit.Hit{nil, {view("lost")}} {
			o := open(t, Options{Dir: dir})
			stop := start(t, o, newFakeBus())
			for _, h := range view {
				o.Offer(h)
			}
			began := time.Now()
			err := o.Close(contextFor(t, 2*time.Second))
			if took := time.Since(began); (err != nil) != (len(view) > 0) || took > 2*time.Second || len(view) == 0 && took > 0 {
				t.Errorf("with %d views: %v after %s", len(view), err, took)
			}
			stop()
		}
	})
}

// TestIdleSpoolRecovers: a fault of the disk ends by itself, also when no hit comes
// that could be written: a site that is not ready gets none.
func TestIdleSpoolRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := faults.New(slog.New(slog.NewTextHandler(&log, nil)), "test", faults.Edge)
		o := open(t, Options{Dir: t.TempDir(), Faults: r})
		mustAppend(t, o, "before")
		var failing atomic.Bool
		failing.Store(true)
		o.spool.sync = func(f *os.File) error {
			if failing.Load() {
				return errors.New("no room")
			}
			return f.Sync()
		}
		for range 100 {
			if err := o.Append(t.Context(), view("refused")); !errors.Is(err, ErrUnavailable) {
				t.Fatal(err)
			}
		}
		if f := o.fault(faults.SpoolFailing); !strings.Contains(f, "no room") {
			t.Errorf("fault %q", f)
		}
		synctest.Wait()
		if lines := strings.Count(log.String(), "\n"); lines != 1 {
			t.Errorf("%d lines in the log for 100 refusals, want 1:\n%s", lines, log.String())
		}
		time.Sleep(time.Minute)
		if o.fault(faults.SpoolFailing) == "" {
			t.Error("the fault is over without anything having been written")
		}
		next, err := openSpool(copyDir(t, o.spool.dir), 4, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if n := next.batches.Load(); n != 1 || next.damage != (damage{}) {
			t.Errorf("the next process finds %d batches, and all but one were refused, %+v", n, next.damage)
		}
		if err := next.close(); err != nil {
			t.Fatal(err)
		}
		failing.Store(false)
		time.Sleep(2 * retryMax)
		if f := o.opts.Faults.Active(); len(f) > 0 {
			t.Errorf("faults %+v", f)
		}
		if left, err := os.ReadDir(o.spool.dir); err != nil || len(left) != 5 {
			t.Errorf("files %v, %v, want the lock, the states, a segment and the rules", left, err)
		}
		closeNow(t, o)
	})
}

// TestFilesArePrivateAndTidy: what is in the directory is readable by nobody else, and
// what a process that was killed left behind is gone.
func TestFilesArePrivateAndTidy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, documentDir), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, left := range []string{".tmp-probe", documentDir + "/.tmp-0.json"} {
		if err := os.WriteFile(filepath.Join(dir, left), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := open(t, Options{Dir: dir})
	mustAppend(t, o, "i")
	if err := o.spool.reportUnreadable(1); err != nil {
		t.Fatal(err)
	}
	if _, err := o.spool.writeDoubtful([]uint64{9, 9, 9, 9}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(filepath.Join(dir, documentDir)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory of the rules has mode %v, %v", info.Mode(), err)
	}
	files := filesOf(t, dir)
	if len(files) != 7 {
		t.Errorf("files %v", files)
	}
	for _, path := range files {
		if info, err := os.Stat(filepath.Join(dir, path)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
		}
	}
	closeNow(t, o)
}
