// Package store defines how counts are stored. A Store keeps, for each shard of the
// log, the counts and the position in the log that they correspond to, and changes
// both together or not at all.
//
// A Store does not know how to count: package fold does, once, for every store. The
// fold reads the values that it needs with [Store.Read], decides, and writes the
// new values with [Store.Commit]. Commit refuses when the shard has moved since the
// read. Values are absolute, never increments.
//
// Every implementation passes the suite in package storetest.
package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// ErrConflict is the error of Commit when the shard is not at the position that the
// commit was computed from: another aggregator moved it on, or the store was
// restored from an older copy. Commit has written nothing. Load the state again.
var ErrConflict = errors.New("the shard is at another position than the commit was computed from")

// ErrEvicts is wrapped by the error of Ping while the store may evict keys, and
// after it has evicted some, until an operator acts. Nothing should be counted
// meanwhile. The error names the remedy.
var ErrEvicts = errors.New("the store does not keep everything")

// Position is how far into the log the counts of a shard reach.
type Position struct {
	// Seq is the stream sequence of the last applied message; 0 means that the log
	// must be read from its beginning.
	Seq uint64
	// Fingerprint identifies that message, to detect a log that was replaced or lost
	// its tail. 0 when Seq is 0.
	Fingerprint uint64
	// Version is random for every commit. A log may be read again, past the same
	// messages, and a store may be restored from an older copy: without Version, a
	// commit computed long ago could find the shard at its From again, with other
	// counts than those that it was computed from.
	Version uint64
}

// State is a shard's progress in the log.
type State struct {
	Position Position
	// Edges maps an edge's id to its highest applied batch sequence.
	Edges map[string]uint64
	// Rules are the rules in force.
	Rules InForce
}

// InForce names the rules that the log has put in force in a shard. They decide
// which periods and sums of scores the shard keeps. The zero InForce means that
// nothing has been counted yet.
type InForce struct {
	// Revision is the number of the revision; 0 while none has come into force. Then
	// the document of the shard's first hits is in force.
	Revision uint64
	ID       hit.RulesID
}

// Set names one ordered set of items of a list: a period board such as
// "day:20261120T000000Z", or an index such as "gravity" or "published".
type Set struct {
	List string
	Name string
}

// Entry is one item of a set.
type Entry struct {
	Item string
	Tally
}

// Tally is an item's value in a set. Views order a set that counts hits (see
// [Set.Counts]), and Score orders any other; the other one of the two is 0.
type Tally struct {
	Views   int64 // counted hits: views, or votes
	Uniques int64 // 0 in sets that do not count them
	Score   float64
}

// Value is what orders the set: Views or Score.
func (t Tally) Value() float64 { return float64(t.Views) + t.Score }

// TallyOf returns the tally with a value. counts is true in a set that counts hits.
func TallyOf(counts bool, value float64, uniques int64) Tally {
	if counts {
		return Tally{Views: int64(value), Uniques: uniques}
	}
	return Tally{Score: value, Uniques: uniques}
}

// Item is the record of an item beside its boards. Times are in milliseconds since
// the Unix epoch, UTC.
type Item struct {
	First         int64 // time of the first counted hit
	Last          int64 // last counted hit
	Published     int64 // 0 if nobody named one; First replaces it then
	PublishedFrom hit.Source
	Duplicates    int64
}

// PublishTime returns the start of the item's age.
func (i *Item) PublishTime() int64 {
	if i.PublishedFrom == hit.FromFirstHit {
		return i.First
	}
	return i.Published
}

// Totals are the sums of one shard of a list in the period of a set.
type Totals struct {
	Views      int64 // counted hits: views, or votes
	Uniques    int64
	Duplicates int64
	// Newest is the time of the newest hit, in milliseconds since the Unix epoch.
	Newest int64
	// Landmark is the reference instant of this shard's half-life scores, in
	// milliseconds since the Unix epoch; 0 for other models.
	Landmark int64
}

// Want lists the values of one shard that a fold needs. Duplicates are allowed and
// cost a little time.
type Want struct {
	Memos  []Memo
	Items  map[string][]string // list → items
	Scores map[Set][]string    // set → items
	Totals []Set
	// Whole are sets to return with all of their items, which may be many.
	Whole []Set
	// Sets asks for the shard's sets, of all lists.
	Sets bool
}

// Have answers a [Want], in its order. A missing value is the zero value ([NoMemo]
// for Memos).
type Have struct {
	// Position is the shard's position at the time of the read. If it differs from the
	// loaded state's, the shard has moved in between.
	Position Position

	Memos  []int64 // 0 to the highest uint32, or NoMemo
	Items  map[string][]Item
	Scores map[Set][]Tally
	Totals []Totals
	Whole  map[Set][]Entry // in any order
	// Sets holds the totals of each set of the shard whose totals are not zero.
	Sets map[Set]Totals
}

// Loss records batches that the counts of a shard lack for good, until an operator
// acknowledges it: see [Store.Acknowledge]. There is one for each edge and shard.
type Loss struct {
	Shard int `json:"shard"`
	// Edge is the edge of batches that neither the log nor the edge had any more. It
	// is empty when the log had lost its beginning before the shard was counted for
	// the first time; then From and To are stream sequences, of all shards, and
	// Batches is 0.
	Edge string `json:"edge,omitempty"`
	// From and To are the lowest and the highest missing batch sequence, and Batches
	// is the number of missing batches between them.
	From    uint64 `json:"from"`
	To      uint64 `json:"to"`
	Batches uint64 `json:"batches,omitempty"`
}

// Commit is the result of a fold: absolute values to write.
type Commit struct {
	// From is the position that the values were computed from. To and Edges
	// replace the old state.
	From  Position
	To    Position
	Edges map[string]uint64 // only the changed ones
	// Rules, unless nil, are the rules in force from here on.
	Rules *InForce
	// Losses replace the store's records of the same edges in this shard.
	Losses []Loss

	Memos  []MemoValue
	Items  map[string]map[string]Item // list → item
	Scores map[Set]map[string]Tally
	Totals map[Set]Totals
	// Visitors are added to a set's estimate of distinct visitors.
	Visitors map[Set][]uint64
	// Scale multiplies every score of a set by 2^n before writing Scores (n is
	// negative). It moves a half-life landmark. The set does not count hits.
	Scale map[Set]int
	// Drop removes sets with their totals and visitors. It comes first: a set that the
	// same commit also writes begins anew.
	Drop []Set
}

// Valid reports why no store could write c, or nil. Commit refuses an invalid
// commit before it writes anything.
func (c *Commit) Valid() error {
	for set := range c.Scale {
		if set.Counts() {
			return fmt.Errorf("%s of %s counts hits, and has no scores to scale", set.Name, set.List)
		}
	}
	for set, tallies := range c.Scores {
		counts := set.Counts()
		for item, t := range tallies {
			if counts && t.Score != 0 || !counts && t.Views != 0 {
				return fmt.Errorf("%q in %s of %s has %d views and the score %v, and can have only one of them", item, set.Name, set.List, t.Views, t.Score)
			}
			if math.IsNaN(t.Score) || math.IsInf(t.Score, 0) {
				return fmt.Errorf("score %v of %q in %s of %s is not a finite number", t.Score, item, set.Name, set.List)
			}
		}
	}
	for i := range c.Memos {
		if m := &c.Memos[i]; !slices.Contains(calendar.Terms, m.Term) {
			return fmt.Errorf("a memo of list %s has the unknown term %q", m.List, m.Term)
		}
	}
	return nil
}

// Store keeps the counts. Its methods are safe for concurrent use.
type Store interface {
	// Shards returns the number of shards that the store was created with.
	Shards() int

	// Load returns a shard's state. A shard that was never written has the zero State
	// with an empty map.
	Load(ctx context.Context, shard int) (State, error)
	// Position returns only a shard's position.
	Position(ctx context.Context, shard int) (Position, error)
	// Applied returns the highest applied batch sequence of an edge in every shard
	// that has one.
	Applied(ctx context.Context, edge string) (map[int]uint64, error)
	// InForce returns the rules in force in each shard.
	InForce(ctx context.Context) ([]InForce, error)
	// Read returns the values that a fold needs.
	Read(ctx context.Context, shard int, want *Want) (*Have, error)
	// Commit writes c to a shard, all of it or nothing. After an error other than
	// [ErrConflict] it is unknown which; Load shows it.
	Commit(ctx context.Context, shard int, c *Commit) error

	// Losses returns the unacknowledged losses, by shard and edge.
	Losses(ctx context.Context) ([]Loss, error)
	// Acknowledge removes the losses and returns the removed ones, even together with
	// an error.
	Acknowledge(ctx context.Context) ([]Loss, error)

	// Lease gives owner the right to fold a shard until ttl has passed, or returns
	// false while another owner has it. It only saves work: the counts are right even
	// with two owners at once.
	Lease(ctx context.Context, shard int, owner string, ttl time.Duration) (bool, error)
	// Release gives up a lease of owner.
	Release(ctx context.Context, shard int, owner string) error
	// Members makes owner one of the members that divide the shards until ttl has
	// passed, and returns all members in ascending order. With a ttl of 0 owner
	// leaves, and the others are returned.
	Members(ctx context.Context, owner string, ttl time.Duration) ([]string, error)

	Reader

	// Ping reports why the store is unusable now, or nil. See [ErrEvicts].
	Ping(ctx context.Context) error
	Close() error
}

// Reader is the part of a store that boards read.
type Reader interface {
	// Top returns, for each shard, the n entries with the highest values: by
	// descending value, then by descending item as bytes. Package board merges them:
	// two shards need not have one scale of scores.
	Top(ctx context.Context, set Set, n int) ([][]Entry, error)
	// Above returns, for each of bounds, the number of entries of a set with a higher
	// value. Each of bounds has one bound for each shard.
	Above(ctx context.Context, set Set, bounds [][]float64) ([]int64, error)
	// Next returns, for each of bounds and for each shard, the entry with the lowest
	// value above the shard's bound, or nil without one; of equal values the lowest
	// item, as bytes.
	Next(ctx context.Context, set Set, bounds [][]float64) ([][]*Entry, error)
	// Size returns the number of entries of a set in all shards.
	Size(ctx context.Context, set Set) (int64, error)
	// Scores returns each item's value in a set, in order; nil for an item that is not
	// in it. kind is what the list counts, which decides the item's shard.
	Scores(ctx context.Context, kind hit.Kind, set Set, items []string) ([]*Tally, error)
	// Items returns each item's record, in order; nil for an unknown item. kind is
	// what the list counts.
	Items(ctx context.Context, kind hit.Kind, list string, items []string) ([]*Item, error)
	// Totals returns each set's totals, by set and shard.
	Totals(ctx context.Context, sets []Set) ([][]Totals, error)
	// Visitors estimates the distinct visitors of a set over all shards; the
	// standard error is under 1 %.
	Visitors(ctx context.Context, set Set) (int64, error)
}
