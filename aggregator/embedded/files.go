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
// dir. It returns [os.ErrNotExist] when none runs, and may return the URL of one
// that has crashed.
func URL(dir string) (string, error) {
	data, err := os.ReadFile(filepath.Join(dir, urlFile))
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(data)), nil
}

// LoadRules returns the rules that were in force last in dir.
func LoadRules(dir string) (*ruleset.Ruleset, error) {
	path := filepath.Join(dir, rulesFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there are no rules in %s yet: start the site once, or give a rules file", dir)
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

// files are those that others read: the rules in force, and where the broker is.
// Only an import needs them, so that failing to write one is no fault.
type files struct {
	rules atomic.Pointer[ruleset.Ruleset]

	mu     sync.Mutex
	wrote  map[string]string // by name
	failed bool              // the log has it
}

// saveFiles writes those files that are not as they should be.
func (e *Embedded) saveFiles() {
	e.files.mu.Lock()
	defer e.files.mu.Unlock()
	if !e.store.Locked() {
		return // the directory is not ours
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
		e.log.Error("a file that an import reads cannot be written; trying again", "error", err)
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

// removeURL removes the URL of a broker that runs no more.
func (e *Embedded) removeURL() {
	e.files.mu.Lock()
	defer e.files.mu.Unlock()
	if e.files.wrote[urlFile] == "" {
		return
	}
	delete(e.files.wrote, urlFile)
	if err := os.Remove(filepath.Join(e.dir, urlFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		e.log.Warn("the file with the broker's URL stays behind; it does no harm", "error", err)
	}
}
