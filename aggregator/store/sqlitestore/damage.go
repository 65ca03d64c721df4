package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/hotboard/hotboard/internal/datadir"
)

// damageError means that the file does not hold the data written to it.
type damageError struct{ error }

func (d damageError) Unwrap() error { return d.error }

func damaged(err error) error { return damageError{fmt.Errorf("the file is damaged: %w", err)} }

// asDamage marks errors that only a damaged file can cause.
func asDamage(err error) error {
	var already damageError
	if errors.As(err, &already) {
		return err
	}
	switch code(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return damaged(err)
	}
	return err
}

// judge records an error that means that the file is damaged.
func (f *file) judge(err error) error {
	err = asDamage(err)
	var d damageError
	if errors.As(err, &d) {
		f.damage.CompareAndSwap(nil, &err)
	}
	return err
}

// Damage returns the evidence that the file is damaged, or nil. A damaged store
// does not recover by itself: see [Store.SetAside].
func (s *Store) Damage() error {
	if f := s.file.Load(); f != nil {
		if err := f.damage.Load(); err != nil {
			return *err
		}
		return nil
	}
	var d damageError
	if err := *s.failed.Load(); errors.As(err, &d) {
		return err
	}
	return nil
}

// SetAside closes the file and moves it away, with the files that SQLite keeps
// beside it, so that [Store.Open] creates a new one. It returns the file's new
// path.
func (s *Store) SetAside(now time.Time) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return "", errNotOpen // the file belongs to another process
	}
	_ = s.closeFile(errNotOpen) // closing a damaged file may well fail
	return datadir.SetAside(now, s.path, s.path+"-wal", s.path+"-shm")
}

// Check searches for damage that normal reads miss: it reads the whole file, and
// adds up the entries of each board. That takes about a minute for each GB, on
// one core. It does not block other operations, but the write-ahead log grows
// meanwhile. [Store.Damage] also returns the damage that Check finds.
//
// SQLite has no checksums of pages. So Check does not find a flipped bit in a
// number outside indexes and sums: in the times of an item, or in a memo.
func (s *Store) Check(ctx context.Context) error {
	f, done, err := s.openedToRead()
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.closing, cancel)()
	if err := f.judge(f.check(ctx)); err != nil {
		return fmt.Errorf("checking the store %s: %w", s.path, err)
	}
	return nil
}

func (f *file) check(ctx context.Context) error {
	// Not a Tx, which would return the connection after Rollback when ctx ends.
	conn, err := f.reader.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "BEGIN"); err != nil {
		return err
	}
	defer func() { _, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") }() // nothing was written
	var found string
	if err := conn.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&found); err != nil {
		return err
	}
	if found != "ok" {
		return damaged(errors.New(found))
	}
	// Sets other than sums of views have no totals.
	var name string
	err = conn.QueryRowContext(ctx, `SELECT name FROM board WHERE views <> 0 AND (views, uniques) IS NOT
		(SELECT CAST(sum(score) AS INTEGER), sum(uniques) FROM entry WHERE board_id = board.id)`).Scan(&name)
	switch {
	case err == nil:
		return damaged(fmt.Errorf("the entries of the board %q do not add up to its totals", name))
	case !errors.Is(err, sql.ErrNoRows):
		return err
	}
	return checkVisitors(ctx, conn)
}

// checkVisitors decodes every estimate of visitors.
func checkVisitors(ctx context.Context, conn *sql.Conn) error {
	rows, err := conn.QueryContext(ctx, "SELECT board_id, sketch FROM visitors")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var sketch []byte
		if err := rows.Scan(&id, &sketch); err != nil {
			return err
		}
		if _, err := readSketch(sketch); err != nil {
			return fmt.Errorf("board %d: %w", id, err)
		}
	}
	return rows.Err()
}
