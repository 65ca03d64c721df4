package ingest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hotboard/hotboard/hit"
)

// LogOptions configures how the broker keeps the log.
type LogOptions struct {
	// MaxAge is how long the broker keeps a batch, and so how far back counts can be
	// rebuilt. Default: 72 h.
	MaxAge time.Duration
	// MaxBytes is the largest size of the log on disk. When it is nearly full, the
	// oldest applied messages are purged. A log full of unapplied messages refuses
	// more, and the edges keep their hits. Default: 4 GiB.
	MaxBytes int64
	// Replicas is the number of servers in a cluster that keep the log. Default: 1.
	Replicas int
}

func (o LogOptions) withDefaults() LogOptions {
	if o.MaxAge == 0 {
		o.MaxAge = 72 * time.Hour
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 4 << 30
	}
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	return o
}

// Sizes beside the log itself.
const (
	// MaxPoisonBytes bounds the stream of unreadable messages; the oldest make room.
	MaxPoisonBytes = 64 << 20
	// headerRoom is the space for the headers of a message beside its body.
	headerRoom = 16 << 10
)

// ErrShards means that the log and the store were made for different numbers of
// shards.
var ErrShards = errors.New("the log and the store have different numbers of shards")

// EnsureStreams creates the missing parts on the broker: the log, the stream for
// unreadable messages, and the buckets of secrets. It sets the limits of an
// existing log to those in o. It fails with [ErrShards] when the log was made for
// another number of shards.
func EnsureStreams(ctx context.Context, js jetstream.JetStream, shards int, o LogOptions) error {
	o = o.withDefaults()
	if err := ensureLog(ctx, js, shards, o); err != nil {
		return err
	}
	_, err := findOrCreate(ctx, js, jetstream.StreamConfig{
		Name:        hit.PoisonStream,
		Description: "Unreadable messages of the log of hits.",
		Subjects:    []string{hit.SubjectPoison + ".*"},
		MaxBytes:    MaxPoisonBytes,
		Discard:     jetstream.DiscardOld,
		Storage:     jetstream.FileStorage,
		Replicas:    o.Replicas,
		Duplicates:  time.Hour, // the log may be read again
	})
	if err != nil {
		return err
	}
	return ensureBuckets(ctx, js, o)
}

// findOrCreate returns a stream unchanged, or creates it as in want. It looks
// first: when asked to create an existing stream, the server counts its size a
// second time against its limits.
func findOrCreate(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) (jetstream.Stream, error) {
	stream, err := js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = js.CreateStream(ctx, want)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another aggregator was faster
			stream, err = js.Stream(ctx, want.Name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("finding or creating the stream %s: %w", want.Name, hint(err))
	}
	return stream, nil
}

func ensureLog(ctx context.Context, js jetstream.JetStream, shards int, o LogOptions) error {
	want := jetstream.StreamConfig{
		Name:        hit.Stream,
		Description: "The log of hits. The counts are a fold over it.",
		Subjects:    []string{hit.SubjectHits + ".*.*"},
		Retention:   jetstream.LimitsPolicy,
		Storage:     jetstream.FileStorage,
		// A full log must refuse new messages, not drop uncounted ones.
		Discard:    jetstream.DiscardNew,
		MaxAge:     o.MaxAge,
		MaxBytes:   o.MaxBytes,
		MaxMsgSize: hit.MaxBatchBytes + headerRoom,
		Replicas:   o.Replicas,
		// A batch that is sent again must be stored again: the store may have gone back
		// to before it was counted.
		Duplicates: 100 * time.Millisecond,
		Metadata:   map[string]string{hit.StreamShards: strconv.Itoa(shards)},
	}
	stream, err := findOrCreate(ctx, js, want)
	if err != nil {
		return err
	}
	have := stream.CachedInfo().Config
	if err := checkShards(have.Metadata, shards); err != nil {
		return err
	}
	changed := have
	changed.MaxAge, changed.MaxBytes, changed.Replicas = want.MaxAge, want.MaxBytes, want.Replicas
	changed.Discard, changed.MaxMsgSize, changed.Duplicates = want.Discard, want.MaxMsgSize, want.Duplicates
	// A lagging replica would report a message as missing that it does not have yet.
	changed.AllowDirect = false
	if have.MaxAge == changed.MaxAge && have.MaxBytes == changed.MaxBytes && have.Replicas == changed.Replicas &&
		have.Discard == changed.Discard && have.MaxMsgSize == changed.MaxMsgSize &&
		have.Duplicates == changed.Duplicates && !have.AllowDirect {
		return nil
	}
	if _, err := js.UpdateStream(ctx, changed); err != nil {
		return fmt.Errorf("changing the limits of the stream %s: %w", hit.Stream, hint(err))
	}
	return nil
}

func checkShards(metadata map[string]string, shards int) error {
	s := metadata[hit.StreamShards]
	n, err := strconv.Atoi(s)
	if err != nil {
		return fmt.Errorf("%w: stream %s has no metadata %s, so no aggregator made it; delete it or use another NATS account",
			ErrShards, hit.Stream, hit.StreamShards)
	}
	if n != shards {
		return fmt.Errorf("%w: stream %s has %d, the store %d; the number is chosen once, when both are empty",
			ErrShards, hit.Stream, n, shards)
	}
	return nil
}

func ensureBuckets(ctx context.Context, js jetstream.JetStream, o LogOptions) error {
	for _, b := range hit.Buckets {
		// An edge may have created it first, with other limits.
		if _, err := js.KeyValue(ctx, b.Name); err == nil {
			continue
		}
		_, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket:      b.Name,
			Description: hit.BucketDescription,
			TTL:         b.TTL,
			MaxBytes:    hit.BucketBytes,
			Storage:     jetstream.FileStorage,
			Replicas:    o.Replicas,
		})
		if err != nil && !errors.Is(err, jetstream.ErrBucketExists) {
			return fmt.Errorf("creating the bucket %s: %w", b.Name, hint(err))
		}
	}
	return nil
}

// Codes of server errors with a remedy; nats.go has no names for them.
const (
	errStorageExceeded = 10047
	errNoJetStream     = jetstream.JSErrCodeJetStreamNotEnabled
)

// hint adds the remedy to an error of the broker, if one is known.
func hint(err error) error {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return err
	}
	switch api.ErrorCode {
	case errStorageExceeded:
		return fmt.Errorf("%w (give JetStream more storage on the server, or the log less: nats.max_bytes)", err)
	case errNoJetStream, jetstream.JSErrCodeJetStreamNotEnabledForAccount:
		return fmt.Errorf("%w (start nats-server with -js, or enable JetStream in its configuration; if its disk was full, make room and restart it)", err)
	}
	return err
}
