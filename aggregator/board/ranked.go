package board

import (
	"iter"

	"github.com/hotboard/hotboard/ruleset"
)

// source reads a board from the top: n is the number of entries to read, and rows
// are those that no other row can precede, in order. more is false when there are
// no others.
type source func(n int) (rows []Row, more bool, err error)

// ranked yields the rows of a source. It reads the first number of entries, and
// twice as many whenever the caller needs more rows. It yields nothing before it has
// at least want rows, so that a page without a filter comes from one read. If an
// item moves between two reads, it may be left out, and never comes twice. An error
// comes last.
func ranked(first, want int, read source) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		seen, last := map[string]bool{}, 0.0
		for n := first; ; n *= 2 {
			rows, more, err := read(n)
			if err != nil {
				yield(Row{}, err)
				return
			}
			if more && len(rows) < want {
				continue
			}
			for _, r := range rows {
				if (len(seen) == 0 || !seen[r.ID] && r.Score <= last) && !yield(r, nil) {
					return
				}
			}
			if !more {
				return
			}
			for _, r := range rows {
				seen[r.ID], last = true, r.Score
			}
		}
	}
}

// minViews leaves out the rows with fewer views than the list's floor.
func minViews(l *ruleset.List, rows iter.Seq2[Row, error]) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for r, err := range rows {
			if err == nil && r.Views < l.Score.MinViews {
				if l.Score.Model == ruleset.Count {
					return // all others have no more views
				}
				continue
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// rank numbers the rows of a board from the top. It comes after all filters.
func rank(rows iter.Seq2[Row, error]) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		above, n := Row{}, int64(0)
		for r, err := range rows {
			n++
			r.Rank = n
			if n > 1 {
				if r.Score == above.Score {
					r.Rank = above.Rank
				}
				gap := above.Score - r.Score
				r.Gap = &gap
			}
			if !yield(r, err) {
				return
			}
			above = r
		}
	}
}

// page returns up to limit rows after the first offset ones.
func page(rows iter.Seq2[Row, error], offset, limit int) ([]Row, error) {
	items, n := []Row{}, 0
	for r, err := range rows {
		if err != nil {
			return nil, err
		}
		if n++; n > offset {
			items = append(items, r)
		}
		if n == offset+limit {
			break
		}
	}
	return items, nil
}
