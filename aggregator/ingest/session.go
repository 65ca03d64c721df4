package ingest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hotboard/hotboard/aggregator/fold"
	"github.com/hotboard/hotboard/hit"
)

// Memory bounds of a session, beside the messages that the worker has taken.
const (
	sessionBytes    = 4 << 20 // waiting in the NATS client
	sessionMessages = 16      // decoded, waiting for the worker
)

// errDisconnected ends a session after a lost connection: the log must be compared
// with the position before reading on.
var errDisconnected = errors.New("the connection to NATS was lost")

// session reads one shard of the log from one position on, over one connection. It
// never recovers: any interruption ends it, because a log that was away may be
// another one afterwards.
type session struct {
	msgs chan fold.Message
	done chan struct{} // closed when the session has failed
	err  error         // why; valid once done is closed

	once    sync.Once
	stopped chan struct{} // closed by close: the worker takes nothing more
	release func()
}

// openSession begins to read the messages of a shard from the stream sequence from
// on.
func openSession(ctx context.Context, nc *nats.Conn, js jetstream.JetStream, shard int, from uint64) (*session, error) {
	s := &session{
		msgs:    make(chan fold.Message, sessionMessages),
		done:    make(chan struct{}),
		stopped: make(chan struct{}),
	}
	status := nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	cons, err := js.CreateConsumer(ctx, hit.Stream, shardConsumer(hit.ShardSubjects(shard), from))
	if err != nil {
		nc.RemoveStatusListener(status)
		return nil, fmt.Errorf("reading shard %d of the stream %s: %w", shard, hit.Stream, err)
	}
	// The next message must always fit, or reading would stop for ever.
	size := max(sessionBytes, 2*int(nc.MaxPayload()))
	cc, err := cons.Consume(s.receive(shard),
		jetstream.PullMaxBytes(size),
		jetstream.PullExpiry(30*time.Second),
		jetstream.PullHeartbeat(5*time.Second),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { s.interrupted(err) }))
	if err != nil {
		nc.RemoveStatusListener(status)
		deleteConsumer(js, cons.CachedInfo().Name)
		return nil, fmt.Errorf("reading shard %d of the stream %s: %w", shard, hit.Stream, err)
	}

	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-status:
			s.fail(errDisconnected)
		case <-s.stopped:
		}
	})
	s.release = func() {
		close(s.stopped)
		cc.Stop()
		nc.RemoveStatusListener(status)
		wg.Wait()
		select {
		case <-cc.Closed():
		case <-time.After(time.Second): // the handler has no reader any more
		}
		if nc.IsConnected() {
			deleteConsumer(js, cons.CachedInfo().Name)
		}
	}
	return s, nil
}

// receive returns the consumer's handler. It decodes messages while the worker
// commits the last ones.
func (s *session) receive(shard int) jetstream.MessageHandler {
	var delivered uint64
	return func(msg jetstream.Msg) {
		meta, err := msg.Metadata()
		if err != nil {
			s.fail(fmt.Errorf("a message without its place in the log: %w", err))
			return
		}
		delivered++
		if meta.Sequence.Consumer != delivered {
			s.fail(fmt.Errorf("messages were lost on the way: the server sent %d, %d arrived", meta.Sequence.Consumer, delivered))
			return
		}
		m := fold.Read(shard, meta.Sequence.Stream, meta.Timestamp, msg.Subject(), msg.Headers().Get, msg.Data())
		select {
		case s.msgs <- m:
		case <-s.done:
		case <-s.stopped:
		}
	}
}

// interrupted handles an error of the consumer. The end of a pull request, for
// example because the next message did not fit any more, is no interruption.
func (s *session) interrupted(err error) {
	switch {
	case errors.Is(err, jetstream.ErrNoHeartbeat),
		errors.Is(err, jetstream.ErrConsumerDeleted),
		errors.Is(err, jetstream.ErrConsumerNotFound),
		errors.Is(err, jetstream.ErrConnectionClosed),
		errors.Is(err, jetstream.ErrBadRequest),
		errors.Is(err, nats.ErrNoResponders):
		s.fail(err)
	}
}

func (s *session) fail(err error) {
	s.once.Do(func() {
		s.err = err
		close(s.done)
	})
}

// close ends the session and frees its resources.
func (s *session) close() { s.release() }
