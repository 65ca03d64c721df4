package caddymodule

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
	// secretCheck is how often the secrets are looked after.
	secretCheck = time.Minute
	// secretRetry is the same while one that is needed now is not shared: until it
	// is, a visitor of two edges counts as two, and votes with quotas are refused.
	secretRetry = 200 * time.Millisecond
	// secretWarn is how long that may last without a warning: an edge that starts is
	// not connected at once.
	secretWarn = 10 * time.Second
)

// secrets are the keys that visitors and the counts of limits are hashed with,
// one for each period, by the edge's clock. All edges of a log share them: the
// first to need a secret proposes it in a key-value bucket, and the others take
// that one. Those of the next periods are there before these begin, so that the
// broker may be away meanwhile.
//
// The secret of a UTC day is the salt of that day's visitors. There always is
// one, without waiting: the edge makes one up, uses it, and proposes it when the
// broker can be reached. Only when another edge proposed first does it change,
// and visitors of the time before are new visitors. The secrets of quotas are
// not used before they are shared, because a quota is exact.
type secrets struct {
	path   string
	conn   func() (*nats.Conn, bool)
	faults *faults.Registry
	logger *zap.Logger
	needs  succession.Of[[]secretNeed]

	table atomic.Pointer[map[secretID]*secret] // never written in place
	mu    sync.Mutex                           // held to replace the table
	wake  chan struct{}
	local atomic.Bool // one that is needed now is not known to be shared
	warn  sync.Once
}

// secret is never changed, only replaced.
type secret struct {
	Key []byte `json:"key"`
	// Shared says that the bucket has this secret.
	Shared bool `json:"shared,omitempty"`

	checked time.Time // when the bucket was last seen to have it
}

// secretNeed is a kind of secret that is needed at any time, of periods in a zone.
type secretNeed struct {
	kind secretKind
	zone *time.Location
}

// secretsNeeded returns the secrets that a ruleset needs: those of the windows
// that the aggregator counts, for each list of votes, and the lasting one, by
// which votes know users.
func secretsNeeded(r *ruleset.Ruleset) []secretNeed {
	var needs []secretNeed
	need := func(kind secretKind, zone *time.Location) {
		same := func(n secretNeed) bool { return n.kind == kind && n.zone.String() == zone.String() }
		if !slices.ContainsFunc(needs, same) {
			needs = append(needs, secretNeed{kind, zone})
		}
	}
	for _, list := range r.Lists {
		if list.Votes == nil {
			continue
		}
		need(lastingSecret, time.UTC)
		for _, l := range r.Limits {
			if !l.AppliesToList(list.Name) {
				continue
			}
			for i := range l.Windows {
				if w := &l.Windows[i]; !w.IsRate() && kindOf(w.Per) != lastingSecret {
					need(kindOf(w.Per), list.Location())
				}
			}
		}
	}
	return needs
}

// enter has the secrets of a configuration kept.
func (s *secrets) enter(owner any, r *ruleset.Ruleset) {
	s.needs.Enter(owner, secretsNeeded(r))
	s.lookAfter()
}

// leave takes that back.
func (s *secrets) leave(owner any) { s.needs.Leave(owner) }

// lookAfter has run look after the secrets at once.
func (s *secrets) lookAfter() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// salt returns the key of visitors at t. It does not wait for anyone.
func (s *secrets) salt(t time.Time) []byte { return s.of(utcDay(t)).Key }

// shared returns the secret of the period that begins at start; nil when it is
// not known to be shared. It is what [limit.Rules.AppendQuotas] asks for.
func (s *secrets) shared(p ruleset.Span, start time.Time) []byte {
	v := (*s.table.Load())[secretOf(kindOf(p), start)]
	if v == nil || !v.Shared {
		return nil
	}
	return v.Key
}

// of returns a secret, a new one if there is none.
func (s *secrets) of(id secretID) *secret {
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
	s.lookAfter() // have it proposed and written down
	return v
}

// put replaces a secret. The caller holds mu.
func (s *secrets) put(id secretID, v *secret) {
	table := maps.Clone(*s.table.Load())
	table[id] = v
	s.table.Store(&table)
}

// forget forgets the secrets of periods that are over.
func (s *secrets) forget(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	table := maps.Clone(*s.table.Load())
	maps.DeleteFunc(table, func(id secretID, _ *secret) bool { return id.over(now) })
	s.table.Store(&table)
}

// run keeps the secrets until ctx ends.
func (s *secrets) run(ctx context.Context) {
	began := time.Now()
	for {
		err := s.prepare(ctx)
		wait := secretCheck
		if s.local.Load() {
			wait = secretRetry
			if err != nil && ctx.Err() == nil && time.Since(began) >= secretWarn {
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

// prepare sees to it that the secrets that are needed now, and next, exist, are
// shared, and are on disk. It returns why they are not shared yet.
func (s *secrets) prepare(ctx context.Context) error {
	now := clock.Now()
	current, next := s.wanted(now)
	err := s.share(ctx, now, append(slices.Clone(current), next...))
	s.local.Store(slices.ContainsFunc(current, func(id secretID) bool { return !s.of(id).Shared }))
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
func (s *secrets) wanted(now time.Time) (current, next []secretID) {
	needs, _ := s.needs.Current()
	for _, n := range append([]secretNeed{{daySecret, time.UTC}}, needs...) {
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
