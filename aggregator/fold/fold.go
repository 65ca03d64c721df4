package fold

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// MaxAhead is how far after the broker's timestamp a hit's own time may lie. An
// edge whose clock is further ahead is held back to it, so that it cannot push
// the boards into the future.
const MaxAhead = 5 * time.Second

// Folder counts the messages of shards.
type Folder struct {
	Rules *ruleset.Ruleset
	Store store.Store
	First FirstInLog
}

// Outcome is what became of hits of a list. List is empty where it is unknown.
type Outcome struct {
	List   string
	Reason ruleset.Reason
}

// Shadowed names a limit in shadow, for one list.
type Shadowed struct{ List, Rule string }

// Verdict is what became of a hit whose edge asked for it.
type Verdict struct {
	Confirm uint64 // as in [hit.Hit]
	List    string // empty where it is unknown
	Item    string
	Reason  ruleset.Reason
	Rule    string // the limit, of over_quota
}

// Rewind returns the commit that sets a shard back to the beginning of the log,
// which is read again from there: what was applied is skipped.
func Rewind(from store.Position) *store.Commit {
	return &store.Commit{From: from, To: store.Position{Version: rand.Uint64()}}
}

// Result is what a fold decided. Nothing is written yet: the caller commits
// Commit and then brings its state forward with [Advance].
type Result struct {
	Commit *store.Commit
	// Hits counts the hits of the batches that are applied, by what became of them.
	Hits map[Outcome]int
	// Shadowed counts the votes that limits in shadow would have refused.
	Shadowed map[Shadowed]int
	// Verdicts are of the hits of which an edge asked for them.
	Verdicts []Verdict
	// Used are the quotas that have no room left, and those that refused a vote.
	Used []hit.UsedQuota
	Lost []Gap
	Held []Held
	// Poisoned are the indexes of the messages that cannot be read and have to
	// be set aside before the commit.
	Poisoned []int
	// Skipped is how many batches had been applied before.
	Skipped int
	// Rewind says that reading goes on at the beginning of the log, where the
	// commit sets the position.
	Rewind bool
}

// Fold decides what msgs, which follow state.Position in the log of a shard,
// change. An error means that nothing could be decided: the store or the log
// could not be read, or the store is elsewhere ([store.ErrConflict]).
func (f *Folder) Fold(ctx context.Context, shard int, state store.State, msgs []Message) (*Result, error) {
	a, err := admit(ctx, shard, state.Producers, msgs, f.First)
	if err != nil {
		return nil, err
	}
	res := &Result{
		Commit: &store.Commit{From: state.Position, To: state.Position, Producers: a.moved},
		Hits:   map[Outcome]int{},
		Lost:   a.lost, Held: a.held, Poisoned: a.poisoned, Skipped: a.skipped, Rewind: a.rewind,
	}
	if a.rewind {
		res.Commit.To = store.Position{}
	} else if len(msgs) > 0 {
		last := &msgs[len(msgs)-1]
		res.Commit.To = store.Position{Seq: last.Seq, Fingerprint: Fingerprint(last.Subject, last.Received, last.Data)}
	}
	res.Commit.To.Version = rand.Uint64()

	n := 0
	for _, b := range a.apply {
		n += len(b.Hits)
	}
	t := newTallies(f, shard, n, res.Hits)
	for _, b := range a.apply {
		for i := range b.Hits {
			t.want(&b.Hits[i], b.received)
		}
	}
	if err := t.read(ctx, state.Position); err != nil {
		return nil, fmt.Errorf("reading what the counts of shard %d are: %w", shard, err)
	}
	if res.Commit.Losses, err = f.losses(ctx, shard, a.lost); err != nil {
		return nil, fmt.Errorf("reading what the counts of shard %d lack: %w", shard, err)
	}
	t.count()
	t.write(res.Commit)
	res.Shadowed, res.Verdicts, res.Used = t.shadowed, t.verdicts, t.usedQuotas()
	return res, nil
}
