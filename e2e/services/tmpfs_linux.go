package services

import (
	"fmt"
	"os"
	"syscall"
	"testing"
)

// Tmpfs mounts a file system of so many megabytes until the test ends, and returns
// its directory. Start its users after it, so that they end before.
func Tmpfs(t testing.TB, megabytes int) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", megabytes)); err != nil {
		missing(t, "mounting a small file system, which a container needs the capability SYS_ADMIN for: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
