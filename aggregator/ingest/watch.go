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

// watchEvery is how often the log as a whole is checked.
const watchEvery = 3 * time.Second

// watch creates the streams, and then checks them until ctx is done.
func (in *Ingest) watch(ctx context.Context) {
	var created time.Time
	every := backoffMin
	for ctx.Err() == nil {
		if in.usable.Load() {
			every = watchEvery
		} else {
			every = min(2*every, watchEvery)
		}
		lookCtx, cancel := context.WithTimeout(ctx, 2*askTimeout) // several requests, and the store
		err := in.brokerError(in.look(lookCtx, &created))
		cancel()
		in.judge(ctx, err)
		wait(ctx, every)
	}
}

// look compares the log with its last known state. It increments the era when the
// log is another one or ends before the positions.
func (in *Ingest) look(ctx context.Context, created *time.Time) error {
	if !in.usable.Load() {
		if err := in.Ensure(ctx); err != nil {
			return err
		}
	}
	// Positions first: from now on the log can only have grown.
	var read uint64
	for _, w := range in.workers {
		read = max(read, w.applied.Load())
	}
	stream, err := in.js.Stream(ctx, hit.Stream)
	if err != nil {
		return fmt.Errorf("looking at the stream %s: %w", hit.Stream, hint(err))
	}
	info := stream.CachedInfo()
	if err := checkShards(info.Config.Metadata, in.Store.Shards()); err != nil {
		return err
	}
	if read > info.State.LastSeq || (!created.IsZero() && !created.Equal(info.Created)) {
		in.era.Add(1)
	}
	*created = info.Created
	in.metrics.logBytes.Set(float64(info.State.Bytes))
	in.metrics.logMax.Set(float64(info.Config.MaxBytes))
	if full := in.makeRoom(ctx, stream); full != "" {
		in.Faults.Set(faults.LogFull, faults.Whole, full)
	} else {
		in.Faults.Clear(faults.LogFull, faults.Whole)
	}
	return nil
}

// judge turns the result of look into faults.
func (in *Ingest) judge(ctx context.Context, err error) {
	switch {
	case err == nil:
		in.Faults.Clear(faults.LogShards, faults.Whole)
		in.Faults.Clear(faults.LogAway, faults.Whole)
		in.usable.Store(true)
	case !failed(ctx, err):
	case errors.Is(err, ErrShards):
		in.Faults.Set(faults.LogShards, faults.Whole, err.Error())
		in.close()
	default:
		in.Faults.Set(faults.LogAway, faults.Whole, cause("NATS", err))
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			in.close()
		}
	}
}

// close keeps the workers from the log until its streams are right again.
func (in *Ingest) close() {
	if in.usable.Swap(false) {
		in.era.Add(1)
	}
}

// A log this full loses its oldest messages, until it is lowFull full.
const (
	highFull = 0.90
	lowFull  = 0.75
)

// makeRoom purges the oldest messages of a nearly full log, up to the first that
// some shard has not applied. Unapplied messages stay: then the log refuses more,
// and the edges keep them. It returns why there is too little room, or "".
func (in *Ingest) makeRoom(ctx context.Context, stream jetstream.Stream) (full string) {
	info := stream.CachedInfo()
	state, limit := info.State, info.Config.MaxBytes
	if limit <= 0 || float64(state.Bytes) < highFull*float64(limit) {
		return ""
	}
	full = fmt.Sprintf("%d of %d bytes are in use", state.Bytes, limit)
	needed, err := in.firstNeeded(ctx, stream)
	if err != nil {
		return fmt.Sprintf("%s and making room failed: %v", full, err)
	}
	// Over so long a stretch, sizes of messages average out.
	share := 1 - lowFull*float64(limit)/float64(state.Bytes)
	target := state.FirstSeq + uint64(share*float64(state.LastSeq-state.FirstSeq))
	if upTo := min(target, needed); upTo > state.FirstSeq {
		if err := stream.Purge(ctx, jetstream.WithPurgeSequence(upTo)); err != nil {
			return fmt.Sprintf("%s and making room failed: %v", full, err)
		}
		in.Logger.Info("the log was nearly full: purged the oldest applied messages",
			"bytes", state.Bytes, "max_bytes", limit, "first", state.FirstSeq, "up_to", upTo)
	}
	if needed <= target {
		return fmt.Sprintf("%s and message %d is not counted yet; see why folding is slow, or raise nats.max_bytes", full, needed)
	}
	return ""
}

// firstNeeded returns the sequence of the first message that some shard has not
// applied.
func (in *Ingest) firstNeeded(ctx context.Context, stream jetstream.Stream) (uint64, error) {
	needed := stream.CachedInfo().State.LastSeq + 1
	for shard := range in.Store.Shards() {
		pos, err := in.Store.Position(ctx, shard)
		if err != nil {
			return 0, fmt.Errorf("reading the position of shard %d: %w", shard, err)
		}
		msg, err := stream.GetMsg(ctx, pos.Seq+1, jetstream.WithGetMsgSubject(hit.ShardSubjects(shard)))
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
		case err != nil:
			return 0, fmt.Errorf("reading the stream %s: %w", hit.Stream, err)
		default:
			needed = min(needed, msg.Sequence)
		}
	}
	return needed, nil
}
