package caddymodule

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

// openSecrets reads the secrets that this edge used before. path need not exist.
func openSecrets(path string, conn func() (*nats.Conn, bool), logger *zap.Logger) (*secrets, error) {
	s := &secrets{path: path, conn: conn, logger: logger, wake: make(chan struct{}, 1)}
	s.local.Store(true)
	table := make(map[secretID]*secret)
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("reading the secrets: %w", err)
	default:
		byName := make(map[string]*secret)
		if err := json.Unmarshal(data, &byName); err != nil {
			// the other edges have them: begin anew rather than not at all
			logger.Error("the secrets cannot be read; unless the broker has them, visitors of today count as new", zap.String("file", path), zap.Error(err))
			break
		}
		for name, v := range byName {
			if id, ok := parseSecretID(name); ok && v != nil && len(v.Key) == secretBytes {
				table[id] = v
			}
		}
	}
	s.table.Store(&table)
	return s, nil
}

// save writes the secrets down, readable by nobody else, all or nothing.
func (s *secrets) save() error {
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
	f, err := os.CreateTemp(filepath.Dir(s.path), filepath.Base(s.path)+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("writing the secrets: %w", err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err2 := f.Close(); err == nil {
		err = err2
	}
	if err == nil {
		err = os.Rename(f.Name(), s.path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("writing the secrets: %w", err)
	}
	return nil
}
