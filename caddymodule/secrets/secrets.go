// Package secrets keeps the secrets of an edge, one per period: they hash
// visitors and the keys of quotas.
package secrets

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/hotboard/hotboard/caddymodule/internal/clock"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

const (
	secretBytes = 32
	// checkEvery is the interval at which Run checks the secrets.
	checkEvery = time.Minute
	// retryEvery replaces checkEvery while a current secret is not shared: until
	// then, a visitor of two edges counts as two, and the edge refuses votes with
	// quotas.
	retryEvery = 200 * time.Millisecond
	// warnAfter is the delay before a warning about that: an edge takes a moment
	// to connect after its start.
	warnAfter = 10 * time.Second
)

// Secrets holds the secrets of the current and the next periods, by the edge's
// clock. All edges of a log share them: the first edge that needs a secret
// proposes it in a key-value bucket, and the others adopt it. The edges share the
// secrets of the next periods in advance, so that they survive an outage of the
// broker.
//
// The secret of a UTC day hashes that day's visitors. It is always available at
// once: the edge generates one, uses it, and proposes it when it reaches the
// broker. The secret changes only if another edge proposed first; earlier
// visitors then count as new. The edge uses a secret of quotas only once it is
// shared, because a quota is exact.
//
// Secrets is safe for concurrent use.
type Secrets struct {
	path   string
	rules  func() *ruleset.Rules
	conn   func() (*nats.Conn, bool)
	faults *faults.Registry
	logger *zap.Logger

	table atomic.Pointer[map[secretID]*secret] // copied on write
	mu    sync.Mutex                           // held to replace the table
	wake  chan struct{}
	warn  sync.Once
}

// secret is immutable.
type secret struct {
	Key []byte `json:"key"`
	// Shared reports that the bucket has this secret.
	Shared bool `json:"shared,omitempty"`

	checked time.Time // when the bucket last had it
}

// Check makes Run check the secrets at once. Call it when the rules or the
// connection have changed.
func (s *Secrets) Check() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// OfDay returns the secret that hashes the visitors of the UTC day of t. It never
// blocks.
func (s *Secrets) OfDay(t time.Time) []byte { return s.of(utcDay(t)).Key }

// Shared returns the secret of quotas for the term that begins at start, or nil
// if this edge does not know that all edges share it.
func (s *Secrets) Shared(term calendar.Period, start time.Time) []byte {
	v := (*s.table.Load())[secretOf(term, start)]
	if v == nil || !v.Shared {
		return nil
	}
	return v.Key
}

// AllShared reports whether all edges share every currently needed secret.
func (s *Secrets) AllShared() bool {
	current, _ := s.wanted(clock.Now())
	table := *s.table.Load()
	return !slices.ContainsFunc(current, func(id secretID) bool { return table[id] == nil || !table[id].Shared })
}

// of returns a secret and generates it if necessary.
func (s *Secrets) of(id secretID) *secret {
	if v, ok := (*s.table.Load())[id]; ok {
		return v
	}
	s.mu.Lock()
	v, ok := (*s.table.Load())[id]
	if !ok {
		v = &secret{Key: make([]byte, secretBytes)}
		rand.Read(v.Key) // never fails
		s.put(id, v)
	}
	s.mu.Unlock()
	s.Check() // to propose and save it
	return v
}

// put replaces a secret. The caller holds mu.
func (s *Secrets) put(id secretID, v *secret) {
	table := maps.Clone(*s.table.Load())
	table[id] = v
	s.table.Store(&table)
}

// forget removes the secrets of past periods.
func (s *Secrets) forget(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	table := maps.Clone(*s.table.Load())
	maps.DeleteFunc(table, func(id secretID, _ *secret) bool { return id.over(now) })
	s.table.Store(&table)
}

// Run maintains the secrets until ctx ends: it shares the needed secrets, writes
// them to disk, and forgets those of past periods. It logs one warning if sharing
// keeps failing, and raises a fault while it cannot write them.
func (s *Secrets) Run(ctx context.Context) {
	began := time.Now()
	for {
		err := s.prepare(ctx)
		wait := checkEvery
		if !s.AllShared() {
			wait = retryEvery
			if err != nil && ctx.Err() == nil && time.Since(began) >= warnAfter {
				s.warn.Do(func() {
					s.logger.Warn("today's secrets are not shared with other edges yet: a visitor of two edges counts as two, and votes with quotas are refused", zap.Error(err))
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

// prepare generates, shares and saves the secrets of the current and next
// periods. It returns the error that kept it from sharing them.
func (s *Secrets) prepare(ctx context.Context) error {
	now := clock.Now()
	current, next := s.wanted(now)
	err := s.share(ctx, now, append(current, next...))
	s.forget(now)
	if err := s.save(); err != nil {
		s.faults.Set(faults.SecretsFailing, faults.Whole,
			err.Error()+"; after a restart without a broker, today's visitors count as new, and the edge refuses votes with quotas")
	} else {
		s.faults.Clear(faults.SecretsFailing, faults.Whole)
	}
	return err
}

// wanted returns the secrets that the edge needs for the current and the next
// periods: those of the UTC day; for each poll those of the windows that the
// aggregator counts; and the lasting secret, which identifies users in votes.
func (s *Secrets) wanted(now time.Time) (current, next []secretID) {
	add := func(term calendar.Period, zone *time.Location) {
		start, end := term.Bounds(now, zone)
		for _, want := range []struct {
			ids   *[]secretID
			start time.Time
		}{{&current, start}, {&next, end}} {
			if id := secretOf(term, want.start); !slices.Contains(current, id) && !slices.Contains(next, id) {
				*want.ids = append(*want.ids, id)
			}
		}
	}
	add(calendar.Day, time.UTC)
	r := s.rules()
	if r == nil {
		return current, next
	}
	for _, list := range r.Lists {
		if list.Votes == nil {
			continue
		}
		add(calendar.All, time.UTC)
		for _, l := range r.Limits {
			if !l.AppliesToList(list.Name) {
				continue
			}
			for i := range l.Windows {
				if w := &l.Windows[i]; !w.IsRate() {
					add(w.Period().Term(), list.Location())
				}
			}
		}
	}
	return current, next
}
