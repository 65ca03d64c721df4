package caddymodule

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/hotboard/hotboard/caddymodule/internal/clock"
	"github.com/hotboard/hotboard/hit"
)

const (
	saltBytes = 32
	// saltLife is how long the bucket keeps a salt: it is made up to a day before
	// its day, and clocks differ. After that nobody can tell any more who was who.
	saltLife = 72 * time.Hour
	// saltCheck is how often the salts of today and tomorrow are looked after.
	saltCheck = time.Minute
	// saltRetry is the same while today's salt is not shared: until it is, a
	// visitor of two edges counts as two.
	saltRetry = 200 * time.Millisecond
	// saltWarn is how long that may last without a warning: an edge that starts is
	// not connected at once.
	saltWarn = 10 * time.Second
)

// salts are the keys that visitors are hashed with, one for each UTC day by the
// edge's clock. All edges of a log share them: the first to need a day's salt
// proposes it in a key-value bucket, and the others take that one.
//
// There always is a salt, without waiting: the edge makes one up, uses it, and
// proposes it when the broker can be reached. Only when another edge proposed
// first does it change, and visitors of the time before are new visitors.
type salts struct {
	path   string
	conn   func() (*nats.Conn, bool)
	logger *zap.Logger

	table atomic.Pointer[map[int64]*salt] // by day; never written in place
	mu    sync.Mutex                      // held to replace the table
	wake  chan struct{}
	local atomic.Bool // today's salt is not known to be shared
	warn  sync.Once
}

type salt struct {
	Key []byte `json:"key"`
	// Shared says that the bucket has this salt.
	Shared bool `json:"shared,omitempty"`
}

// openSalts reads the salts that this edge used before. path need not exist.
func openSalts(path string, conn func() (*nats.Conn, bool), logger *zap.Logger) (*salts, error) {
	s := &salts{path: path, conn: conn, logger: logger, wake: make(chan struct{}, 1)}
	s.local.Store(true)
	table := make(map[int64]*salt)
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("reading the salts: %w", err)
	default:
		byDay := make(map[string]*salt)
		if err := json.Unmarshal(data, &byDay); err != nil {
			// they are only worth a day: begin anew rather than not at all
			logger.Error("the salts cannot be read; visitors of today count as new", zap.String("file", path), zap.Error(err))
			break
		}
		for name, v := range byDay {
			if t, err := time.Parse(time.DateOnly, name); err == nil && v != nil && len(v.Key) == saltBytes {
				table[dayOf(t)] = v
			}
		}
	}
	s.table.Store(&table)
	return s, nil
}

func dayOf(t time.Time) int64 {
	const secondsPerDay = 24 * 60 * 60
	sec := t.Unix()
	day := sec / secondsPerDay
	if sec%secondsPerDay < 0 {
		day--
	}
	return day
}

func dayName(day int64) string { return time.Unix(day*24*60*60, 0).UTC().Format(time.DateOnly) }

// at returns the salt of the day of t. It does not wait for anyone.
func (s *salts) at(t time.Time) []byte { return s.of(dayOf(t)).Key }

// of returns the salt of a day, a new one if there is none.
func (s *salts) of(day int64) *salt {
	if v, ok := (*s.table.Load())[day]; ok {
		return v
	}
	s.mu.Lock()
	v, ok := (*s.table.Load())[day]
	if !ok {
		v = &salt{Key: make([]byte, saltBytes)}
		rand.Read(v.Key) // never fails
		s.put(day, v)
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}: // have it proposed and written down
	default:
	}
	return v
}

// put replaces a day's salt and forgets those of days before the day before.
// The caller holds mu.
func (s *salts) put(day int64, v *salt) {
	table := maps.Clone(*s.table.Load())
	table[day] = v
	maps.DeleteFunc(table, func(d int64, _ *salt) bool { return d < day-2 })
	s.table.Store(&table)
}

// run keeps the salts of today and tomorrow until ctx ends.
func (s *salts) run(ctx context.Context) {
	began := time.Now()
	for {
		err := s.prepare(ctx)
		wait := saltCheck
		if s.local.Load() {
			wait = saltRetry
			if err != nil && ctx.Err() == nil && time.Since(began) >= saltWarn {
				s.warn.Do(func() {
					s.logger.Warn("today's salt is not shared with other edges yet: a visitor of two edges counts as two", zap.Error(err))
				})
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// prepare sees to it that today's and tomorrow's salts exist, are shared, and
// are on disk. It returns why they are not shared yet.
func (s *salts) prepare(ctx context.Context) error {
	now := clock.Now()
	today, tomorrow := dayOf(now), dayOf(now)+1
	err := s.share(ctx, today, tomorrow)
	s.local.Store(!s.of(today).Shared)
	if err := s.save(); err != nil {
		s.logger.Error("salts cannot be written down: after a restart without a broker, visitors of today count as new", zap.Error(err))
	}
	return err
}

// share proposes the salts of days to the other edges, or takes theirs.
func (s *salts) share(ctx context.Context, days ...int64) error {
	days = slices.DeleteFunc(days, func(day int64) bool { return s.of(day).Shared })
	if len(days) == 0 {
		return nil
	}
	nc, ok := s.conn()
	if !ok || !nc.IsConnected() {
		return errNoConnection
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	kv, err := saltBucket(ctx, nc)
	if err != nil {
		return err
	}
	for _, day := range days {
		mine := s.of(day)
		key, err := propose(ctx, kv, dayName(day), mine.Key)
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.put(day, &salt{Key: key, Shared: true})
		s.mu.Unlock()
	}
	return nil
}

func saltBucket(ctx context.Context, nc *nats.Conn) (jetstream.KeyValue, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("using JetStream: %w", err)
	}
	kv, err := js.KeyValue(ctx, hit.SaltBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket:      hit.SaltBucket,
			Description: "The salt of each UTC day, shared by all Hotboard edges.",
			TTL:         saltLife,
			MaxBytes:    1 << 20,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("opening the bucket %s: %w", hit.SaltBucket, err)
	}
	return kv, nil
}

// propose returns the salt that the edges share: mine if I am the first.
func propose(ctx context.Context, kv jetstream.KeyValue, name string, mine []byte) ([]byte, error) {
	_, err := kv.Create(ctx, name, mine)
	if err == nil {
		return mine, nil
	}
	if !errors.Is(err, jetstream.ErrKeyExists) {
		return nil, fmt.Errorf("proposing the salt of %s: %w", name, err)
	}
	entry, err := kv.Get(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("reading the salt of %s: %w", name, err)
	}
	if len(entry.Value()) != saltBytes {
		return nil, fmt.Errorf("the salt of %s in the bucket %s has %d bytes, not %d: delete that key", name, hit.SaltBucket, len(entry.Value()), saltBytes)
	}
	return entry.Value(), nil
}

// save writes the salts down, readable by nobody else, all or nothing.
func (s *salts) save() error {
	byDay := make(map[string]*salt)
	for day, v := range *s.table.Load() {
		byDay[dayName(day)] = v
	}
	data, err := json.Marshal(byDay)
	if err != nil {
		return fmt.Errorf("writing the salts: %w", err)
	}
	if old, err := os.ReadFile(s.path); err == nil && string(old) == string(data) {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(s.path), filepath.Base(s.path)+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("writing the salts: %w", err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err2 := f.Close(); err == nil {
		err = err2
	}
	if err == nil {
		err = os.Rename(f.Name(), s.path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("writing the salts: %w", err)
	}
	return nil
}
