package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"sync"
	"sync/atomic"

	"modernc.org/sqlite" // the driver, without cgo
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/hotboard/hotboard/internal/datadir"
)

// Errors of a store that is not open.
var (
	errNotOpen = errors.New("the store is not open yet")
	errClosed  = errors.New("the store is closed")
)

// ErrInUse is returned by Open when another process has the store open.
var ErrInUse = errors.New("another process has it open: stop that one, or use another directory")

// file is the database file while it is open.
type file struct {
	info   fs.FileInfo // to notice that somebody has removed it
	reader *sql.DB
	reads  statements
	writer *sql.DB // one connection: conn
	conn   *sql.Conn
	writes statements

	damage atomic.Pointer[error]

	// SQLite removes the write-ahead log by its name when the last connection is
	// closed, which by then may be that of a new file: so nobody may read any more
	// when the file is closed.
	reading sync.RWMutex
	closed  bool
	closing context.Context // of Check, which reads for long
	stop    context.CancelFunc
}

// maxViews is how many views read at once. There are two connections more: a view
// holds one, and may need another to prepare a statement that is new. Without it
// all views could wait for each other. Check takes the other one for minutes.
const maxViews = 4

// Open opens the file, or creates it, if it is not open. A store that could not
// be opened may be opened later.
func (s *Store) Open(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errClosed
	case s.file.Load() != nil:
		return nil
	}
	err := s.open(ctx)
	if err != nil {
		err = fmt.Errorf("opening the store %s: %w", s.path, err)
		s.fail(err)
	}
	return err
}

// IsOpen reports whether the file is open.
func (s *Store) IsOpen() bool { return s.file.Load() != nil }

// Locked reports whether this process has the lock, which it takes when it opens
// the store for the first time. Whoever does not have it leaves alone what is in
// the same directory.
func (s *Store) Locked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lock != nil && !s.closed
}

// fail notes why the store is not open.
func (s *Store) fail(err error) { s.failed.Store(&err) }

// opened returns the file, or why it is not open.
func (s *Store) opened() (*file, error) {
	if f := s.file.Load(); f != nil {
		return f, nil
	}
	return nil, *s.failed.Load()
}

// openedToRead is the same for who does not hold s.mu. The file stays open until
// done is called.
func (s *Store) openedToRead() (f *file, done func(), err error) {
	f, err = s.opened()
	if err != nil {
		return nil, nil, err
	}
	f.reading.RLock()
	if f.closed {
		f.reading.RUnlock()
		return nil, nil, *s.failed.Load()
	}
	return f, f.reading.RUnlock, nil
}

func (s *Store) open(ctx context.Context) error {
	var err error
	if s.lock == nil {
		if s.lock, err = lock(ctx, s.path+"-lock"); err != nil {
			return err
		}
	}
	if _, err := os.Stat(s.path); errors.Is(err, fs.ErrNotExist) {
		// A write-ahead log of another file would be played back into the new one.
		for _, left := range []string{s.path + "-wal", s.path + "-shm"} {
			if err := os.Remove(left); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	for _, path := range []string{s.path, s.path + "-wal", s.path + "-shm"} {
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			return damaged(fmt.Errorf("%s is not a file", path))
		}
		if err := private(path, path == s.path); err != nil {
			return err
		}
	}
	f := new(file)
	f.closing, f.stop = context.WithCancel(context.Background())
	if err := f.open(ctx, s.path, s.shards); err != nil {
		return errors.Join(asDamage(err), f.close())
	}
	if f.info, err = os.Stat(s.path); err != nil {
		return errors.Join(err, f.close())
	}
	// Rows of another file would be wrong.
	s.terms = terms{keep: s.terms.keep, known: map[termKey]termRow{}}
	s.ids = itemIDs{}
	s.file.Store(f)
	return nil
}

func (f *file) open(ctx context.Context, path string, shards int) error {
	var err error
	// FULL: a commit that has returned survives a power cut. The cache is in KiB.
	if f.writer, err = connect(path, 1, waitBusy, "journal_mode(WAL)", "synchronous(FULL)", "cache_size(-65536)", "wal_autocheckpoint(8192)"); err != nil {
		return err
	}
	if f.conn, err = f.writer.Conn(ctx); err != nil {
		return err
	}
	if err := migrate(ctx, f.conn, shards); err != nil {
		return err
	}
	f.writes.prepare = f.conn.PrepareContext
	if f.reader, err = connect(path, maxViews+2, waitBusy, "query_only(1)", "cache_size(-16384)"); err != nil {
		return err
	}
	f.reads.prepare = f.reader.PrepareContext
	return f.reader.PingContext(ctx)
}

// CloseIfRemoved closes the store, and gives up its lock, when somebody has removed
// or replaced the file: SQLite would go on writing to one that nobody can open any
// more. It reports whether it did; [Store.Open] then begins a new file.
func (s *Store) CloseIfRemoved() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.file.Load()
	if f == nil || s.lock == nil {
		return false
	}
	there, err := os.Stat(s.path)
	if err == nil && os.SameFile(f.info, there) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	_ = s.closeFile(errNotOpen) // nobody can read it any more
	_ = s.lock.Close()          // its file may be gone too
	s.lock = nil
	return true
}

// close closes whatever is open. The last connection moves what is in the
// write-ahead log into the file.
func (f *file) close() error {
	f.stop()
	f.reading.Lock()
	defer f.reading.Unlock()
	f.closed = true
	err := errors.Join(f.reads.close(), f.writes.close())
	if f.reader != nil {
		err = errors.Join(err, f.reader.Close())
	}
	if f.conn != nil {
		err = errors.Join(err, f.conn.Close())
	}
	if f.writer != nil {
		err = errors.Join(err, f.writer.Close())
	}
	return err
}

// closeFile closes the file, if it is open, because of why. The caller holds s.mu.
func (s *Store) closeFile(why error) error {
	s.fail(why)
	if f := s.file.Swap(nil); f != nil {
		return f.close()
	}
	return nil
}

// waitBusy waits, in milliseconds, while another connection of this process has
// the file for a moment.
const waitBusy = "busy_timeout(10000)"

// connect makes a pool of connections to a file.
func connect(path string, conns int, pragmas ...string) (*sql.DB, error) {
	query := url.Values{"_pragma": append([]string{"temp_store(MEMORY)"}, pragmas...)}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+query.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

// private closes a file to others. SQLite gives the files that it creates beside
// the database the mode of the database, so that one is created first.
func private(path string, create bool) error {
	if create {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, datadir.FileMode)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().Perm()&^datadir.FileMode == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Chmod(path, datadir.FileMode)
}

// lock takes a lock that ends with the process: an exclusive transaction on a
// file of its own, which SQLite can do on every system.
func lock(ctx context.Context, path string) (*sql.DB, error) {
	if err := private(path, true); err != nil {
		return nil, err
	}
	db, err := connect(path, 1, "busy_timeout(0)", "journal_mode(MEMORY)")
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, "BEGIN EXCLUSIVE"); err != nil {
		switch code(err) {
		case sqlite3.SQLITE_BUSY:
			err = ErrInUse
		case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
			err = fmt.Errorf("%w: %s is only locked and has to be empty: delete it", err, path)
		}
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// code returns the primary result code of an error of SQLite, or 0.
func code(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}
