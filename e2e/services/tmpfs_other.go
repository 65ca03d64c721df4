//go:build !linux

package services

import "testing"

// Tmpfs skips the test: only Linux can mount such a file system.
func Tmpfs(t testing.TB, _ int) string {
	t.Helper()
	t.Skip("small file systems are only mounted on Linux")
	return ""
}
