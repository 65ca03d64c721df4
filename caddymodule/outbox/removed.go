package outbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/hotboard/hotboard/internal/datadir"
)

// dirLock is the lock of a spool directory.
type dirLock struct {
	*flock.Flock
	info os.FileInfo // of its file
}

// lockSpool takes the lock of a spool directory.
func lockSpool(dir string) (*dirLock, error) {
	lock := flock.New(filepath.Join(dir, "lock"), flock.SetPermissions(datadir.FileMode))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("locking the spool: %w", err)
	}
	if !locked {
		return nil, fmt.Errorf("the spool %s is in use: is another Caddy still running? Each edge process needs a directory of its own", dir)
	}
	info, err := os.Stat(lock.Path())
	if err != nil {
		return nil, fmt.Errorf("locking the spool: %w", errors.Join(err, lock.Close()))
	}
	return &dirLock{lock, info}, nil
}

// removed reports whether an open file was removed or replaced. Writing to such a
// file causes no error.
func removed(ours os.FileInfo, path string) bool {
	there, err := os.Stat(path)
	// The next write reports any other error than a missing file.
	return errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(ours, there)
}

// isRemoved reports whether files that the next write needs are gone.
func (s *spool) isRemoved() bool {
	return removed(s.lock.info, s.lock.Path()) || s.active != nil && removed(s.active.info, s.active.path)
}

// restore rewrites removed files of the spool into its directory: their content
// is still open. It returns whether any were gone.
func (s *spool) restore() (restored bool, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("rewriting the removed files of the spool %s: %w", s.dir, err)
		}
	}()
	if err := datadir.Make(s.dir); err != nil {
		return false, err
	}
	if removed(s.lock.info, s.lock.Path()) {
		restored = true
		lock, err := lockSpool(s.dir)
		if err != nil {
			return restored, err
		}
		_ = s.lock.Close() // invisible to other processes
		s.lock = lock
	}
	documents, err := s.restoreDocuments()
	if restored = restored || documents; err != nil {
		return restored, err
	}
	for i, old := range s.state {
		info, err := old.Stat()
		if err == nil && !removed(info, stateFile(s.dir, i)) {
			continue
		}
		restored = true
		f, err := os.OpenFile(stateFile(s.dir, i), os.O_RDWR|os.O_CREATE, datadir.FileMode)
		if err != nil {
			return restored, err
		}
		s.state[i] = f
		_ = old.Close() // the next state has its content
	}
	for n, g := range s.segments {
		if !removed(g.info, g.path) {
			continue
		}
		restored = true
		if s.active == g {
			s.active = nil
		}
		if err := s.evacuate(n); err != nil {
			return restored, err
		}
		if g.live == 0 {
			s.drop(n)
		}
	}
	if !restored {
		return false, nil
	}
	return true, errors.Join(s.saveState(true), datadir.Sync(s.dir))
}
