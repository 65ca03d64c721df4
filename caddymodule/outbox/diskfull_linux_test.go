package outbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hotboard/hotboard/internal/faults"
)

// smallDisk mounts a file system of 1 MiB. A file of so many bytes can be removed to
// make room.
func smallDisk(t *testing.T, bytes int) (dir, ballast string) {
	t.Helper()
	dir = t.TempDir()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mounting a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	ballast = filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, bytes), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, ballast
}

// TestDiskFull fills a real, small file system: appends are refused and leave
// nothing behind, views wait, and both go on when there is room again.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	dir, ballast := smallDisk(t, 500_000)
	o := open(t, Options{Dir: dir, Queue: 1000})
	var items []string
	var full error
	for i := 0; full == nil; i++ {
		batch := names(fmt.Sprintf("%d-%s-", i, strings.Repeat("x", 100)), 20)
		hits := hitsOf(batch)
		if full = o.Append(t.Context(), hits...); full == nil {
			items = append(items, batch...)
		}
		if i > 10_000 {
			t.Fatal("the disk never gets full")
		}
	}
	if !errors.Is(full, syscall.ENOSPC) {
		t.Fatalf("the disk is full, and Append says: %v", full)
	}
	views := names(strings.Repeat("v", 100), 900)
	for _, item := range views {
		if !o.Offer(view(item)) {
			t.Fatal("a view was dropped although the queue has room")
		}
	}
	deadline := time.Now().Add(30 * time.Second)
	if err := o.queue.flush(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("writing views to a full disk: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for o.queue.flush() != nil {
		if time.Now().After(deadline) {
			t.Fatal("nothing is written although there is room")
		}
	}
	mustAppend(t, o, "after")
	// All of it, once, is there for the next process too.
	closeNow(t, o)
	o = open(t, Options{Dir: dir})
	bus := newFakeBus()
	done := make(chan error, 1)
	go func() { done <- o.Run(t.Context(), bus) }()
	for bus.size() < len(items)+len(views)+1 && time.Now().Before(deadline) {
		select {
		case <-o.progress:
		case <-time.After(time.Until(deadline)):
		}
	}
	if err := o.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	bus.wantCounted(t, append(append(items, views...), "after")...)
}

// TestDiskFullAtTheDocument: hits are not acknowledged before their document is on
// disk, though there is room for them.
func TestDiskFullAtTheDocument(t *testing.T) {
	t.Parallel()
	dir, ballast := smallDisk(t, 700_000)
	o := open(t, Options{Dir: dir})
	mustAppend(t, o, "before")
	rules := o.Document([]byte(strings.Repeat("x", 400_000)))
	if err := o.Append(t.Context(), viewUnder(rules, "refused")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Append without room for the document: %v", err)
	}
	if f := o.fault(faults.SpoolFailing); !strings.Contains(f, "Make room on the disk") {
		t.Errorf("fault %q", f)
	}
	if !o.Offer(viewUnder(rules, "waits")) {
		t.Error("a view was dropped although the queue has room")
	}
	if files := filesOf(t, filepath.Join(dir, documentDir)); len(files) != 1 {
		t.Errorf("documents %v, want the one before", files)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); o.queue.flush() != nil; {
		if time.Now().After(deadline) {
			t.Fatal("nothing is written although there is room")
		}
	}
	mustAppendUnder(t, o, rules, "after")
	closeNow(t, o)
	o = open(t, Options{Dir: dir})
	bus := newFakeBus()
	done := make(chan error, 1)
	go func() { done <- o.Run(t.Context(), bus) }()
	waitUntilSent(t, o)
	if err := o.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	bus.wantCounted(t, "before", "waits", "after")
}
