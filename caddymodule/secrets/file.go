package secrets

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/hotboard/hotboard/internal/datadir"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/ruleset"
)

// Open reads the secrets that this edge used before from the file at path, which
// may be missing. conn returns the connection to the broker in force, or false if
// there is none. An unreadable file raises a fault, and Run replaces it: the
// other edges and the broker have the shared secrets, and an edge without others
// can use new ones.
func Open(path string, rules func() *ruleset.Rules, conn func() (*nats.Conn, bool), found *faults.Registry, logger *zap.Logger) *Secrets {
	s := &Secrets{path: path, rules: rules, conn: conn, faults: found, logger: logger, wake: make(chan struct{}, 1)}
	table, err := read(path)
	if err != nil {
		found.Set(faults.SecretsFailing, faults.Whole, fmt.Sprintf("%v; unless the broker has them, today's visitors count as new", err))
	}
	s.table.Store(&table)
	return s
}

func read(path string) (map[secretID]*secret, error) {
	table := make(map[secretID]*secret)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return table, nil
	}
	if err != nil {
		return table, fmt.Errorf("reading the secrets: %w", err)
	}
	byName := make(map[string]*secret)
	if err := json.Unmarshal(data, &byName); err != nil {
		return table, fmt.Errorf("reading the secrets in %s: %w", path, err)
	}
	for name, v := range byName {
		if id, ok := parseSecretID(name); ok && v != nil && len(v.Key) == secretBytes {
			table[id] = v
		}
	}
	return table, nil
}

// save writes the secrets to the file atomically, readable only by its owner.
func (s *Secrets) save() error {
	byName := make(map[string]*secret)
	for id, v := range *s.table.Load() {
		byName[id.String()] = v
	}
	data, err := json.Marshal(byName)
	if err != nil {
		return fmt.Errorf("writing the secrets: %w", err)
	}
	if old, err := os.ReadFile(s.path); err == nil && string(old) == string(data) {
		return nil
	}
	if err := datadir.Make(filepath.Dir(s.path)); err != nil {
		return fmt.Errorf("writing the secrets: %w", err)
	}
	if info, err := os.Lstat(s.path); err == nil && info.IsDir() { // damaged files are not set aside, because they contain secrets
		if _, err := datadir.SetAside(time.Now(), s.path); err != nil {
			return fmt.Errorf("writing the secrets: %w", err)
		}
	}
	if err := datadir.Replace(s.path, data); err != nil {
		return fmt.Errorf("writing the secrets: %w", err)
	}
	return nil
}
