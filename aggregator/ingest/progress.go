package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/faults"
)

// progress compares the log with the applied positions of all shards, whoever folds
// them: it trusts neither a worker nor a lease.
type progress struct {
	created time.Time // of the stream
	era     uint64
	shards  []shardProgress
}

type shardProgress struct {
	at uint64 // last known position in the store
	// Everything of the shard up to here is applied, as long as the position does not
	// fall below at. It keeps NATS from searching the same stretch again.
	clean uint64
}

// watchProgress raises Behind and Incomplete until ctx is done.
func (in *Ingest) watchProgress(ctx context.Context) {
	p := &progress{shards: make([]shardProgress, in.Store.Shards())}
	every := in.BehindAfter / 6
	for ctx.Err() == nil {
		in.ShowLosses(ctx)
		wait(ctx, every)
		if in.usable.Load() {
			p.look(ctx, in)
		}
	}
}

// look raises or clears Behind for every shard. It leaves a shard that it cannot
// check as it is: StoreAway or LogAway gives the reason.
func (p *progress) look(ctx context.Context, in *Ingest) {
	ctx, cancel := context.WithTimeout(ctx, 2*askTimeout)
	defer cancel()
	p.readPositions(ctx, in)
	stream, err := in.js.Stream(ctx, hit.Stream)
	if err != nil {
		return
	}
	info := stream.CachedInfo()
	if era := in.era.Load(); era != p.era || !info.Created.Equal(p.created) {
		p.era, p.created = era, info.Created
		for i := range p.shards {
			p.shards[i].clean = 0
		}
	}
	for shard := range p.shards {
		s, w := &p.shards[shard], in.workers[shard]
		if time.Since(time.UnixMilli(w.reached.Load())) < in.BehindAfter && w.applied.Load() >= s.at {
			// Messages after a recent one are recent too.
			in.Faults.Clear(faults.Behind, shard)
			continue
		}
		oldest, err := s.oldest(ctx, stream, shard, info.State.LastSeq)
		switch age := time.Since(oldest); {
		case err != nil:
		case oldest.IsZero() || age < in.BehindAfter:
			in.Faults.Clear(faults.Behind, shard)
		default:
			in.Faults.Set(faults.Behind, shard, fmt.Sprintf(
				"the log has had unapplied messages for %s; the aggregator that has the lease is stuck, too slow, or gone", rough(age)))
		}
	}
}

// rough rounds an age, so that shards that stopped together have one message.
func rough(age time.Duration) string {
	if age >= 2*time.Hour {
		return fmt.Sprintf("%d h", age/time.Hour)
	}
	return fmt.Sprintf("%d min", max(1, age/time.Minute))
}

func (p *progress) readPositions(ctx context.Context, in *Ingest) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for shard := range p.shards {
		pos, err := in.Store.Position(ctx, shard)
		if err != nil {
			return // the earlier positions stay
		}
		s := &p.shards[shard]
		if pos.Seq < s.at {
			s.clean = 0
		}
		s.at = pos.Seq
	}
}

// oldest returns when the log received the first unapplied message of the shard, or
// the zero time without one.
func (s *shardProgress) oldest(ctx context.Context, stream jetstream.Stream, shard int, last uint64) (time.Time, error) {
	from := max(s.at, s.clean)
	if from >= last {
		return time.Time{}, nil
	}
	msg, err := stream.GetMsg(ctx, from+1, jetstream.WithGetMsgSubject(hit.ShardSubjects(shard)))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		s.clean = last
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	s.clean = msg.Sequence - 1
	return msg.Time, nil
}
