package ingest

import (
	"context"
	"time"

	"github.com/hotboard/hotboard/aggregator/fold"
)

// Most messages and hits of one commit. Larger commits would not be faster, and
// hold up readers of the store.
const (
	commitHits  = 8192
	commitBytes = 4 << 20
	// Messages may be empty, and each unreadable one is set aside by itself.
	commitMessages = 2048
)

// collect takes messages from a session: all waiting ones, up to a full commit.
// Before earliest it waits for more, so that under load commits become larger
// instead of more frequent. When tick fires first, it returns nothing.
func collect(ctx context.Context, s *session, earliest time.Time, tick <-chan time.Time) (msgs []fold.Message, err error) {
	var size, hits int
	add := func(m fold.Message) {
		msgs = append(msgs, m)
		size += len(m.Data)
		hits += hitsIn(&m)
	}
	select {
	case m := <-s.msgs:
		add(m)
	case <-s.done:
		return nil, s.err
	case <-tick:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	pacing := time.NewTimer(time.Until(earliest))
	defer pacing.Stop()
	due := time.Now().After(earliest)
	for hits < commitHits && size < commitBytes && len(msgs) < commitMessages {
		if due {
			select {
			case m := <-s.msgs:
				add(m)
				continue
			default:
				return msgs, nil
			}
		}
		select {
		case m := <-s.msgs:
			add(m)
		case <-pacing.C:
			due = true
		case <-s.done: // messages before the end are good
			due = true
		case <-ctx.Done():
			due = true
		}
	}
	return msgs, nil
}

// hitsIn returns the number of hits in a message.
func hitsIn(m *fold.Message) (n int) {
	for _, b := range m.Batches {
		if b != nil {
			n += len(b.Hits)
		}
	}
	return n
}
