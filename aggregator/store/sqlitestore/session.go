package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
)

// statements are prepared once and kept.
type statements struct {
	prepare func(ctx context.Context, text string) (*sql.Stmt, error)

	mu       sync.Mutex
	prepared map[string]*sql.Stmt
}

func (s *statements) get(ctx context.Context, text string) (*sql.Stmt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st, ok := s.prepared[text]; ok {
		return st, nil
	}
	st, err := s.prepare(ctx, text)
	if err != nil {
		return nil, err
	}
	if s.prepared == nil {
		s.prepared = map[string]*sql.Stmt{}
	}
	s.prepared[text] = st
	return st, nil
}

func (s *statements) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for _, st := range s.prepared {
		err = errors.Join(err, st.Close())
	}
	return err
}

// session is one transaction.
type session struct {
	ctx  context.Context
	stmt func(text string) (*sql.Stmt, error)
}

func (s *session) exec(text string, args ...any) error {
	_, err := s.affected(text, args...)
	return err
}

// affected returns how many rows a statement changed.
func (s *session) affected(text string, args ...any) (int64, error) {
	st, err := s.stmt(text)
	if err != nil {
		return 0, err
	}
	res, err := st.ExecContext(s.ctx, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// one reads the first row into dest and reports whether there is one.
func (s *session) one(text string, args []any, dest ...any) (bool, error) {
	st, err := s.stmt(text)
	if err != nil {
		return false, err
	}
	err = st.QueryRowContext(s.ctx, args...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// each calls fn with every row.
func (s *session) each(text string, args []any, fn func(*sql.Rows) error) error {
	st, err := s.stmt(text)
	if err != nil {
		return err
	}
	rows, err := st.QueryContext(s.ctx, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// maxGroup is how many rows or values go into one statement.
const maxGroup = 128

// groups cuts n into groups of powers of two, so that a few prepared statements
// serve any n.
func groups(n int, fn func(from, size int) error) error {
	for from, size := 0, maxGroup; from < n; {
		for size > n-from {
			size /= 2
		}
		if err := fn(from, size); err != nil {
			return err
		}
		from += size
	}
	return nil
}

// insert writes n rows with few statements. The text holds VALUES once; insert
// appends rows of the given number of columns. row appends the values of row i.
func (s *session) insert(text string, columns, n int, row func(args []any, i int) []any) error {
	one := "(" + marks(columns) + ")"
	args := make([]any, 0, maxGroup*columns)
	return groups(n, func(from, size int) error {
		args = args[:0]
		for i := range size {
			args = row(args, from+i)
		}
		rows := strings.Repeat(one+",", size)
		return s.exec(strings.Replace(text, "VALUES", "VALUES "+rows[:len(rows)-1], 1), args...)
	})
}

// in reads the rows whose key is one of n. The text ends in IN; in appends the
// keys. args come before them.
func (s *session) in(text string, args []any, n int, key func(i int) any, fn func(*sql.Rows) error) error {
	all := make([]any, 0, len(args)+maxGroup)
	return groups(n, func(from, size int) error {
		all = append(all[:0], args...)
		for i := range size {
			all = append(all, key(from+i))
		}
		return s.each(text+" ("+marks(size)+")", all, fn)
	})
}

func marks(n int) string { return strings.Repeat("?,", n)[:2*n-1] }
