package revisions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hotboard/hotboard/hit"
)

// MaxBytes bounds the bucket. A document of a large site takes some kilobytes.
const MaxBytes = 64 << 20

// timeout bounds one operation.
const timeout = 2 * time.Second

const (
	streamName     = "KV_" + hit.RulesBucket
	subjectRoot    = "$KV." + hit.RulesBucket + "."
	documentPrefix = "document."
	revisionPrefix = "revision."
	revisionDigits = 8
)

func documentKey(id hit.RulesID) string { return documentPrefix + id.String() }

func revisionKey(number uint64) string {
	return fmt.Sprintf("%s%0*d", revisionPrefix, revisionDigits, number)
}

// bucket is the key-value bucket over one connection.
type bucket struct {
	jetstream.KeyValue
	js     jetstream.JetStream
	stream jetstream.Stream
	nc     *nats.Conn
}

// openBucket opens the bucket, and creates it if it is missing. With replicas it
// also corrects their number.
func openBucket(ctx context.Context, nc *nats.Conn, replicas int) (*bucket, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	stream, err := js.Stream(ctx, streamName)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		// Not CreateKeyValue, which lets any replica answer reads: one that lags
		// would take back a revision.
		stream, err = js.CreateStream(ctx, jetstream.StreamConfig{
			Name:              streamName,
			Description:       "The rules of Hotboard: documents and revisions.",
			Subjects:          []string{subjectRoot + ">"},
			MaxMsgsPerSubject: 1,
			MaxBytes:          MaxBytes,
			Discard:           jetstream.DiscardNew,
			DenyDelete:        true,
			AllowRollup:       true,
			Storage:           jetstream.FileStorage,
			Replicas:          max(replicas, 1),
		})
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process was faster
			stream, err = js.Stream(ctx, streamName)
		}
	}
	if err != nil {
		return nil, err
	}
	if c := stream.CachedInfo().Config; replicas > 0 && c.Replicas != replicas {
		c.Replicas = replicas
		if stream, err = js.UpdateStream(ctx, c); err != nil {
			return nil, fmt.Errorf("setting the number of replicas to %d: %w", replicas, err)
		}
	}
	kv, err := js.KeyValue(ctx, hit.RulesBucket)
	if err != nil {
		return nil, err
	}
	return &bucket{kv, js, stream, nc}, nil
}

// use calls do with the bucket.
func (b *Book) use(ctx context.Context, do func(context.Context, *bucket) error) error {
	nc := b.conn()
	if nc == nil || !nc.IsConnected() {
		return ErrNoConnection
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	b.mu.Lock()
	open := b.open
	b.mu.Unlock()
	if open == nil || open.nc != nc {
		var err error
		if open, err = openBucket(ctx, nc, b.replicas); err != nil {
			return fmt.Errorf("opening the bucket %s: %w", hit.RulesBucket, err)
		}
	}
	err := do(ctx, open)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open = open; err != nil {
		b.open = nil // somebody may have deleted the bucket
	}
	return err
}
