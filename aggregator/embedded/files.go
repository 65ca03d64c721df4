package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hotboard/hotboard/ruleset"
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

// saveRules keeps the rules in force for LoadRules. Counting does not depend on
// it, so that a failure is only told.
func (e *Embedded) saveRules() {
	data, err := json.MarshalIndent(e.app.Rules(), "", "  ")
	if err == nil {
		err = writeFile(filepath.Join(e.dir, rulesFile), append(data, '\n'))
	}
	if err != nil {
		e.log.Error("the rules could not be saved; an import would use older ones", "error", err)
	}
}

// writeFile replaces a file, or leaves the old one.
func writeFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)) // readable by nobody else
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", path, err), os.Remove(f.Name()))
	}
	return nil
}
