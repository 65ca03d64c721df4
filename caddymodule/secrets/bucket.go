package secrets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/hotboard/hotboard/hit"
)

var errNoConnection = errors.New("there is no connection to the broker yet")

// shareTimeout bounds one round of sharing.
const shareTimeout = 5 * time.Second

// share proposes secrets to the other edges or adopts theirs. It checks shared
// secrets again after a while: it restores them to a lost bucket, and adopts the
// secret of another edge that was faster.
func (s *Secrets) share(ctx context.Context, now time.Time, ids []secretID) error {
	ids = slices.DeleteFunc(ids, func(id secretID) bool {
		v := s.of(id)
		since := now.Sub(v.checked)
		return v.Shared && since >= 0 && since < checkEvery
	})
	if len(ids) == 0 {
		return nil
	}
	nc, ok := s.conn()
	if !ok || !nc.IsConnected() {
		return errNoConnection
	}
	ctx, cancel := context.WithTimeout(ctx, shareTimeout)
	defer cancel()
	buckets := make(map[string]jetstream.KeyValue)
	var errs []error
	for _, id := range ids {
		bucket := hit.Buckets[string(id.term)]
		kv, ok := buckets[bucket.Name]
		if !ok {
			var err error
			if kv, err = openBucket(ctx, nc, bucket); err != nil {
				return errors.Join(append(errs, err)...)
			}
			buckets[bucket.Name] = kv
		}
		mine := s.of(id)
		key, err := propose(ctx, kv, id.String(), mine.Key)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if mine.Shared && !bytes.Equal(key, mine.Key) {
			s.logger.Error("the edges now share another secret: visitors and quotas of its period start over", zap.Stringer("period", id))
		}
		s.mu.Lock()
		s.put(id, &secret{Key: key, Shared: true, checked: now})
		s.mu.Unlock()
	}
	return errors.Join(errs...)
}

func openBucket(ctx context.Context, nc *nats.Conn, b hit.Bucket) (jetstream.KeyValue, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("using JetStream: %w", err)
	}
	kv, err := js.KeyValue(ctx, b.Name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket:      b.Name,
			Description: hit.BucketDescription,
			TTL:         b.TTL,
			MaxBytes:    hit.BucketBytes,
		})
		if errors.Is(err, jetstream.ErrBucketExists) { // another edge was faster
			kv, err = js.KeyValue(ctx, b.Name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("opening the bucket %s: %w", b.Name, err)
	}
	return kv, nil
}

// propose returns the shared secret: mine, if no other edge has proposed one.
func propose(ctx context.Context, kv jetstream.KeyValue, name string, mine []byte) ([]byte, error) {
	entry, err := kv.Get(ctx, name)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		if _, err = kv.Create(ctx, name, mine); err == nil {
			return mine, nil
		}
		if !errors.Is(err, jetstream.ErrKeyExists) {
			return nil, fmt.Errorf("proposing the secret of %s: %w", name, err)
		}
		entry, err = kv.Get(ctx, name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the secret of %s: %w", name, err)
	}
	if len(entry.Value()) != secretBytes {
		return nil, fmt.Errorf("the secret of %s in the bucket %s has %d bytes, not %d: delete that key", name, kv.Bucket(), len(entry.Value()), secretBytes)
	}
	return entry.Value(), nil
}
