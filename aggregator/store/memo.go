package store

import (
	"time"

	"github.com/hotboard/hotboard/hit"
)

// Memo identifies a small number that a list remembers for some time: when an item
// and visitor were last counted in a day, or how many votes of a key a limit has
// counted in a window.
type Memo struct {
	List string
	// Kind is what the list counts. All votes of a list are in one shard, and so are
	// their memos: many more than a list of views has in a shard.
	Kind  hit.Kind
	Term  Term
	Start int64  // beginning of the term, in seconds since the Unix epoch; 0 for Ever
	Key   uint64 // hash of everything else that identifies it
}

// MemoValue sets a memo.
type MemoValue struct {
	Memo
	Value uint32
}

// NoMemo is the value in [Have] of a memo that does not exist.
const NoMemo = -1

// Term is the period that a memo belongs to. A memo about less than a day belongs
// to the day in which its time begins.
type Term uint8

// The terms. The numbers are part of the stores' format.
const (
	Day   Term = 1
	Week  Term = 2
	Month Term = 3
	Ever  Term = 4 // as long as the list exists
)

// String returns the term's name, which is part of the stores' format.
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

// DefaultMemoKeep is the least time for which a memo is kept after its term. It is
// longer than the default age of a log, so that a late hit, or a log that is read
// again, finds the memos that it needs.
const DefaultMemoKeep = 8 * 24 * time.Hour

// Keep returns how long to keep the memos of a term after the last change of any of
// them. after is how long they are needed once the term has ended. The store's
// clock measures it, so imported hits of years ago are remembered just as long. 0
// means for ever.
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
