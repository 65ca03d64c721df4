package outbox

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hotboard/hotboard/hit"
)

const (
	// publishTimeout is the maximum wait for an acknowledgement. After it, the
	// outcome is unknown.
	publishTimeout = 5 * time.Second
	appliedTimeout = 2 * time.Second
	// sendPace is the minimum time between messages of a shard, unless more waits
	// than fits into one: a message costs the log more than the hits in it.
	sendPace = 20 * time.Millisecond
	// Intervals of questions for the applied positions: while batches wait to be
	// applied, and while batches are only kept in case the store rolls back.
	pollWaiting = time.Second
	pollKept    = 5 * time.Second
	// How long a spool from an earlier process waits for the first answer before
	// it publishes without one.
	firstAnswer = 10 * time.Second
	// busGrace is how long the bus may fail before it is logged and a fault: when
	// everything starts at once, the bus takes a moment.
	busGrace = 5 * time.Second
)

// Bus connects to the log and to the aggregator. Implementations are safe for
// concurrent use.
type Bus interface {
	// Publish adds a message with the batches of send to the log. Nil means that
	// the log acknowledged it; after any error, the log may or may not have it.
	Publish(ctx context.Context, shard int, edge string, send Send, data []byte) error
	// Document makes sure that the log has a document of rules, for the batches that
	// name it. Nil text: the edge lacks it too, and the error is ErrNoDocument unless
	// the log has it. An implementation remembers for a while what it has made sure
	// of, until there is another connection.
	Document(ctx context.Context, id hit.RulesID, text []byte) error
	// Applied returns the highest applied batch sequence of an edge, by shard. It
	// omits shards without any. The aggregator remembers what the edge waits for.
	Applied(ctx context.Context, waiting hit.Waiting) (map[int]uint64, error)
	// Connected returns nil, or why there is no connection to the log.
	Connected() error
}

// run is one call of Run.
type run struct {
	o      *Outbox
	bus    Bus
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	lanes  sync.WaitGroup
	// started is used by Run before watch, and by the writer while watch waits
	// for it.
	started map[*lane]bool
	stir    chan struct{} // something waits to be applied; capacity one

	publishTrouble, appliedTrouble *trouble
	// connected is the last time with a connection, or the beginning of the run;
	// owned by watch.
	connected time.Time
	// documentError was logged last; empty while all is well. Owned by watch.
	documentError string
}

// Run publishes the content of the spool and all additions until ctx ends or the
// outbox is closed. It retries a failing bus without limit. After Run has
// returned, it may be called again with another bus; never concurrently.
func (o *Outbox) Run(ctx context.Context, bus Bus) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{
		o: o, bus: bus, ctx: ctx, cancel: cancel,
		done:           make(chan struct{}),
		started:        make(map[*lane]bool),
		stir:           make(chan struct{}, 1),
		publishTrouble: &trouble{grace: busGrace},
		appliedTrouble: &trouble{grace: busGrace},
		connected:      time.Now(),
	}
	o.mu.Lock()
	switch {
	case o.closed:
		o.mu.Unlock()
		return ErrClosed
	case o.run != nil:
		o.mu.Unlock()
		return ErrRunning
	}
	o.run = r
	o.mu.Unlock()

	select {
	case <-o.opened:
		r.ask()
		o.mu.Lock()
		lanes := o.lanes
		o.mu.Unlock()
		for _, l := range lanes {
			r.start(l)
		}
		r.watch()
	case <-ctx.Done():
	}

	r.lanes.Wait()
	o.mu.Lock()
	o.run = nil
	o.mu.Unlock()
	close(r.done)
	return nil
}

// ask waits a while for the first applied positions. That avoids publishing
// applied batches, and detects a copied spool before the edge sends anything
// under an id that is in use elsewhere. A new spool has no positions to wait for.
func (r *run) ask() {
	r.o.mu.Lock()
	past := false
	for _, l := range r.o.lanes {
		past = past || l.opened > 0
	}
	r.o.mu.Unlock()
	deadline := time.Now().Add(firstAnswer)
	for past && !r.poll() && r.ctx.Err() == nil && time.Now().Before(deadline) {
		r.sleep(jitter(firstAnswer / 20))
	}
}

func (r *run) start(l *lane) {
	if r.started[l] {
		return
	}
	r.started[l] = true
	r.lanes.Go(func() { r.publish(l) })
}

// publish sends a lane's batches, one message at a time.
func (r *run) publish(l *lane) {
	backoff := time.Duration(0)
	for r.ctx.Err() == nil {
		r.o.mu.Lock()
		send, ok := l.sender.Next()
		r.o.mu.Unlock()
		if !ok {
			r.publishTrouble.okIn(l)
			select {
			case <-l.wake:
			case <-r.ctx.Done():
			}
			continue
		}
		began, all := time.Now(), send.Last
		err := r.send(l, &send)
		r.o.mu.Lock()
		if err == nil {
			l.sender.Acked(send.Seq, time.Now())
		} else {
			l.sender.Failed(send.Seq)
		}
		r.o.mu.Unlock()
		switch {
		case err == nil:
			backoff = 0
			r.publishTrouble.okIn(l)
			r.o.counters.published.Add(send.Last + 1 - send.Seq)
			if send.Again {
				r.o.counters.resent.Add(send.Last + 1 - send.Seq)
			}
			signal(r.stir)
			signal(r.o.progress)
			if send.Last == all { // nothing waited: let batches gather
				r.sleep(time.Until(began.Add(sendPace)))
			}
		case r.ctx.Err() == nil:
			r.publishTrouble.failIn(l, err)
			signal(r.stir)
			r.o.counters.failed.Add(1)
			backoff = min(max(retryMin, 2*backoff), retryMax)
			r.sleep(jitter(backoff))
		}
	}
}

var errRetired = errors.New("the batches have moved to another edge id")

// send publishes a message with as many batches as fit into it, and sets
// send.Last to the last of them.
func (r *run) send(l *lane, send *Send) error {
	data, last, err := r.o.spool.message(l.laneID, send.Seq, send.Last)
	if errors.Is(err, errUnreadable) {
		r.o.unreadable(r.ctx, l.laneID, send.Seq)
		data, last, err = r.o.spool.message(l.laneID, send.Seq, send.Last)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.ctx, publishTimeout)
	defer cancel()
	for _, d := range r.o.spool.named(l.laneID, send.Seq, last) {
		if err := r.bus.Document(ctx, d.id, d.text); err != nil {
			return err
		}
	}
	r.o.mu.Lock()
	ok := l.sender.Take(last)
	r.o.mu.Unlock()
	if !ok {
		return errRetired
	}
	send.Last = last
	return r.bus.Publish(ctx, l.shard, l.edge, *send, data)
}

func (r *run) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.ctx.Done():
	}
}

// documents makes sure that the log has all documents of the spool, because
// batches in the log name them too.
func (r *run) documents() {
	if r.bus.Connected() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, appliedTimeout)
	defer cancel()
	for _, d := range r.o.spool.held() {
		if err := r.bus.Document(ctx, d.id, d.text); err != nil {
			if r.ctx.Err() == nil && err.Error() != r.documentError {
				r.documentError = err.Error()
				r.o.log.Warn("the log may lack a document of rules; the edge keeps trying to put it there", zap.Stringer("document", d.id), zap.Error(err))
			}
			return
		}
	}
	r.documentError = ""
}

// watch learns the applied positions, trims the spool behind them, keeps its
// documents in the log, and raises faults. It asks for positions only while the
// spool has batches.
func (r *run) watch() {
	for r.ctx.Err() == nil {
		r.documents()
		unapplied, kept := r.o.load()
		if unapplied > 0 {
			r.sleep(jitter(pollWaiting))
		} else {
			select {
			case <-time.After(jitter(pollKept)):
			case <-r.stir:
				continue
			case <-r.ctx.Done():
			}
		}
		if r.ctx.Err() != nil {
			return
		}
		if kept > 0 {
			r.poll()
			r.o.trim(r.ctx)
		}
		r.judge()
	}
}

// load returns the number of batches that are not known to be applied, and the
// number of batches in the spool.
func (o *Outbox) load() (unapplied, kept uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range o.lanes {
		unapplied += l.sender.Unapplied()
		kept += l.sender.Kept()
	}
	return unapplied, kept
}

// poll asks for the applied positions of every edge id in the spool, and reports
// whether it received them.
func (r *run) poll() bool {
	refused, rules := r.refused(), r.o.registered.current()
	for edge, b := range r.o.backlogs() {
		waiting := hit.Waiting{Edge: edge, Batches: b.batches, Rules: rules, OldestMillis: b.oldest.Milliseconds(), Refused: refused}
		ctx, cancel := context.WithTimeout(r.ctx, appliedTimeout)
		applied, err := r.bus.Applied(ctx, waiting)
		cancel()
		if err != nil {
			if r.ctx.Err() == nil {
				r.appliedTrouble.fail(err)
			}
			return false
		}
		r.appliedTrouble.ok()
		r.learn(edge, applied)
	}
	return true
}

// learn passes the applied positions of an edge id to its senders.
func (r *run) learn(edge string, applied map[int]uint64) {
	o := r.o
	now := time.Now()
	ahead := false
	o.mu.Lock()
	for _, l := range o.lanes {
		if l.edge != edge {
			continue
		}
		before := l.sender.applied
		switch l.sender.Applied(applied[l.shard], now) {
		case Back:
			o.counters.wentBack.Add(1)
			o.log.Warn("the counts went back: the store was restored from an older copy; the edge sends lost batches again",
				zap.String("edge", edge), zap.Int("shard", l.shard), zap.Uint64("from", before), zap.Uint64("to", applied[l.shard]))
		case Ahead:
			ahead = true
		}
		signal(l.wake)
	}
	o.mu.Unlock()
	if ahead {
		r.renew(edge, applied)
	}
}
