package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hotboard/hotboard/aggregator/fold"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
)

// verify compares a position with the log. It returns "" when the message at the
// position is the applied one, or when the log need not have it any more; else it
// returns why the log is another one. A stream that was recreated, or lost its
// tail, would otherwise deliver nothing or other messages, without an error.
func verify(ctx context.Context, js jetstream.JetStream, pos store.Position) (replaced string, err error) {
	if pos.Seq == 0 {
		return "", nil
	}
	stream, err := js.Stream(ctx, hit.Stream)
	if err != nil {
		return "", fmt.Errorf("looking at the stream %s: %w", hit.Stream, err)
	}
	if last := stream.CachedInfo().State.LastSeq; pos.Seq > last {
		return fmt.Sprintf("message %d is applied, but the log ends at %d", pos.Seq, last), nil
	}
	msg, err := stream.GetMsg(ctx, pos.Seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		// Asked after the message, so that an expiry in between is not missed.
		info, err := stream.Info(ctx)
		if err != nil {
			return "", fmt.Errorf("looking at the stream %s: %w", hit.Stream, err)
		}
		if pos.Seq < info.State.FirstSeq {
			return "", nil
		}
		return fmt.Sprintf("message %d is applied, but the log does not have it", pos.Seq), nil
	}
	if err != nil {
		return "", fmt.Errorf("reading message %d of the stream %s: %w", pos.Seq, hit.Stream, err)
	}
	if fold.Fingerprint(msg.Subject, msg.Time, msg.Data) != pos.Fingerprint {
		return fmt.Sprintf("message %d differs from the applied one", pos.Seq), nil
	}
	return "", nil
}

// shardConsumer returns the configuration of a consumer that delivers messages of
// subject from the stream sequence from on.
//
// It is not jetstream's ordered consumer, which restarts by itself after the stream
// was away, at a position that nobody has compared with the log.
func shardConsumer(subject string, from uint64) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		FilterSubject:     subject,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       from,
		AckPolicy:         jetstream.AckNonePolicy,
		MemoryStorage:     true,
		Replicas:          1,
		InactiveThreshold: time.Minute,
	}
}

// deleteConsumer deletes a consumer at once instead of after its InactiveThreshold.
// It is a courtesy: errors do not matter.
func deleteConsumer(js jetstream.JetStream, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = js.DeleteConsumer(ctx, hit.Stream, name)
}

// fetchSize is the number of messages in one request that reads only headers.
const fetchSize = 512

// firstInLog is the [fold.FirstInLog] of a JetStream log. It reads the headers of
// one edge's batches of one shard, and then the message with the batch.
func firstInLog(js jetstream.JetStream) fold.FirstInLog {
	return func(ctx context.Context, shard int, edge string, next uint64) (fold.InLog, error) {
		first, err := lowestInLog(ctx, js, hit.Subject(shard, edge), next)
		if err != nil {
			return fold.InLog{}, fmt.Errorf("reading the stream %s: %w", hit.Stream, err)
		}
		stream, err := js.Stream(ctx, hit.Stream)
		if err != nil {
			return fold.InLog{}, fmt.Errorf("looking at the stream %s: %w", hit.Stream, err)
		}
		msg, err := stream.GetMsg(ctx, first.At)
		if err != nil {
			return fold.InLog{}, fmt.Errorf("reading message %d of the stream %s: %w", first.At, hit.Stream, err)
		}
		m := fold.Read(shard, msg.Sequence, msg.Time, msg.Subject, msg.Header.Get, msg.Data)
		if first.Batch < m.BatchSeq || first.Batch > m.LastSeq {
			return fold.InLog{}, fmt.Errorf("message %d of the stream %s has changed", first.At, hit.Stream)
		}
		if len(m.Batches) > 0 {
			first.Version = fold.Newer(m.Batches[first.Batch-m.BatchSeq])
		}
		return first, nil
	}
}

// lowestInLog returns the lowest batch from next on, according to the headers of
// the messages of a subject, without its version.
func lowestInLog(ctx context.Context, js jetstream.JetStream, subject string, next uint64) (first fold.InLog, err error) {
	cfg := shardConsumer(subject, 1)
	cfg.HeadersOnly = true
	cons, err := js.CreateConsumer(ctx, hit.Stream, cfg)
	if err != nil {
		return first, err
	}
	defer deleteConsumer(js, cons.CachedInfo().Name)

	left := cons.CachedInfo().NumPending
	for left > 0 && ctx.Err() == nil && first.Batch != next { // none can be lower
		batch, err := cons.Fetch(int(min(left, fetchSize)), jetstream.FetchMaxWait(askTimeout))
		if err != nil {
			return first, err
		}
		var n uint64
		for msg := range batch.Messages() {
			n++
			// As in the fold, which would otherwise rewind to a message that it skips.
			seq, last, err := fold.Sequences(msg.Headers().Get)
			if seq = max(seq, next); err != nil || last < next || first.Batch != 0 && seq >= first.Batch {
				continue
			}
			meta, err := msg.Metadata()
			if err != nil {
				return first, fmt.Errorf("a message without its place in the log: %w", err)
			}
			first = fold.InLog{Batch: seq, At: meta.Sequence.Stream}
		}
		if err := batch.Error(); err != nil {
			return first, err
		}
		if n == 0 {
			return first, fmt.Errorf("%d messages of %s did not arrive", left, subject)
		}
		left -= min(left, n)
	}
	if ctx.Err() != nil {
		return first, ctx.Err()
	}
	if first.Batch == 0 {
		return first, fmt.Errorf("it has no batch of %s from %d on", subject, next)
	}
	return first, nil
}
