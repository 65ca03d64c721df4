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

// Held is a batch that cannot be applied yet: it is not its edge's next one, or it
// is of a newer version. The edge sends what is missing again, and then this one,
// until all is applied.
type Held struct {
	Edge string
	Next uint64 // the edge's next batch
	Seq  uint64 // the one that came
	// Version of the batch, if it is newer than this build reads; else 0.
	Version uint8
}

// InLog is a batch of an edge and shard that the log holds.
type InLog struct {
	Batch   uint64 // its sequence
	At      uint64 // stream sequence of the first message that has it
	Version uint8  // as in [Held]
}

// FirstInLog returns the batch with the lowest sequence, from next on, that the
// log holds of an edge and shard. It is called for a message of that edge with a
// higher batch sequence, so there always is one.
type FirstInLog func(ctx context.Context, shard int, edge string, next uint64) (InLog, error)

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
	// found is what the log was searched for already. Searching takes long, and a
	// log may have thousands of messages that need the same answer.
	found map[search]InLog
	// rewind says that the log holds batches, before the last of the messages,
	// that can be applied now: it has to be read again from its beginning.
	rewind bool
}

// search is for the lowest batch of an edge, from next on.
type search struct {
	edge string
	next uint64
}

// received is a batch with when the log received it.
type received struct {
	*hit.Batch
	received time.Time
}

// admit goes through the messages in the order of the log. A batch is applied
// exactly when it is its edge's next one and of a version that this build reads. Each rule is there because a
// simulation without it loses or doubles hits.
func admit(ctx context.Context, shard int, producers map[string]uint64, msgs []Message, first FirstInLog) (admission, error) {
	a := admission{moved: map[string]uint64{}, found: map[search]InLog{}}
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
		a.apply = append(a.apply, received{b, m.Received})
		a.moved[m.Edge] = next
		return false, nil
	case b.Seq == next, m.Low <= next:
		return hold(b.Seq, newer)
	}
	// The edge has dropped what is missing, because it was applied once, to
	// counts that are gone since. What the log still holds is counted again;
	// what neither has is lost, and reported.
	k, err := a.firstInLog(ctx, shard, m.Edge, next, first)
	if err != nil {
		return false, fmt.Errorf("%w: looking for batch %d of edge %s: %w", ErrLog, next, m.Edge, err)
	}
	if k.Batch < next || k.Batch > b.Seq {
		return false, fmt.Errorf("%w: looking for batch %d of edge %s: found %d, though %d is there", ErrLog, next, m.Edge, k.Batch, b.Seq)
	}
	if k.Batch < b.Seq && k.At > m.Seq {
		return hold(b.Seq, newer) // until what came late is read, which is still to come
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
		// Reading the log again would come to the same batch again.
		return hold(k.Batch, k.Version)
	case k.Batch < b.Seq:
		// It was held when it was read. The beginning of the log is read
		// again with k as the next one: it will be applied.
		a.rewind = true
		return false, nil
	}
	a.apply = append(a.apply, received{b, m.Received})
	a.moved[m.Edge] = next
	return false, nil
}

// firstInLog is first, which it asks once for an edge and its next batch.
func (a *admission) firstInLog(ctx context.Context, shard int, edge string, next uint64, first FirstInLog) (k InLog, err error) {
	k, ok := a.found[search{edge, next}]
	if !ok {
		if k, err = first(ctx, shard, edge, next); err == nil {
			a.found[search{edge, next}] = k
		}
	}
	return k, err
}

// Newer returns the version of a batch, if that is newer than this build reads;
// else 0.
func Newer(b *hit.Batch) uint8 {
	if b == nil || b.Version <= hit.Version {
		return 0
	}
	return b.Version
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
