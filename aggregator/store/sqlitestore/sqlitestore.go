// Package sqlitestore keeps counts in one SQLite file, for a site that runs
// everything in one process. Each transaction stores counts together with their
// position in the log, and a commit is on the disk when it returns.
package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
)

// DefaultShards is the default of Options.Shards.
const DefaultShards = 1

// Options configures the store.
type Options struct {
	// Path is the database file. Open creates it if necessary; its directory must
	// exist. SQLite keeps files beside it, named Path-wal and Path-shm.
	Path string
	// Shards is the number of shards in the log. It is fixed when the store is
	// created. Default: 1.
	Shards int
	// MemoKeep is how long the store keeps memos of visitors and quotas after the
	// end of their day, week or month. It must be longer than the age of the log.
	// Default: [store.DefaultMemoKeep].
	MemoKeep time.Duration
}

// Store implements [store.Store].
type Store struct {
	path   string // absolute
	shards int
	now    func() time.Time
	leases store.Leases

	lock    *sql.DB              // holds Path-lock until the store is closed
	file    atomic.Pointer[file] // nil while the file is not open
	failed  atomic.Pointer[error]
	viewing chan struct{} // a token for each reading view

	mu     sync.Mutex // guards the writing connection
	terms  terms
	ids    itemIDs
	closed bool
}

var _ store.Store = (*Store)(nil)

// New returns a store that is not open yet: its methods fail until [Store.Open]
// succeeds.
func New(o Options) (*Store, error) {
	if o.Shards == 0 {
		o.Shards = DefaultShards
	}
	if o.Shards < 1 || o.Shards > hit.MaxShards {
		return nil, fmt.Errorf("opening the store %s: %d shards: use 1 to %d", o.Path, o.Shards, hit.MaxShards)
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("opening the store %s: %w", o.Path, err)
	}
	s := &Store{path: path, shards: o.Shards, now: time.Now, viewing: make(chan struct{}, maxViews)}
	s.terms.keep = cmp.Or(o.MemoKeep, store.DefaultMemoKeep)
	s.fail(errNotOpen)
	return s, nil
}

// Open opens the store and creates it if necessary. Only one process can have it
// open.
func Open(ctx context.Context, o Options) (*Store, error) {
	s, err := New(o)
	if err != nil {
		return nil, err
	}
	if err := s.Open(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Shards implements [store.Store].
func (s *Store) Shards() int { return s.shards }

func (s *Store) checkShard(n int) error {
	if n < 0 || n >= s.shards {
		return fmt.Errorf("shard %d: the store has %d shards", n, s.shards)
	}
	return nil
}

// view calls fn with a session that sees a snapshot of the store.
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
	// A query takes milliseconds; watching a context would take a goroutine for
	// each query.
	ctx = context.WithoutCancel(ctx)
	f, done, err := s.openedToRead()
	if err != nil {
		return err
	}
	defer done()
	tx, err := f.reader.BeginTx(ctx, nil)
	if err != nil {
		return f.judge(err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	return f.judge(fn(&session{ctx: ctx, stmt: func(text string) (*sql.Stmt, error) {
		st, err := f.reads.get(ctx, text)
		if err != nil {
			return nil, err
		}
		return tx.StmtContext(ctx, st), nil
	}}))
}

// update calls fn with a session, and commits its writes if fn returns nil. The
// caller holds s.mu.
func (s *Store) update(ctx context.Context, fn func(*session) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f, err := s.opened()
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	se := &session{ctx: ctx, stmt: func(text string) (*sql.Stmt, error) { return f.writes.get(ctx, text) }}
	if err := se.exec("BEGIN IMMEDIATE"); err != nil {
		return f.judge(err)
	}
	err = fn(se)
	if err == nil {
		err = se.exec("COMMIT")
	}
	if err == nil {
		return nil
	}
	// After some errors, such as a full disk, SQLite has rolled back already.
	_ = se.exec("ROLLBACK")
	return f.judge(err)
}

// Load implements [store.Store].
func (s *Store) Load(ctx context.Context, n int) (store.State, error) {
	state := store.State{Edges: map[string]uint64{}}
	if err := s.checkShard(n); err != nil {
		return store.State{}, err
	}
	err := s.view(ctx, func(se *session) (err error) {
		if state.Position, err = position(se, n); err != nil {
			return err
		}
		if state.Rules, err = inForce(se, n); err != nil {
			return err
		}
		return se.each("SELECT edge, seq FROM producer WHERE shard = ?", []any{n}, func(r *sql.Rows) error {
			var edge string
			var seq int64
			err := r.Scan(&edge, &seq)
			state.Edges[edge] = uint64(seq)
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

func inForce(se *session, shard int) (r store.InForce, err error) {
	var revision int64
	var id []byte
	_, err = se.one("SELECT revision, rules FROM shard WHERE shard = ?", []any{shard}, &revision, &id)
	r.Revision = uint64(revision)
	copy(r.ID[:], id)
	return r, err
}

// InForce implements [store.Store].
func (s *Store) InForce(ctx context.Context) ([]store.InForce, error) {
	all := make([]store.InForce, s.shards)
	err := s.view(ctx, func(se *session) (err error) {
		for shard := range all {
			if all[shard], err = inForce(se, shard); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the rules in force from SQLite: %w", err)
	}
	return all, nil
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

// Applied implements [store.Store].
func (s *Store) Applied(ctx context.Context, edge string) (map[int]uint64, error) {
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
		return fmt.Errorf("reading the SQLite store: %w", err)
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
	err := s.closeFile(errClosed)
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}
