package fold

import (
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// termID identifies a term of a list. A list may count views by one document and
// votes by another.
type termID struct {
	kind  hit.Kind
	term  calendar.Period
	start int64 // as calendar.Seconds
}

// term holds the memos of one term of a list: from each key to its index in the
// tallies' memos and values.
type term struct {
	termID
	keys map[uint64]int
}

func (rl *ruledList) term(of calendar.Period, start time.Time) *term {
	id := termID{rl.list.Kind(), of, calendar.Seconds(start)}
	t := rl.terms[id]
	if t == nil {
		t = &term{termID: id, keys: map[uint64]int{}}
		rl.terms[id] = t
	}
	return t
}

// dayAt returns the day n days after the one that begins at start.
func (rl *ruledList) dayAt(start int64, n int) *term {
	return rl.term(calendar.Day, calendar.Day.Add(time.Unix(start, 0), n, rl.list.Location()))
}

// memo returns the index of a memo, and queues it for reading.
func (t *tallies) memo(rl *ruledList, in *term, key uint64) int {
	i, ok := in.keys[key]
	if !ok {
		i = len(t.memos)
		t.memos = append(t.memos, store.Memo{List: rl.list.Name, Kind: in.kind, Term: in.term, Start: in.start, Key: key})
		in.keys[key] = i
	}
	return i
}

// set changes the value of a memo.
func (t *tallies) set(memo int, value int64) {
	t.values[memo] = value
	t.changed[memo] = true
}

// lastSeen returns when the pair of a memo was last counted in the memo's day, in
// milliseconds since the Unix epoch; false for never. The memo's value is the time
// since the day began.
func (t *tallies) lastSeen(memo int) (ms int64, ok bool) {
	if memo < 0 || t.values[memo] == store.NoMemo {
		return 0, false
	}
	return t.memos[memo].Start*1000 + t.values[memo], true
}

// pairOf mixes the hash of an item with a visitor. The visitor is already a keyed
// hash, so nobody outside can search for collisions; SplitMix64's finaliser (Steele
// et al., OOPSLA 2014) spreads both over all bits.
func pairOf(item, visitor uint64) uint64 { return mix(item + mix(visitor)) }

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
