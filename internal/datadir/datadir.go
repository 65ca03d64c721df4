// Package datadir keeps the files of a data directory: readable by their owner
// only, replaced as a whole or not at all, and set aside when they are damaged.
package datadir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/atomicwriter"
)

// Modes of everything in a data directory, which holds secrets.
const (
	DirMode  fs.FileMode = 0o700
	FileMode fs.FileMode = 0o600
)

const (
	// tempPrefix begins the names of files that Replace is writing.
	tempPrefix = ".tmp-"
	// asideMark is in the names of damaged files that were set aside.
	asideMark = ".damaged-"
)

// Make creates a directory and its parents so that they survive a power cut, and
// removes other users' access to an existing one.
func Make(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := makeAll(dir); err != nil {
			return fmt.Errorf("creating the directory %s: %w", dir, err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("using the directory %s: %w", dir, err)
	case !info.IsDir():
		return fmt.Errorf("using the directory %s: it is a file", dir)
	case info.Mode().Perm()&^DirMode == 0 || runtime.GOOS == "windows":
		return nil
	}
	if err := os.Chmod(dir, DirMode); err != nil {
		return fmt.Errorf("closing the directory %s to others: %w", dir, err)
	}
	return nil
}

func makeAll(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if err := makeAll(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, DirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return Sync(parent)
}

// Sync writes a directory's entries to disk, so that files created or renamed in it
// survive a power cut.
func Sync(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // a directory cannot be synced there
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("syncing the directory %s: %w", dir, err)
	}
	return nil
}

// Replace writes a file as a whole. On an error the old one stays.
func Replace(path string, data []byte) error {
	if err := atomicwriter.WriteFile(path, data, FileMode); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return Sync(filepath.Dir(path))
}

// Tidy removes the temporary files that a killed process left behind in Replace.
func Tidy(dir string) error {
	left, err := list(dir, func(name string) bool { return strings.HasPrefix(name, tempPrefix) })
	for _, path := range left {
		err = errors.Join(err, os.Remove(path))
	}
	if err != nil {
		return fmt.Errorf("tidying %s: %w", dir, err)
	}
	return nil
}

// Room returns why n bytes cannot be written to a directory, or nil.
func Room(dir string, n int) error {
	f, err := os.CreateTemp(dir, tempPrefix+"room-")
	if err != nil {
		return err
	}
	data := make([]byte, n)
	rand.Read(data) // incompressible; never fails
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
}

// SetAside renames a damaged file or directory, and the files that belong to it, so
// that a new one can take its place. It returns the new name of the first. It
// ignores files that do not exist.
func SetAside(now time.Time, path string, beside ...string) (aside string, err error) {
	suffix := asideMark + now.UTC().Format("20060102T150405.000Z")
	for _, p := range append([]string{path}, beside...) {
		if err := os.Rename(p, p+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("moving a damaged file aside: %w", err)
		}
	}
	return path + suffix, Sync(filepath.Dir(path))
}

// Aside returns the paths under which SetAside has kept a file and which still
// exist, oldest first.
func Aside(path string) ([]string, error) {
	prefix := filepath.Base(path) + asideMark
	return list(filepath.Dir(path), func(name string) bool { return strings.HasPrefix(name, prefix) })
}

func list(dir string, want func(name string) bool) (paths []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if want(e.Name()) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	slices.Sort(paths)
	return paths, err
}
