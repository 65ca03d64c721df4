package fold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
)

// Gap is a run of batches that nobody can deliver any more.
type Gap struct {
	Edge     string
	From, To uint64 // batch sequences, inclusive
}

// Held is a batch that is not its edge's next. The edge sends what is missing
// again, and then this one, until all is applied.
type Held struct {
	Edge string
	Next uint64 // the batch sequence that is missing
	Seq  uint64 // the one that came
}

// FirstInLog returns the lowest batch sequence, from next on, that the log
// holds of an edge and shard, and the stream sequence of the first message that
// has it. It is called for a message of that edge with a higher batch
// sequence, so there always is one.
type FirstInLog func(ctx context.Context, shard int, edge string, next uint64) (batch, at uint64, err error)

// ErrLog is returned by [Folder.Fold] when the log, and not the store, could not
// be read.
var ErrLog = errors.New("the log could not be read")

// admission is what becomes of the messages: which batches are applied, and
// where each edge stands afterwards.
type admission struct {
	apply    []received
	moved    map[string]uint64
	lost     []Gap
	held     []Held
	poisoned []int
	skipped  int
	// rewind says that the log holds batches, before the last of the messages,
	// that can be applied now: it has to be read again from its beginning.
	rewind bool
}

// received is a batch with when the log received it.
type received struct {
	*hit.Batch
	received time.Time
}

// admit goes through the messages in the order of the log. A batch is applied
// exactly when it is its edge's next one. Each rule is there because a
// simulation without it loses or doubles hits.
func admit(ctx context.Context, shard int, producers map[string]uint64, msgs []Message, first FirstInLog) (admission, error) {
	a := admission{moved: map[string]uint64{}}
	next := func(m *Message) uint64 {
		if applied, ok := a.moved[m.Edge]; ok {
			return applied + 1
		}
		return producers[m.Edge] + 1
	}
	for i := range msgs {
		m := &msgs[i]
		if m.Err != nil {
			a.poisoned = append(a.poisoned, i)
		}
		if len(m.Batches) == 0 {
			// Without this an edge would wait for ever for batches that nobody can
			// read. The message itself is set aside, so its hits are not gone.
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
			held, err := a.admit(ctx, shard, m, b, next(m), first)
			if err != nil {
				return a, err
			}
			if a.rewind {
				return a, nil
			}
			if held {
				break // as are those behind it
			}
		}
	}
	return a, nil
}

// admit decides about one batch of a message, where next is its edge's next one.
func (a *admission) admit(ctx context.Context, shard int, m *Message, b *hit.Batch, next uint64, first FirstInLog) (held bool, err error) {
	hold := func() { a.held = append(a.held, Held{Edge: m.Edge, Next: next, Seq: b.Seq}) }
	switch {
	case b.Seq < next:
		a.skipped++
		return false, nil
	case b.Seq == next:
		a.apply = append(a.apply, received{b, m.Received})
		a.moved[m.Edge] = next
		return false, nil
	case m.Low <= next:
		hold()
		return true, nil
	}
	// The edge has dropped what is missing, because it was applied once, to
	// counts that are gone since. What the log still holds is counted again;
	// what neither has is lost, and said to be.
	k, at, err := first(ctx, shard, m.Edge, next)
	if err != nil {
		return false, fmt.Errorf("%w: looking for batch %d of edge %s: %w", ErrLog, next, m.Edge, err)
	}
	if k < next || k > b.Seq {
		return false, fmt.Errorf("%w: looking for batch %d of edge %s: found %d, though %d is there", ErrLog, next, m.Edge, k, b.Seq)
	}
	if k < b.Seq && at > m.Seq {
		hold() // until what came late is read, which is still to come
		return true, nil
	}
	if k > next {
		a.lost = append(a.lost, Gap{Edge: m.Edge, From: next, To: k - 1})
	}
	if k < b.Seq {
		// It was held when it was read. The beginning of the log is read
		// again with k as the next one: it will be applied.
		a.moved[m.Edge] = k - 1
		a.rewind = true
		return false, nil
	}
	a.apply = append(a.apply, received{b, m.Received})
	a.moved[m.Edge] = k
	return false, nil
}

// Advance brings a state to where a commit has moved the store.
func Advance(s *store.State, c *store.Commit) {
	s.Position = c.To
	if s.Producers == nil {
		s.Producers = map[string]uint64{}
	}
	for edge, seq := range c.Producers {
		s.Producers[edge] = seq
	}
}
