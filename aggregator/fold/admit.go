package fold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
)

// Gap is a run of batches that are lost for good.
type Gap struct {
	Edge     string
	From, To uint64 // batch sequences, inclusive
}

// Held is a batch that cannot be applied yet: it is not its edge's next one, or it
// has a newer version. The edge sends the missing batches and this one again until
// all are applied.
type Held struct {
	Edge string
	Next uint64 // the edge's next batch
	Seq  uint64 // the held batch
	// Version of the batch, if this build cannot read it; else 0.
	Version uint8
}

// InLog is a batch of an edge and shard in the log.
type InLog struct {
	Batch   uint64 // its sequence
	At      uint64 // stream sequence of the first message that holds it
	Version uint8  // as in [Held]
}

// FirstInLog returns the batch of an edge and shard with the lowest sequence, from
// next on, in the log. The fold calls it when it has a message of that edge with a
// higher batch sequence, so there always is one.
type FirstInLog func(ctx context.Context, shard int, edge string, next uint64) (InLog, error)

// ErrLog is the error of [Folder.Fold] when it could not read the log, rather than
// the store.
var ErrLog = errors.New("the log could not be read")

// admission is the result of admit: the batches to apply, and the last sequence of
// each edge after them.
type admission struct {
	apply    []received
	moved    map[string]uint64
	lost     []Gap
	held     []Held
	poisoned []int
	skipped  int
	// found caches searches of the log. A search takes long, and a log may have
	// thousands of messages that need the same one.
	found map[search]InLog
	// rewind is true when batches that can be applied now precede the last of the
	// messages in the log: the shard must read the log again from its beginning.
	rewind bool
}

// search is a search for the lowest batch of an edge from next on.
type search struct {
	edge string
	next uint64
}

// received is a batch with its message's index and the time at which the log
// received it.
type received struct {
	*hit.Batch
	message  int
	received time.Time
}

// admit goes through the messages in the order of the log. It applies a batch if
// and only if it is its edge's next one and this build can read it. Each rule is
// there because a simulation without it loses or doubles hits.
func admit(ctx context.Context, shard int, applied map[string]uint64, msgs []Message, first FirstInLog) (admission, error) {
	a := admission{moved: map[string]uint64{}, found: map[search]InLog{}}
	next := func(m *Message) uint64 {
		if applied, ok := a.moved[m.Edge]; ok {
			return applied + 1
		}
		return applied[m.Edge] + 1
	}
	for i := range msgs {
		m := &msgs[i]
		if m.Err != nil {
			a.poisoned = append(a.poisoned, i)
		}
		if len(m.Batches) == 0 {
			// Without this an edge would wait for ever for unreadable batches to be applied.
			// The message itself is set aside, so its hits are kept.
			if n := next(m); m.Edge != "" && m.BatchSeq <= n && n <= m.LastSeq {
				a.moved[m.Edge] = m.LastSeq
			}
			continue
		}
		for j, b := range m.Batches {
			if b == nil { // as above, for this batch alone
				if seq := m.BatchSeq + uint64(j); seq == next(m) {
					a.moved[m.Edge] = seq
				}
				continue
			}
			held, err := a.admit(ctx, shard, m, i, b, next(m), first)
			if err != nil {
				return a, err
			}
			if a.rewind {
				return a, nil
			}
			if held {
				break // the batches behind it are held too
			}
		}
	}
	return a, nil
}

// admit decides about one batch of a message. next is its edge's next batch.
func (a *admission) admit(ctx context.Context, shard int, m *Message, index int, b *hit.Batch, next uint64, first FirstInLog) (held bool, err error) {
	hold := func(seq uint64, version uint8) (bool, error) {
		a.held = append(a.held, Held{Edge: m.Edge, Next: next, Seq: seq, Version: version})
		return true, nil
	}
	newer := Newer(b)
	switch {
	case b.Seq < next:
		a.skipped++
		return false, nil
	case b.Seq == next && newer == 0:
		a.apply = append(a.apply, received{b, index, m.Received})
		a.moved[m.Edge] = next
		return false, nil
	case b.Seq == next, m.Low <= next:
		return hold(b.Seq, newer)
	}
	// The edge has dropped the missing batches, because they were applied to counts
	// that are gone now. Those still in the log are counted again; the others are
	// lost, and reported.
	k, err := a.firstInLog(ctx, shard, m.Edge, next, first)
	if err != nil {
		return false, fmt.Errorf("%w: looking for batch %d of edge %s: %w", ErrLog, next, m.Edge, err)
	}
	if k.Batch < next || k.Batch > b.Seq {
		return false, fmt.Errorf("%w: looking for batch %d of edge %s: found %d, though the log has %d", ErrLog, next, m.Edge, k.Batch, b.Seq)
	}
	if k.Batch < b.Seq && k.At > m.Seq {
		return hold(b.Seq, newer) // until the late batch, further on in the log, is read
	}
	if k.Batch > next {
		a.lost = append(a.lost, Gap{Edge: m.Edge, From: next, To: k.Batch - 1})
		a.moved[m.Edge] = k.Batch - 1
		next = k.Batch
	}
	if k.Batch == b.Seq {
		k.Version = newer
	}
	switch {
	case k.Version != 0:
		// Reading the log again would lead to the same batch again.
		return hold(k.Batch, k.Version)
	case k.Batch < b.Seq:
		// It was held when it was read. The log is read again from its beginning with k
		// as the next batch, so k will be applied.
		a.rewind = true
		return false, nil
	}
	a.apply = append(a.apply, received{b, index, m.Received})
	a.moved[m.Edge] = next
	return false, nil
}

// firstInLog caches first by edge and next batch.
func (a *admission) firstInLog(ctx context.Context, shard int, edge string, next uint64, first FirstInLog) (k InLog, err error) {
	k, ok := a.found[search{edge, next}]
	if !ok {
		if k, err = first(ctx, shard, edge, next); err == nil {
			a.found[search{edge, next}] = k
		}
	}
	return k, err
}

// Newer returns the version of a batch if this build cannot read it, else 0.
func Newer(b *hit.Batch) uint8 {
	if b == nil || b.Version <= hit.Version {
		return 0
	}
	return b.Version
}

// Advance brings a state to the position to which a commit has moved the store.
func Advance(s *store.State, c *store.Commit) {
	s.Position = c.To
	if s.Edges == nil {
		s.Edges = map[string]uint64{}
	}
	for edge, seq := range c.Edges {
		s.Edges[edge] = seq
	}
	if c.Rules != nil {
		s.Rules = *c.Rules
	}
}
