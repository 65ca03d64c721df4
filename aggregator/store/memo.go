package store

import (
	"time"

	"github.com/hotboard/hotboard/hit"
)

// Memo names a small number that a list remembers for some time: when an item and
// visitor were last counted in a day, or how many votes of a key a limit has
// counted in a window.
type Memo struct {
	List string
	// Kind is what the list counts. All votes of a list are in one shard, and so are
	// its memos, of which there may be many more than a shard has of a list of
	// views.
	Kind  hit.Kind
	Term  Term
	Start int64  // beginning of the term, in seconds since the Unix epoch; 0 for Ever
	Key   uint64 // hash of everything else that tells it from others
}

// MemoValue sets a memo.
type MemoValue struct {
	Memo
	Value uint32
}

// NoMemo is what [Have] has for a memo that nobody has set.
const NoMemo = -1

// Term is the stretch of time that a memo is about. What is about less than a day
// belongs to the day that it begins in.
type Term uint8

// The terms. The numbers are part of what stores keep.
const (
	Day   Term = 1
	Week  Term = 2
	Month Term = 3
	Ever  Term = 4 // as long as there is the list
)

// String returns the term's name, which is part of what stores keep.
func (t Term) String() string {
	switch t {
	case Day:
		return "day"
	case Week:
		return "week"
	case Month:
		return "month"
	case Ever:
		return "ever"
	}
	return "unknown"
}

// DefaultMemoKeep is how long after the end of its term a memo is kept at least.
// It is longer than a log goes back by default, so that a hit that comes late, or a
// log that is read again, finds what it needs.
const DefaultMemoKeep = 8 * 24 * time.Hour

// Keep returns for how long after the last change of any memo of a term they are
// all to be kept, where after is how long they are needed once the term has
// ended. It is measured on the store's clock: hits of years ago that are
// imported today are remembered just as long. 0 says that they never go.
func (t Term) Keep(after time.Duration) time.Duration {
	const day = 24 * time.Hour
	switch t {
	case Day:
		return day + after
	case Week:
		return 7*day + after
	case Month:
		return 31*day + after
	}
	return 0
}
