package store

import (
	"time"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// Memo identifies a small number that a list remembers for some time: when an item
// and visitor were last counted in a day, or how many votes of a key a limit has
// counted in a window.
type Memo struct {
	List string
	// Kind is what the list counts. All votes of a list are in one shard, and so are
	// their memos: many more than a list of views has in a shard.
	Kind  hit.Kind
	Term  calendar.Period // one of calendar.Terms
	Start int64           // beginning of the term, as calendar.Seconds
	Key   uint64          // hash of everything else that identifies it
}

// MemoValue sets a memo.
type MemoValue struct {
	Memo
	Value uint32
}

// NoMemo is the value in [Have] of a memo that does not exist.
const NoMemo = -1

// DefaultMemoKeep is the least time for which a memo is kept after its term. It is
// longer than the default age of a log, so that a late hit, or a log that is read
// again, finds the memos that it needs.
const DefaultMemoKeep = 8 * 24 * time.Hour
