package embedded

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// smallDisk mounts a file system of a size, until the test ends.
func smallDisk(t *testing.T, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		if os.Getenv("HOTBOARD_REQUIRE_SERVICES") == "1" {
			t.Fatal("mounting a small disk: ", err)
		}
		t.Skip("a small disk cannot be mounted here (this needs root): ", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill leaves no room on the file system of dir, until free is called.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "fills-the-disk")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, 40<<20)
	dir := filepath.Join(disk, "data")
	e := start(t, dir)
	ready(t, e, "")
	s := newSender(t, e)
	s.send(10)
	counts(t, e, 10)

	free := fill(t, disk)
	var refused error
	for began := time.Now(); time.Since(began) < 4*time.Second; {
		if err := s.try(8 << 10); err != nil {
			refused = err
		}
	}
	if refused == nil {
		t.Fatal("a full disk took everything")
	}
	ready(t, e, "log_refuses")
	free()
	began := time.Now()
	s.send(10)
	counts(t, e, int64(s.acked))
	ready(t, e, "")
	t.Logf("%d counted %s after there was room", s.acked, time.Since(began))
}

func TestFullDiskAtStart(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, 40<<20)
	dir := filepath.Join(disk, "data")
	e := start(t, dir)
	s := newSender(t, e)
	s.send(10)
	counts(t, e, 10)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	free := fill(t, disk)
	e = start(t, dir)
	ready(t, e, "backend_away")
	free()
	ready(t, e, "")
	counts(t, e, 10)
}
