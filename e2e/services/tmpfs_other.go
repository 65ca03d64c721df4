//go:build !linux

package services

import "testing"

// Tmpfs skips the test: it needs Linux.
func Tmpfs(t testing.TB, _ int) string {
	t.Helper()
	t.Skip("small file systems are only mounted on Linux")
	return ""
}
