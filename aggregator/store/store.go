// Package store is where the counts live. A Store keeps, for each shard of the
// log, the counts and the position in the log that they stand for, and changes
// both together or not at all.
//
// A Store does not know how to count: package fold does, once, for every store.
// The fold reads what it has to know with [Store.Read], decides, and writes the
// new values with [Store.Commit]; Commit refuses when the shard is no longer
// where it was read, so what was read still held. Values are absolute, never
// increments.
//
// Every implementation passes the suite in package storetest.
package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hotboard/hotboard/hit"
)

// ErrConflict is returned by Commit when the shard is not at the position that
// the commit was computed from: another aggregator moved it on, or the store
// was restored from an older copy. Nothing was written. Load the state again.
var ErrConflict = errors.New("the shard is at another position than the commit was computed from")

// ErrEvicts is wrapped by what Ping returns while the store may drop what it keeps,
// and after it has dropped some of it, until an operator acts. Nothing should be
// counted meanwhile. The error says what to do.
var ErrEvicts = errors.New("the store does not keep everything")

// Position is how far into the log the counts of a shard stand.
type Position struct {
	// Seq is the stream sequence of the last message that was applied; 0 when
	// the log is to be read from its beginning.
	Seq uint64
	// Fingerprint identifies that message, so that a log that was replaced or
	// lost its tail is noticed. 0 when Seq is 0.
	Fingerprint uint64
	// Version is drawn at random for every commit. A log may be read again, by
	// way of the same messages, and a store may be restored from an older copy:
	// without it, a commit that was computed long ago could find the shard at
	// its From again, though the counts are not those that it was computed from.
	Version uint64
}

// State is what a shard knows of the log.
type State struct {
	Position Position
	// Producers maps an edge's id to its highest batch sequence that was applied.
	Producers map[string]uint64
}

// Set names one ordered set of items of a list: a period board such as
// "day:20261120T000000Z", or an index such as "gravity" or "published".
type Set struct {
	List string
	Name string
}

// Entry is one item of a set. Uniques is 0 in sets that do not count them.
type Entry struct {
	Item    string
	Score   float64
	Uniques int64
}

// Tally is an item's value in a set.
type Tally struct {
	Score   float64
	Uniques int64
}

// Item is what is known of an item beside its boards. Times are in milliseconds
// since the Unix epoch, UTC.
type Item struct {
	First         int64 // first counted hit, by its own time
	Last          int64 // last counted hit
	Published     int64 // 0: nobody named one, First stands in
	PublishedFrom hit.Source
	Duplicates    int64
}

// PublishTime returns the time that the item's age is measured from.
func (i *Item) PublishTime() int64 {
	if i.PublishedFrom == hit.FromFirstHit {
		return i.First
	}
	return i.Published
}

// Totals are the sums of one shard of a list in the period that a set stands
// for.
type Totals struct {
	Views      int64 // counted hits: views, or votes
	Uniques    int64
	Duplicates int64
	// Newest is the time of the newest hit, in milliseconds since the Unix epoch.
	Newest int64
	// Landmark is the instant that the half-life scores of this shard are relative to,
	// in milliseconds since the Unix epoch; 0 for other models.
	Landmark int64
}

// Want is what a fold has to know of one shard. Duplicates are allowed and cost
// a little time.
type Want struct {
	Memos  []Memo
	Items  map[string][]string // list → items
	Scores map[Set][]string    // set → items
	Totals []Set
}

// Have answers a [Want], in its order. What the store does not have is the zero
// value ([NoMemo] for Memos).
type Have struct {
	// Position is where the shard stood when all of this was read. When it is
	// not where the state was loaded, the shard has moved on in between.
	Position Position

	Memos  []int64 // 0 to the highest uint32, or NoMemo
	Items  map[string][]Item
	Scores map[Set][]Tally
	Totals []Totals
}

// Loss is what the counts of a shard lack for good, until somebody has taken note
// of it: see [Store.Acknowledge]. There is one for each edge and shard.
type Loss struct {
	Shard int `json:"shard"`
	// Edge is whose batches neither the log nor the edge had any more when they were
	// missed. It is empty where the log had lost its beginning before the shard was
	// counted for the first time; From and To are stream sequences then, of all
	// shards, and Batches is 0.
	Edge string `json:"edge,omitempty"`
	// From and To are the lowest and the highest batch sequence that is missing, and
	// Batches how many are missing between them.
	From    uint64 `json:"from"`
	To      uint64 `json:"to"`
	Batches uint64 `json:"batches,omitempty"`
}

// Commit is the outcome of a fold: absolute values to be written.
type Commit struct {
	// From is the position that the values were computed from; To and the
	// producers replace it.
	From      Position
	To        Position
	Producers map[string]uint64 // only those that moved
	// Losses replace what the store has of their edges in this shard.
	Losses []Loss

	Memos  []MemoValue
	Items  map[string]map[string]Item // list → item
	Scores map[Set]map[string]Tally
	Totals map[Set]Totals
	// Visitors are added to a set's estimate of distinct visitors.
	Visitors map[Set][]uint64
	// Scale multiplies every score of a set by 2^n before Scores are written
	// (n is negative). It moves a half-life landmark.
	Scale map[Set]int
	// Drop removes sets with their totals and visitors: periods no longer kept. It
	// comes last: what the same commit writes to such a set is removed too.
	Drop []Set
}

// Valid reports why no store could write c, or nil. Commit refuses such a
// commit before it writes anything.
func (c *Commit) Valid() error {
	for set, tallies := range c.Scores {
		for item, t := range tallies {
			if math.IsNaN(t.Score) || math.IsInf(t.Score, 0) {
				return fmt.Errorf("score %v of %q in %s of %s is not a finite number", t.Score, item, set.Name, set.List)
			}
		}
	}
	for i := range c.Memos {
		if m := &c.Memos[i]; m.Term < Day || m.Term > Ever {
			return fmt.Errorf("a memo of list %s has the unknown term %d", m.List, m.Term)
		}
	}
	return nil
}

// Store keeps the counts. Its methods are safe for concurrent use.
type Store interface {
	// Shards returns how many shards the store was created with.
	Shards() int

	// Load returns a shard's state; a shard never written is the zero State with
	// an empty map.
	Load(ctx context.Context, shard int) (State, error)
	// Position returns a shard's position alone.
	Position(ctx context.Context, shard int) (Position, error)
	// Producer returns the highest applied batch sequence of an edge in every
	// shard that has one.
	Producer(ctx context.Context, edge string) (map[int]uint64, error)
	// Read returns what the fold wants to know.
	Read(ctx context.Context, shard int, want *Want) (*Have, error)
	// Commit writes c to a shard, all of it or nothing. An error other than
	// [ErrConflict] leaves it unknown which; Load tells.
	Commit(ctx context.Context, shard int, c *Commit) error

	// Losses returns what the counts lack and nobody has acknowledged, by shard and
	// edge.
	Losses(ctx context.Context) ([]Loss, error)
	// Acknowledge forgets the losses and returns those that it forgot, also beside an
	// error.
	Acknowledge(ctx context.Context) ([]Loss, error)

	// Lease makes owner the one that folds a shard until ttl has passed, or
	// returns false when another owner is. It only saves work: two owners
	// at once are still counted right.
	Lease(ctx context.Context, shard int, owner string, ttl time.Duration) (bool, error)
	// Release gives up a lease that owner holds.
	Release(ctx context.Context, shard int, owner string) error
	// Members makes owner one of those that divide the shards among them until ttl
	// has passed, and returns all of them in ascending order. With a ttl of 0 owner
	// leaves, and the others are returned.
	Members(ctx context.Context, owner string, ttl time.Duration) ([]string, error)

	Reader

	// Ping reports why the store cannot be used now, or nil. See [ErrEvicts].
	Ping(ctx context.Context) error
	Close() error
}

// Reader is the side of a store that boards are read from.
type Reader interface {
	// Top returns, for each shard, the n entries with the highest scores: by
	// descending score; equal scores by descending item, as bytes. Package board
	// merges them: the scores of two shards are not always on one scale.
	Top(ctx context.Context, set Set, n int) ([][]Entry, error)
	// Above returns, for each of bounds, how many entries of a set score more. Each
	// of bounds has a bound for each shard.
	Above(ctx context.Context, set Set, bounds [][]float64) ([]int64, error)
	// Next returns, for each of bounds and for each shard, the entry with the lowest
	// score above the shard's bound, nil where there is none; of equal scores the
	// lowest item, as bytes.
	Next(ctx context.Context, set Set, bounds [][]float64) ([][]*Entry, error)
	// Size returns how many entries a set has in all shards.
	Size(ctx context.Context, set Set) (int64, error)
	// Scores returns each item's value in a set, in order; nil for an item that
	// is not in it. kind is what the list counts: it says which shard an item is in.
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
