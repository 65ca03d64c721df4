package caddymodule

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hotboard/hotboard/hit"
)

var errNoConnection = errors.New("no configuration has connected to a broker yet")

// bus carries an outbox's batches to the log, over whichever connection is in
// force.
type bus struct {
	conn   func() (*nats.Conn, bool)
	shards int

	mu sync.Mutex
	// the stream was seen to have the right number of shards on this connection
	checked    *nats.Conn
	reconnects uint64
	js         jetstream.JetStream
}

// Publish stores a batch in the log. Only nil says that it is there; after any
// error it may be.
func (b *bus) Publish(ctx context.Context, shard int, edge string, seq, low uint64, data []byte) error {
	js, err := b.stream(ctx)
	if err != nil {
		return err
	}
	msg := &nats.Msg{Subject: hit.Subject(shard, edge), Data: data, Header: nats.Header{
		hit.HeaderSeq: []string{strconv.FormatUint(seq, 10)},
		hit.HeaderLow: []string{strconv.FormatUint(low, 10)},
	}}
	_, err = js.PublishMsg(ctx, msg, jetstream.WithExpectStream(hit.Stream), jetstream.WithRetryAttempts(0))
	if err != nil {
		b.recheck()
		return fmt.Errorf("publishing batch %d of shard %d: %w", seq, shard, err)
	}
	return nil
}

// stream returns the way to publish, once the log was seen to have the number
// of shards that this edge cuts its hits into.
func (b *bus) stream(ctx context.Context) (jetstream.JetStream, error) {
	nc, ok := b.conn()
	if !ok {
		return nil, errNoConnection
	}
	if !nc.IsConnected() {
		return nil, fmt.Errorf("publishing: not connected to NATS (%v)", nc.Status())
	}
	reconnects := nc.Stats().Reconnects
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.checked == nc && b.reconnects == reconnects {
		return b.js, nil
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("using JetStream: %w", err)
	}
	s, err := js.Stream(ctx, hit.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("there is no stream %s yet: an aggregator creates it when it starts", hit.Stream)
	}
	if err != nil {
		return nil, fmt.Errorf("looking at the stream %s: %w", hit.Stream, err)
	}
	has := s.CachedInfo().Config.Metadata[hit.StreamShards]
	if has != strconv.Itoa(b.shards) {
		return nil, fmt.Errorf("the log has %q shards and this edge is set to %d: set the broker's shards to what the aggregators use, "+
			"and give the edge a new dir once its spool is empty", has, b.shards)
	}
	b.checked, b.reconnects, b.js = nc, reconnects, js
	return js, nil
}

// recheck makes the next Publish look at the stream again: it may have been
// replaced.
func (b *bus) recheck() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.checked = nil
}

// Applied asks the aggregators how far the counts include an edge's batches.
func (b *bus) Applied(ctx context.Context, edge string) (map[int]uint64, error) {
	nc, ok := b.conn()
	if !ok {
		return nil, errNoConnection
	}
	msg, err := nc.RequestWithContext(ctx, hit.SubjectApplied, []byte(edge))
	if errors.Is(err, nats.ErrNoResponders) {
		return nil, errors.New("asking what was applied: no aggregator is running")
	}
	if err != nil {
		return nil, fmt.Errorf("asking what was applied: %w", err)
	}
	var applied hit.Applied
	if err := decodeReply(msg.Data, &applied); err != nil {
		return nil, fmt.Errorf("asking what was applied: %w", err)
	}
	return applied.Shards, nil
}

// decodeReply reads an aggregator's reply. It is strict, so that an error in
// place of an answer is not taken for an empty answer.
func decodeReply(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("reading the reply %.200q: %w", data, err)
	}
	return nil
}
