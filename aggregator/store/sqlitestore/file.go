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

// ErrInUse means that another process has the store open.
var ErrInUse = errors.New("another process has it open: stop that process, or use another directory")

// file is the database file while it is open.
type file struct {
	info   fs.FileInfo // to notice that somebody has removed it
	reader *sql.DB
	reads  statements
	writer *sql.DB // one connection: conn
	conn   *sql.Conn
	writes statements

	damage atomic.Pointer[error]

	// SQLite removes the write-ahead log by its name when the last connection
	// closes. By then the name may belong to a new file, so all reads must end
	// before the file closes.
	reading sync.RWMutex
	closed  bool
	closing context.Context // for Check, which reads for a long time
	stop    context.CancelFunc
}

// maxViews is the number of concurrent views. There are two more connections: a
// view holds one, and may need another to prepare a new statement. Without it all
// views could wait for each other. Check holds the other one for minutes.
const maxViews = 4

// Open opens or creates the file unless it is open. After a failure the caller
// can try again later.
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

// Locked reports whether this process has the lock, which it takes when it first
// opens the store. A process without the lock must not touch other files in the
// directory.
func (s *Store) Locked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lock != nil && !s.closed
}

// fail records why the store is not open.
func (s *Store) fail(err error) { s.failed.Store(&err) }

// opened returns the file, or the reason why it is not open.
func (s *Store) opened() (*file, error) {
	if f := s.file.Load(); f != nil {
		return f, nil
	}
	return nil, *s.failed.Load()
}

// openedToRead is opened for callers that do not hold s.mu. The file stays open
// until the caller calls done.
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

// close closes all open connections. The last one moves the write-ahead log into
// the file.
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

// closeFile closes the file if it is open, for the reason why. The caller holds
// s.mu.
func (s *Store) closeFile(why error) error {
	s.fail(why)
	if f := s.file.Swap(nil); f != nil {
		return f.close()
	}
	return nil
}

// waitBusy is how long, in milliseconds, a connection waits while another one of
// this process holds the file.
const waitBusy = "busy_timeout(10000)"

// connect creates a pool of connections to a file.
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

// private restricts a file to this user. SQLite creates the files beside the
// database with the database's mode, so private creates the database first.
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
// separate file, which SQLite supports on every system.
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
			err = fmt.Errorf("%w: %s is a lock file and must be empty: delete it", err, path)
		}
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// code returns the primary result code of an SQLite error, or 0.
func code(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}
