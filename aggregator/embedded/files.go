package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hotboard/hotboard/internal/datadir"
	"github.com/hotboard/hotboard/ruleset"
)

// Files in the directory of an embedded backend.
const (
	countsFile = "counts.db" // SQLite; counts.db-lock also locks the directory
	natsDir    = "nats"
	urlFile    = "nats.url"
	rulesFile  = "rules.json"
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

// LoadRules returns the last rules in force in dir.
func LoadRules(dir string) (*ruleset.Rules, error) {
	path := filepath.Join(dir, rulesFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no rules in %s yet: start the site once, or pass a rules file", dir)
	}
	if err != nil {
		return nil, err
	}
	r, err := ruleset.ParseJSON(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return r, nil
}

// files writes the files for other processes: the rules in force, and the
// broker's URL. Only an import needs them, so a failure to write one is not a
// fault.
type files struct {
	rules atomic.Pointer[ruleset.Rules]

	mu     sync.Mutex
	wrote  map[string]string // by name
	failed bool              // already logged
}

// saveFiles writes the files whose content has changed.
func (e *Embedded) saveFiles() {
	e.files.mu.Lock()
	defer e.files.mu.Unlock()
	if !e.store.Locked() {
		return // another process may own the directory
	}
	var errs []error
	if u := e.broker.url(); u != "" {
		errs = append(errs, e.files.write(e.dir, urlFile, u+"\n"))
	}
	if r := e.files.rules.Load(); r != nil {
		data, err := json.MarshalIndent(r, "", "  ")
		if err == nil {
			err = e.files.write(e.dir, rulesFile, string(data)+"\n")
		}
		errs = append(errs, err)
	}
	err := errors.Join(errs...)
	if err != nil && !e.files.failed {
		e.log.Error("cannot write a file for imports; trying again", "error", err)
	}
	e.files.failed = err != nil
}

func (f *files) write(dir, name, text string) error {
	if f.wrote[name] == text {
		return nil
	}
	if err := datadir.Replace(filepath.Join(dir, name), []byte(text)); err != nil {
		return err
	}
	if f.wrote == nil {
		f.wrote = map[string]string{}
	}
	f.wrote[name] = text
	return nil
}

// removeURL removes the URL of a broker that has stopped.
func (e *Embedded) removeURL() {
	e.files.mu.Lock()
	defer e.files.mu.Unlock()
	if e.files.wrote[urlFile] == "" {
		return
	}
	delete(e.files.wrote, urlFile)
	if err := os.Remove(filepath.Join(e.dir, urlFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		e.log.Warn("cannot remove the file with the broker's URL; it does no harm", "error", err)
	}
}
