package fold

import (
	"cmp"
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
	// Rules returns the rules of a document. For the zero name, which batches of
	// version 1 have, they are those of the first revision.
	Rules func(context.Context, hit.RulesID) (*ruleset.Rules, error)
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
type Shadowed struct{ List, Limit string }

// Verdict is the decision about a hit whose edge asked for it.
type Verdict struct {
	Confirm uint64 // as in [hit.Hit]
	List    string // empty if unknown
	Item    string
	Reason  ruleset.Reason
	Limit   string // the limit, of over_quota
}

// Rewind returns the commit that sets a shard back to the beginning of the log.
// Batches that are applied already are skipped when they are read again.
func Rewind(from store.Position) *store.Commit {
	return &store.Commit{From: from, To: store.Position{Version: rand.Uint64()}}
}

// RulesError is the error of [Folder.Fold] when Folder.Rules does not return the
// rules of the first message. The messages must wait: without the rules nobody can
// judge their hits.
type RulesError struct {
	ID hit.RulesID
	// Edge accepted hits under the rules. It is empty if the rules are in force, or
	// about to come into force.
	Edge string
	Seq  uint64 // stream sequence of the message; 0 if the rules are in force already
	Err  error
}

// Error describes the missing rules.
func (e *RulesError) Error() string {
	what := "the rules " + e.ID.String()
	switch {
	case e.Edge != "":
		what += fmt.Sprintf(" of hits from edge %s (message %d)", e.Edge, e.Seq)
	case e.Seq != 0:
		what += fmt.Sprintf(" that message %d puts in force", e.Seq)
	default:
		what += ", which are in force,"
	}
	return fmt.Sprintf("%s cannot be read: %v", what, e.Err)
}

// Unwrap returns the error of Folder.Rules.
func (e *RulesError) Unwrap() error { return e.Err }

// Result is the outcome of a fold. Nothing is written yet: the caller commits
// Commit and then updates its state with [Advance].
type Result struct {
	Commit *store.Commit
	// Folded is the number of messages that the commit covers, at least one. The
	// caller folds the others after the commit.
	Folded int
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

// Fold computes the changes of the first of msgs, which follow state.Position in
// the log of a shard: of all of them, unless one in between puts rules in force or
// needs rules that are missing. An error means that it decided nothing: it could
// not read the store, the log ([ErrLog]) or the rules ([RulesError]), or the store
// is at another position ([store.ErrConflict]).
func (f *Folder) Fold(ctx context.Context, shard int, state store.State, msgs []Message) (*Result, error) {
	for i := range msgs {
		if m := &msgs[i]; m.Revision > state.Rules.Revision {
			// It changes the sums of all items, so it is folded alone.
			if i == 0 {
				return f.putInForce(ctx, shard, state, m)
			}
			msgs = msgs[:i]
			break
		}
	}
	return f.count(ctx, shard, state, msgs)
}

// count folds messages that leave the rules in force as they are.
func (f *Folder) count(ctx context.Context, shard int, state store.State, msgs []Message) (*Result, error) {
	a, err := admit(ctx, shard, state.Edges, msgs, f.First)
	if err != nil {
		return nil, err
	}
	res := newResult(state.Position, msgs)
	res.Commit.Edges = a.moved
	res.Lost, res.Held, res.Poisoned, res.Skipped, res.Rewind = a.lost, a.held, a.poisoned, a.skipped, a.rewind
	if a.rewind {
		res.Commit.To = store.Position{Version: res.Commit.To.Version}
	}

	n := 0
	for _, b := range a.apply {
		n += len(b.Hits)
	}
	t := newTallies(f, shard, n, res.Hits)
	rules := state.Rules
	for _, b := range a.apply {
		if len(b.Hits) == 0 {
			continue
		}
		d, err := t.document(ctx, b.Rules)
		if err != nil && b.message > 0 {
			return f.count(ctx, shard, state, msgs[:b.message])
		}
		if err != nil {
			return nil, &RulesError{ID: b.Rules, Edge: b.Edge, Seq: msgs[0].Seq, Err: err}
		}
		if rules.ID.IsZero() {
			// The first hits of the shard put their rules in force.
			rules.ID = cmp.Or(b.Rules, d.rules.ID())
			res.Commit.Rules = &rules
		}
		if t.inForce == nil {
			if t.inForce, err = f.Rules(ctx, rules.ID); err != nil {
				return nil, &RulesError{ID: rules.ID, Err: err}
			}
		}
		for i := range b.Hits {
			t.want(d, &b.Hits[i], b.received)
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

// newResult returns the result that only moves the position past msgs.
func newResult(from store.Position, msgs []Message) *Result {
	res := &Result{Commit: &store.Commit{From: from, To: from}, Folded: len(msgs), Hits: map[ListReason]int{}}
	if len(msgs) > 0 {
		last := &msgs[len(msgs)-1]
		res.Commit.To = store.Position{Seq: last.Seq, Fingerprint: Fingerprint(last.Subject, last.Received, last.Data)}
	}
	res.Commit.To.Version = rand.Uint64()
	return res
}
