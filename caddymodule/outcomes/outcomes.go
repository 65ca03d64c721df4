// Package outcomes receives the outcomes of votes from the aggregators.
package outcomes

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/hotboard/hotboard/hit"
)

// MaxAwaited is the maximum number of votes that may wait for their outcome.
const MaxAwaited = 16384

// Outcomes delivers outcomes to waiting votes, and used-up keys to the limits. A
// lost message does not affect counts: the aggregators enforce quotas whatever
// the edges know.
//
// Outcomes is safe for concurrent use.
type Outcomes struct {
	learn  func(hit.UsedQuota)
	logger *zap.Logger

	mu      sync.Mutex
	conn    *nats.Conn // the connection of sub
	sub     *nats.Subscription
	awaited map[uint64]chan<- hit.VoteOutcome // by Confirm
}

// New returns Outcomes without a connection. They call learn with each key that
// an aggregator reports as used up.
func New(learn func(hit.UsedQuota), logger *zap.Logger) *Outcomes {
	return &Outcomes{learn: learn, logger: logger, awaited: make(map[uint64]chan<- hit.VoteOutcome)}
}

// Follow switches to another connection; nil ends it. The server need not be
// reachable: the connection subscribes again by itself.
func (o *Outcomes) Follow(nc *nats.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if nc == o.conn {
		return
	}
	if o.sub != nil {
		o.sub.Unsubscribe() // fails only if the connection is closed
	}
	o.conn, o.sub = nc, nil
	if nc == nil {
		return
	}
	sub, err := nc.Subscribe(hit.SubjectOutcomes, o.receive)
	if err != nil {
		o.logger.Error("cannot subscribe to the outcomes of votes: they are counted, but not confirmed", zap.Error(err))
		return
	}
	o.sub = sub
}

// receive handles one message of an aggregator.
func (o *Outcomes) receive(m *nats.Msg) {
	var said hit.Outcomes
	if err := json.Unmarshal(m.Data, &said); err != nil {
		o.logger.Warn("cannot read the outcomes of votes; does an aggregator have another version?", zap.Error(err))
		return
	}
	for _, u := range said.Used {
		o.learn(u)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, v := range said.Votes {
		if c, ok := o.awaited[v.Confirm]; ok {
			delete(o.awaited, v.Confirm) // an aggregator may repeat it
			c <- v                       // has room for all votes that wait on it
		}
	}
}

// Awaited holds the votes of one request that wait for their outcomes.
type Awaited struct {
	outcomes *Outcomes
	ids      []uint64
	came     chan hit.VoteOutcome
}

// Await sets the Confirm of hits, which requests their outcomes. Call it before
// sending them, and [Awaited.End] when the caller no longer waits. If more than
// [MaxAwaited] votes would wait, it leaves the hits unchanged and returns nil.
func (o *Outcomes) Await(hits []hit.Hit) *Awaited {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.awaited)+len(hits) > MaxAwaited {
		return nil
	}
	a := &Awaited{outcomes: o, came: make(chan hit.VoteOutcome, len(hits))}
	for i := range hits {
		id := rand.Uint64()
		for _, taken := o.awaited[id]; id == 0 || taken; _, taken = o.awaited[id] {
			id = rand.Uint64()
		}
		hits[i].Confirm = id
		a.ids = append(a.ids, id)
		o.awaited[id] = a.came
	}
	return a
}

// Wait returns the outcomes of the votes, by Confirm. It omits votes whose
// outcomes do not arrive in time or before ctx ends.
func (a *Awaited) Wait(ctx context.Context, atMost time.Duration) map[uint64]hit.VoteOutcome {
	known := make(map[uint64]hit.VoteOutcome, len(a.ids))
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	for len(known) < len(a.ids) {
		select {
		case v := <-a.came:
			known[v.Confirm] = v
		case <-timer.C:
			return known
		case <-ctx.Done():
			return known
		}
	}
	return known
}

// End forgets the votes that still wait.
func (a *Awaited) End() {
	a.outcomes.mu.Lock()
	defer a.outcomes.mu.Unlock()
	for _, id := range a.ids {
		delete(a.outcomes.awaited, id)
	}
}
