package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/hotboard/hotboard/internal/datadir"
)

// Files in the directory of an embedded backend.
const (
	countsFile = "counts.db" // SQLite; counts.db-lock also locks the directory
	natsDir    = "nats"
	urlFile    = "nats.url"
)

// URL returns the URL, with its token, of the broker of the backend that runs in
// dir. It returns [os.ErrNotExist] if none runs, and may return a stale URL after
// a crash.
func URL(dir string) (string, error) {
	data, err := os.ReadFile(filepath.Join(dir, urlFile))
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(data)), nil
}

// publishedURL is the file with the broker's URL for other processes. Only commands
// such as an import need it, so a failure to write it is not a fault.
type publishedURL struct {
	mu     sync.Mutex
	wrote  string
	failed bool // already logged
}

// saveURL writes the file if the URL has changed.
func (e *Embedded) saveURL() {
	e.url.mu.Lock()
	defer e.url.mu.Unlock()
	u := e.broker.url()
	if u == "" || u == e.url.wrote || !e.store.Locked() { // else another process may own the directory
		return
	}
	err := datadir.Replace(filepath.Join(e.dir, urlFile), []byte(u+"\n"))
	if err == nil {
		e.url.wrote = u
	} else if !e.url.failed {
		e.log.Error("cannot write the broker's URL for commands such as import; trying again", "error", err)
	}
	e.url.failed = err != nil
}

// removeURL removes the URL of a broker that has stopped.
func (e *Embedded) removeURL() {
	e.url.mu.Lock()
	defer e.url.mu.Unlock()
	if e.url.wrote == "" {
		return
	}
	e.url.wrote = ""
	if err := os.Remove(filepath.Join(e.dir, urlFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		e.log.Warn("cannot remove the file with the broker's URL; it does no harm", "error", err)
	}
}
