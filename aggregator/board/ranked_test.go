package board

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"testing"

	"github.com/hotboard/hotboard/ruleset"
)

// rowsOf are rows in order, named by their position, with a score and views of n at
// the first one, and one less each.
func rowsOf(n int) []Row {
	rows := make([]Row, n)
	for i := range rows {
		rows[i] = Row{ID: fmt.Sprint(i), Score: float64(n - i), Views: int64(n - i)}
	}
	return rows
}

// sourceOf is the source of a board that has other rows from one read to the next,
// and the sizes of its reads.
func sourceOf(boards ...[]Row) (source, *[]int) {
	var reads []int
	return func(n int) ([]Row, bool, error) {
		rows := boards[min(len(reads), len(boards)-1)]
		reads = append(reads, n)
		return rows[:min(n, len(rows))], n <= len(rows), nil
	}, &reads
}

func take(t *testing.T, rows iter.Seq2[Row, error], n int) (ids []string) {
	t.Helper()
	items, err := page(rows, 0, n)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range items {
		ids = append(ids, r.ID)
	}
	return ids
}

func TestRankedReadsAsFarAsItIsTaken(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		first, want, take, has int
		reads                  []int
	}{
		{first: 10, want: 10, take: 10, has: 100, reads: []int{10}},
		{first: 10, take: 11, has: 100, reads: []int{10, 20}},
		{first: 10, take: 50, has: 100, reads: []int{10, 20, 40, 80}},
		{first: 10, want: 30, take: 5, has: 100, reads: []int{10, 20, 40}},
		{first: 10, want: 30, take: 30, has: 12, reads: []int{10, 20}},
		{first: 10, want: 10, take: 10, has: 0, reads: []int{10}},
	} {
		read, reads := sourceOf(rowsOf(tc.has))
		ids := take(t, ranked(tc.first, tc.want, read), tc.take)
		if len(ids) != min(tc.take, tc.has) || !slices.Equal(*reads, tc.reads) {
			t.Errorf("%+v: %d rows from the reads %v", tc, len(ids), *reads)
		}
		for i, id := range ids {
			if id != fmt.Sprint(i) {
				t.Errorf("%+v: row %d is %s", tc, i, id)
			}
		}
	}
}

// An item that moves between two reads may be left out, and never comes twice or out
// of order.
func TestRankedOfAChangingBoard(t *testing.T) {
	t.Parallel()
	was := []Row{{ID: "a", Score: 9}, {ID: "b", Score: 8}, {ID: "c", Score: 7}}
	is := []Row{{ID: "c", Score: 10}, {ID: "a", Score: 9}, {ID: "b", Score: 7}, {ID: "d", Score: 6}}
	read, _ := sourceOf(was, is)
	if got := take(t, ranked(2, 0, read), 10); !slices.Equal(got, []string{"a", "b", "d"}) {
		t.Errorf("got %v", got)
	}
}

func TestRankedEndsWithAnError(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	read := func(n int) ([]Row, bool, error) {
		if n > 4 {
			return nil, false, failed
		}
		return rowsOf(n), true, nil
	}
	l := &ruleset.List{}
	if _, err := page(rank(minViews(l, ranked(2, 0, read))), 0, 10); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
}

// A filter comes before the ranks, and the board is read on for the rows that it
// leaves out.
func TestMinViews(t *testing.T) {
	t.Parallel()
	rows := rowsOf(40)
	for i := range rows {
		if i%4 != 3 {
			rows[i].Views = 0
		}
	}
	l := &ruleset.List{ListConfig: ruleset.ListConfig{Score: ruleset.Score{Model: ruleset.HalfLife, MinViews: 1}}}
	read, reads := sourceOf(rows)
	got, err := page(rank(minViews(l, ranked(5, 5, read))), 1, 4)
	if err != nil || !slices.Equal(*reads, []int{5, 10, 20}) {
		t.Fatalf("reads %v, %v", *reads, err)
	}
	for i, r := range got {
		if r.ID != fmt.Sprint(4*i+7) || r.Rank != int64(i)+2 || *r.Gap != 4 {
			t.Errorf("row %d is %+v", i, r)
		}
	}
	// With the model count, no row after the first one under the floor is read.
	l.Score = ruleset.Score{Model: ruleset.Count, MinViews: 98}
	read, reads = sourceOf(rowsOf(100))
	if got := take(t, minViews(l, ranked(4, 4, read)), math.MaxInt); len(got) != 3 || !slices.Equal(*reads, []int{4}) {
		t.Errorf("%v from the reads %v", got, *reads)
	}
}
