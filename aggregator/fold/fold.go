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

// MaxAhead is how far after the broker's timestamp a hit's own time may lie. Later
// times are clamped to it, so that an edge with a fast clock cannot push the boards
// into the future.
const MaxAhead = 5 * time.Second

// Folder folds the messages of shards.
type Folder struct {
	Rules *ruleset.Rules
	Store store.Store
	First FirstInLog
}

// ListReason is a list and the reason of verdicts on its hits. List is empty for an
// unknown list.
type ListReason struct {
	List   string
	Reason ruleset.Reason
}

// Shadowed names a limit in shadow, for one list.
type Shadowed struct{ List, Rule string }

// Verdict is the decision about a hit whose edge asked for it.
type Verdict struct {
	Confirm uint64 // as in [hit.Hit]
	List    string // empty if unknown
	Item    string
	Reason  ruleset.Reason
	Rule    string // the limit, of over_quota
}

// Rewind returns the commit that sets a shard back to the beginning of the log.
// Batches that are applied already are skipped when they are read again.
func Rewind(from store.Position) *store.Commit {
	return &store.Commit{From: from, To: store.Position{Version: rand.Uint64()}}
}

// Result is the outcome of a fold. Nothing is written yet: the caller commits
// Commit and then updates its state with [Advance].
type Result struct {
	Commit *store.Commit
	// Hits counts the hits of the applied batches, by list and reason.
	Hits map[ListReason]int
	// Shadowed counts the votes that limits in shadow would have refused.
	Shadowed map[Shadowed]int
	// Verdicts are those that edges asked for.
	Verdicts []Verdict
	// Used are the quotas that have become full or have refused a vote.
	Used []hit.UsedQuota
	Lost []Gap
	Held []Held
	// Poisoned are the indexes of the unreadable messages, which the caller must set
	// aside before the commit.
	Poisoned []int
	// Skipped counts batches that were applied before.
	Skipped int
	// Rewind is true when the commit sets the position back to the beginning of the
	// log, from which the shard reads on.
	Rewind bool
}

// Fold computes the changes of msgs, which follow state.Position in the log of a
// shard. An error means that it decided nothing: it could not read the store or the
// log, or the store is at another position ([store.ErrConflict]).
func (f *Folder) Fold(ctx context.Context, shard int, state store.State, msgs []Message) (*Result, error) {
	a, err := admit(ctx, shard, state.Producers, msgs, f.First)
	if err != nil {
		return nil, err
	}
	res := &Result{
		Commit: &store.Commit{From: state.Position, To: state.Position, Producers: a.moved},
		Hits:   map[ListReason]int{},
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
		return nil, fmt.Errorf("reading the counts of shard %d: %w", shard, err)
	}
	if res.Commit.Losses, err = f.losses(ctx, shard, a.lost); err != nil {
		return nil, fmt.Errorf("reading the losses of shard %d: %w", shard, err)
	}
	t.count()
	t.write(res.Commit)
	res.Shadowed, res.Verdicts, res.Used = t.shadowed, t.verdicts, t.usedQuotas()
	return res, nil
}
