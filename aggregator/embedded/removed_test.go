package embedded

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hotboard/hotboard/internal/brokertest"
)

// Counts that somebody removes while they are in use come back from the log.
func TestRemovedCounts(t *testing.T) {
	t.Parallel()
	e := start(t, t.TempDir())
	s := newSender(t, e)
	s.send(10)
	counts(t, e, 10)
	if err := os.Remove(filepath.Join(e.dir, countsFile)); err != nil {
		t.Fatal(err)
	}
	exist(t, e, countsFile)
	s.send(1)
	counts(t, e, 11)
}

// When somebody removes the whole directory, counting begins anew in it.
func TestRemovedDirectory(t *testing.T) {
	t.Parallel()
	e := start(t, filepath.Join(t.TempDir(), "data"))
	s := newSender(t, e)
	s.send(10)
	counts(t, e, 10)
	if err := os.RemoveAll(e.dir); err != nil {
		t.Fatal(err)
	}
	exist(t, e, countsFile, natsDir, urlFile)
	s = newSender(t, e) // an edge without a past
	s.send(3)
	counts(t, e, 3)
}

// exist waits until files are there again.
func exist(t *testing.T, e *Embedded, names ...string) {
	t.Helper()
	brokertest.Eventually(t, func() string {
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(e.dir, name)); err != nil {
				return err.Error()
			}
		}
		return ""
	})
}
