package caddymodule

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

// maxAwaited is how many votes may wait for their outcome. Those beyond are
// answered without it.
const maxAwaited = 16384

// outcomes is what the aggregators tell this edge of votes: what came of those
// that asked, and which keys are used up. What gets lost on the way costs nobody
// a count: the aggregators hold votes to their quotas whatever the edges know.
type outcomes struct {
	learn  func(hit.UsedQuota)
	logger *zap.Logger

	mu      sync.Mutex
	conn    *nats.Conn // that sub is of
	sub     *nats.Subscription
	awaited map[uint64]chan<- hit.VoteOutcome // by Confirm
}

func newOutcomes(learn func(hit.UsedQuota), logger *zap.Logger) *outcomes {
	return &outcomes{learn: learn, logger: logger, awaited: make(map[uint64]chan<- hit.VoteOutcome)}
}

// follow listens on a connection instead of the one before; nil ends it. The
// server need not be reachable: the connection subscribes again by itself.
func (o *outcomes) follow(nc *nats.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if nc == o.conn {
		return
	}
	if o.sub != nil {
		o.sub.Unsubscribe() // fails only when the connection is closed
	}
	o.conn, o.sub = nc, nil
	if nc == nil {
		return
	}
	sub, err := nc.Subscribe(hit.SubjectOutcomes, o.receive)
	if err != nil {
		o.logger.Error("cannot hear what becomes of votes: they are counted, but not confirmed", zap.Error(err))
		return
	}
	o.sub = sub
}

// receive takes one message of an aggregator.
func (o *outcomes) receive(m *nats.Msg) {
	var said hit.Outcomes
	if err := json.Unmarshal(m.Data, &said); err != nil {
		o.logger.Warn("what became of votes cannot be read; is an aggregator of another version?", zap.Error(err))
		return
	}
	for _, u := range said.Used {
		o.learn(u)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, v := range said.Votes {
		if c, ok := o.awaited[v.Confirm]; ok {
			delete(o.awaited, v.Confirm) // an aggregator may say it twice
			c <- v                       // has room for every vote that waits on it
		}
	}
}

// awaiting is the votes of one request that wait for their outcome.
type awaiting struct {
	outcomes *outcomes
	ids      []uint64
	came     chan hit.VoteOutcome
}

// await prepares to hear what becomes of hits, and makes them ask for it. It has
// to come before they are sent, and end after. It returns nil when too many wait
// already.
func (o *outcomes) await(hits []hit.Hit) *awaiting {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.awaited)+len(hits) > maxAwaited {
		return nil
	}
	a := &awaiting{outcomes: o, came: make(chan hit.VoteOutcome, len(hits))}
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

// wait returns what became of the votes, by Confirm, as far as that is known
// after the time, or when ctx ends.
func (a *awaiting) wait(ctx context.Context, atMost time.Duration) map[uint64]hit.VoteOutcome {
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

// end forgets those that still wait.
func (a *awaiting) end() {
	a.outcomes.mu.Lock()
	defer a.outcomes.mu.Unlock()
	for _, id := range a.ids {
		delete(a.outcomes.awaited, id)
	}
}
