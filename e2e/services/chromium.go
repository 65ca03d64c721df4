package services

import (
	"os/exec"
	"testing"
)

// Chromium returns the path of a Chromium or Chrome in the PATH.
func Chromium(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	missing(t, "there is no chromium, chromium-browser or google-chrome in the PATH")
	return ""
}
