// Package secrets keeps the secrets of an edge: the keys that hash visitors and
// the keys of quotas, one for each period.
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
	"github.com/hotboard/hotboard/caddymodule/internal/succession"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/ruleset"
)

const (
	secretBytes = 32
	// checkEvery is how often Run checks the secrets.
	checkEvery = time.Minute
	// retryEvery is the same while one that is needed now is not shared: until it
	// is, a visitor of two edges counts as two, and votes with quotas are refused.
	retryEvery = 200 * time.Millisecond
	// warnAfter is how long that may last without a warning: an edge that starts is
	// not connected at once.
	warnAfter = 10 * time.Second
)

// Secrets holds the secrets of the current and the next periods, by the edge's
// clock. All edges of a log share them: the first to need a secret proposes it in
// a key-value bucket, and the others take that one. The edges share those of the
// next periods before these begin, so that the broker may be away meanwhile.
//
// The secret of a UTC day hashes that day's visitors. There always is one,
// without waiting: the edge makes one up, uses it, and proposes it when it reaches
// the broker. It changes only when another edge proposed first; the visitors of
// the time before are then new visitors. A secret of quotas is used only once it
// is shared, because a quota is exact.
//
// A Secrets may be used by several goroutines at once.
type Secrets struct {
	path   string
	conn   func() (*nats.Conn, bool)
	faults *faults.Registry
	logger *zap.Logger
	needs  succession.Of[[]need]

	table atomic.Pointer[map[secretID]*secret] // never written in place
	mu    sync.Mutex                           // held to replace the table
	wake  chan struct{}
	warn  sync.Once
}

// secret is never changed, only replaced.
type secret struct {
	Key []byte `json:"key"`
	// Shared says that the bucket has this secret.
	Shared bool `json:"shared,omitempty"`

	checked time.Time // when the bucket was last seen to have it
}

// need is a kind of secret that is needed at any time, of periods in a zone.
type need struct {
	kind secretKind
	zone *time.Location
}

// neededBy returns the secrets that a ruleset needs: those of the windows
// that the aggregator counts, for each list of votes, and the lasting one, by
// which votes know users.
func neededBy(r *ruleset.Ruleset) []need {
	var needs []need
	add := func(kind secretKind, zone *time.Location) {
		same := func(n need) bool { return n.kind == kind && n.zone.String() == zone.String() }
		if !slices.ContainsFunc(needs, same) {
			needs = append(needs, need{kind, zone})
		}
	}
	for _, list := range r.Lists {
		if list.Votes == nil {
			continue
		}
		add(lastingSecret, time.UTC)
		for _, l := range r.Limits {
			if !l.AppliesToList(list.Name) {
				continue
			}
			for i := range l.Windows {
				if w := &l.Windows[i]; !w.IsRate() && kindOf(w.Per) != lastingSecret {
					add(kindOf(w.Per), list.Location())
				}
			}
		}
	}
	return needs
}

// Enter keeps the secrets that the rules of a configuration need, until owner
// leaves. Secrets of the configuration that entered last are kept.
func (s *Secrets) Enter(owner any, r *ruleset.Ruleset) {
	s.needs.Enter(owner, neededBy(r))
	s.checkNow()
}

// Leave takes back what owner entered.
func (s *Secrets) Leave(owner any) { s.needs.Leave(owner) }

// checkNow makes Run check the secrets at once.
func (s *Secrets) checkNow() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// OfDay returns the secret that hashes the visitors of the UTC day of t. It waits
// for nobody.
func (s *Secrets) OfDay(t time.Time) []byte { return s.of(utcDay(t)).Key }

// Shared returns the secret of quotas for the period that begins at start; nil
// when this edge does not know that all edges share it.
func (s *Secrets) Shared(p ruleset.Span, start time.Time) []byte {
	v := (*s.table.Load())[secretOf(kindOf(p), start)]
	if v == nil || !v.Shared {
		return nil
	}
	return v.Key
}

// AllShared reports whether all edges share every secret that is needed now.
func (s *Secrets) AllShared() bool {
	current, _ := s.wanted(clock.Now())
	table := *s.table.Load()
	return !slices.ContainsFunc(current, func(id secretID) bool { return table[id] == nil || !table[id].Shared })
}

// of returns a secret, a new one if there is none.
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
	s.checkNow() // have it proposed and written down
	return v
}

// put replaces a secret. The caller holds mu.
func (s *Secrets) put(id secretID, v *secret) {
	table := maps.Clone(*s.table.Load())
	table[id] = v
	s.table.Store(&table)
}

// forget forgets the secrets of periods that are over.
func (s *Secrets) forget(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	table := maps.Clone(*s.table.Load())
	maps.DeleteFunc(table, func(id secretID, _ *secret) bool { return id.over(now) })
	s.table.Store(&table)
}

// Run keeps the secrets until ctx ends: it shares those that are needed, writes
// them to disk, and forgets those of periods that are over. It logs one warning
// when sharing fails for long, and raises a fault while it cannot write them.
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

// prepare makes, shares and writes to disk the secrets that are needed now and
// next. It returns why they are not shared yet.
func (s *Secrets) prepare(ctx context.Context) error {
	now := clock.Now()
	current, next := s.wanted(now)
	err := s.share(ctx, now, append(current, next...))
	s.forget(now)
	if err := s.save(); err != nil {
		s.faults.Set(faults.SecretsFailing, faults.Whole,
			err.Error()+"; after a restart without a broker, visitors of today count as new, and votes with quotas are refused")
	} else {
		s.faults.Clear(faults.SecretsFailing, faults.Whole)
	}
	return err
}

// wanted returns the secrets that are needed now, and those of the periods that
// come next.
func (s *Secrets) wanted(now time.Time) (current, next []secretID) {
	needs, _ := s.needs.Current()
	for _, n := range append([]need{{daySecret, time.UTC}}, needs...) {
		p := n.kind.period()
		start := p.Start(now, n.zone)
		for _, want := range []struct {
			ids   *[]secretID
			start time.Time
		}{{&current, start}, {&next, p.Add(start, 1, n.zone)}} {
			if id := secretOf(n.kind, want.start); !slices.Contains(current, id) && !slices.Contains(next, id) {
				*want.ids = append(*want.ids, id)
			}
		}
	}
	return current, next
}
