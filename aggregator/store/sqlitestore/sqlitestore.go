// Package sqlitestore keeps counts in one SQLite file, for a site that runs
// everything in one process. The position in the log is in the same transaction
// as the counts, and a commit is on the disk when it returns.
package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"modernc.org/sqlite" // the driver, without cgo
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
)

// DefaultShards is the number of shards where Options names none.
const DefaultShards = 1

// Options says where the store is.
type Options struct {
	// Path is the database file. It is created when there is none; its directory
	// has to exist. SQLite keeps files beside it, named Path-wal and Path-shm.
	Path string
	// Shards is how many shards the log has. It is fixed when the store is
	// created. Default: 1.
	Shards int
	// MemoKeep is how long what is remembered of visitors and quotas is kept after
	// the end of its day, week or month. It has to be longer than the log goes
	// back. Default: [store.DefaultMemoKeep].
	MemoKeep time.Duration
}

// Store implements [store.Store].
type Store struct {
	shards int
	now    func() time.Time
	leases store.Leases

	lock    *sql.DB // holds Path-lock until the store is closed
	reader  *sql.DB
	reads   statements
	viewing chan struct{} // a token for each view that reads

	mu     sync.Mutex // of the one connection that writes
	writer *sql.DB
	conn   *sql.Conn
	writes statements
	terms  terms
	ids    itemIDs
	closed bool
}

var _ store.Store = (*Store)(nil)

// Open opens the store, creating it if there is none. Only one process can have
// it open.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Shards == 0 {
		o.Shards = DefaultShards
	}
	if o.Shards < 1 || o.Shards > hit.MaxShards {
		return nil, fmt.Errorf("opening the store %s: %d shards: there are 1 to %d", o.Path, o.Shards, hit.MaxShards)
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("opening the store %s: %w", o.Path, err)
	}
	s := &Store{shards: o.Shards, now: time.Now}
	s.terms = terms{keep: cmp.Or(o.MemoKeep, store.DefaultMemoKeep), known: map[termKey]termRow{}}
	if err := s.open(ctx, path); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the store %s: %w", o.Path, err), s.Close())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, path string) error {
	var err error
	if s.lock, err = lock(ctx, path+"-lock"); err != nil {
		return err
	}
	// FULL: a commit that has returned survives a power cut. The cache is in KiB.
	if s.writer, err = connect(path, 1, waitBusy, "journal_mode(WAL)", "synchronous(FULL)", "cache_size(-65536)", "wal_autocheckpoint(8192)"); err != nil {
		return err
	}
	if s.conn, err = s.writer.Conn(ctx); err != nil {
		return err
	}
	if err := migrate(ctx, s.conn, s.shards); err != nil {
		return err
	}
	s.writes.prepare = s.conn.PrepareContext
	if s.reader, err = connect(path, maxViews+1, waitBusy, "query_only(1)", "cache_size(-16384)"); err != nil {
		return err
	}
	s.viewing = make(chan struct{}, maxViews)
	s.reads.prepare = s.reader.PrepareContext
	return s.Ping(ctx)
}

// maxViews is how many views read at once. There is one connection more: a view
// holds one, and may need another to prepare a statement that is new. Without it
// all views could wait for each other.
const maxViews = 4

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

// lock takes a lock that ends with the process: an exclusive transaction on a
// file of its own, which SQLite can do on every system.
func lock(ctx context.Context, path string) (*sql.DB, error) {
	db, err := connect(path, 1, "busy_timeout(0)", "journal_mode(MEMORY)")
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, "BEGIN EXCLUSIVE"); err != nil {
		if e := (*sqlite.Error)(nil); errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_BUSY {
			err = errors.New("another process has it open: stop that one, or use another directory")
		}
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// Shards implements [store.Store].
func (s *Store) Shards() int { return s.shards }

func (s *Store) checkShard(n int) error {
	if n < 0 || n >= s.shards {
		return fmt.Errorf("shard %d: the store has %d shards", n, s.shards)
	}
	return nil
}

// view calls fn with a session that sees the store as it is at one moment.
func (s *Store) view(ctx context.Context, fn func(*session) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.viewing <- struct{}{}:
		defer func() { <-s.viewing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	// A query takes milliseconds; watching for the end of a context would take a
	// goroutine for each.
	ctx = context.WithoutCancel(ctx)
	tx, err := s.reader.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	return fn(&session{ctx: ctx, stmt: func(text string) (*sql.Stmt, error) {
		st, err := s.reads.get(ctx, text)
		if err != nil {
			return nil, err
		}
		return tx.StmtContext(ctx, st), nil
	}})
}

var errClosed = errors.New("the store is closed")

// update calls fn with a session whose writes are kept if it returns nil. The
// caller holds s.mu.
func (s *Store) update(ctx context.Context, fn func(*session) error) error {
	if s.closed {
		return errClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	se := &session{ctx: ctx, stmt: func(text string) (*sql.Stmt, error) { return s.writes.get(ctx, text) }}
	if err := se.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := fn(se)
	if err == nil {
		err = se.exec("COMMIT")
	}
	if err == nil {
		return nil
	}
	// SQLite has rolled back by itself after some errors, for example a full disk.
	_ = se.exec("ROLLBACK")
	return err
}

// Load implements [store.Store].
func (s *Store) Load(ctx context.Context, n int) (store.State, error) {
	state := store.State{Producers: map[string]uint64{}}
	if err := s.checkShard(n); err != nil {
		return store.State{}, err
	}
	err := s.view(ctx, func(se *session) (err error) {
		if state.Position, err = position(se, n); err != nil {
			return err
		}
		return se.each("SELECT edge, seq FROM producer WHERE shard = ?", []any{n}, func(r *sql.Rows) error {
			var edge string
			var seq int64
			err := r.Scan(&edge, &seq)
			state.Producers[edge] = uint64(seq)
			return err
		})
	})
	if err != nil {
		return store.State{}, fmt.Errorf("loading shard %d from SQLite: %w", n, err)
	}
	return state, nil
}

func position(se *session, shard int) (store.Position, error) {
	var seq, fingerprint, version int64
	_, err := se.one("SELECT seq, fingerprint, version FROM shard WHERE shard = ?", []any{shard}, &seq, &fingerprint, &version)
	return store.Position{Seq: uint64(seq), Fingerprint: uint64(fingerprint), Version: uint64(version)}, err
}

// Position implements [store.Store].
func (s *Store) Position(ctx context.Context, n int) (p store.Position, err error) {
	if err := s.checkShard(n); err != nil {
		return p, err
	}
	err = s.view(ctx, func(se *session) (err error) { p, err = position(se, n); return err })
	if err != nil {
		return p, fmt.Errorf("reading the position of shard %d from SQLite: %w", n, err)
	}
	return p, nil
}

// Producer implements [store.Store].
func (s *Store) Producer(ctx context.Context, edge string) (map[int]uint64, error) {
	seqs := map[int]uint64{}
	err := s.view(ctx, func(se *session) error {
		return se.each("SELECT shard, seq FROM producer WHERE edge = ?", []any{edge}, func(r *sql.Rows) error {
			var shard int
			var seq int64
			err := r.Scan(&shard, &seq)
			seqs[shard] = uint64(seq)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("reading the applied sequences of edge %s from SQLite: %w", edge, err)
	}
	return seqs, nil
}

// Lease implements [store.Store].
func (s *Store) Lease(_ context.Context, n int, owner string, ttl time.Duration) (bool, error) {
	if err := s.checkShard(n); err != nil {
		return false, err
	}
	return s.leases.Acquire(n, owner, ttl, s.now()), nil
}

// Release implements [store.Store].
func (s *Store) Release(_ context.Context, n int, owner string) error {
	s.leases.Release(n, owner)
	return nil
}

// Members implements [store.Store].
func (s *Store) Members(_ context.Context, owner string, ttl time.Duration) ([]string, error) {
	return s.leases.Members(owner, ttl, s.now()), nil
}

// Ping implements [store.Store].
func (s *Store) Ping(ctx context.Context) error {
	err := s.view(ctx, func(se *session) error {
		_, err := position(se, 0)
		return err
	})
	if err != nil {
		return fmt.Errorf("the SQLite store cannot be read: %w", err)
	}
	return nil
}

// Close implements [store.Store].
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	err := errors.Join(s.reads.close(), s.writes.close())
	if s.reader != nil {
		err = errors.Join(err, s.reader.Close())
	}
	if s.conn != nil {
		err = errors.Join(err, s.conn.Close())
	}
	// The last connection moves what is in the write-ahead log into the file.
	for _, db := range []*sql.DB{s.writer, s.lock} {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
	}
	return err
}
