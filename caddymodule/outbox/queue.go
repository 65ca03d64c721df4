package outbox

import (
	"context"
	"fmt"
	"sync"

	"github.com/hotboard/hotboard/hit"
)

// queue holds what waits for the next write to disk. Views and appended hits
// are bounded apart, so that a flood of one leaves room for the other.
type queue struct {
	limit   int // of views, and of appended hits
	flushAt int // views that are worth a write before the flush interval is over

	// wake says that there is a first view: a write is due within the flush
	// interval. urgent says that it is due at once. Both have room for one.
	wake, urgent chan struct{}

	mu       sync.Mutex
	views    []hit.Hit
	spare    []hit.Hit // the other half of the double buffer
	appended []hit.Hit
	taken    int // views in a write that has not ended
	verdict  *verdict
	fault    error // of the last write; appends are refused with it until the next
	closed   bool
	dropped  uint64 // views that Offer refused
}

// verdict is the outcome of one write, which everyone whose hits are in it
// waits for.
type verdict struct {
	done chan struct{} // closed when err is set
	err  error
}

// writing is what one write takes from the queue.
type writing struct {
	views, appended []hit.Hit
	verdict         *verdict
}

func newQueue(limit, shards int) *queue {
	return &queue{
		limit:   limit,
		flushAt: max(1, min(shards*hit.MaxHits, limit/2)),
		wake:    make(chan struct{}, 1),
		urgent:  make(chan struct{}, 1),
		verdict: newVerdict(),
	}
}

func newVerdict() *verdict { return &verdict{done: make(chan struct{})} }

// signal puts a token into a channel that has room for one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// offer adds a view unless the queue is full or closed. It wakes the writer
// once for each write, not for each view.
func (q *queue) offer(h hit.Hit) bool {
	q.mu.Lock()
	n := len(q.views)
	if q.closed || n+q.taken >= q.limit {
		q.dropped++
		q.mu.Unlock()
		return false
	}
	q.views = append(q.views, h)
	q.mu.Unlock()
	switch n + 1 {
	case q.flushAt:
		signal(q.urgent)
	case 1:
		signal(q.wake)
	}
	return true
}

// append adds hits and waits for the write that they are in.
func (q *queue) append(ctx context.Context, hits []hit.Hit) error {
	q.mu.Lock()
	var err error
	switch {
	case q.closed:
		err = ErrClosed
	case q.fault != nil:
		err = q.fault
	case len(q.appended)+len(hits) > q.limit:
		err = fmt.Errorf("%w: %d hits wait to be written, the limit is %d", ErrFull, len(q.appended), q.limit)
	}
	if err != nil {
		q.mu.Unlock()
		return err
	}
	q.appended = append(q.appended, hits...)
	v := q.verdict
	q.mu.Unlock()
	signal(q.urgent)
	return v.wait(ctx)
}

func (v *verdict) wait(ctx context.Context) error {
	select {
	case <-v.done:
		return v.err
	case <-ctx.Done():
		return fmt.Errorf("waiting for hits to be written (they may be yet): %w", context.Cause(ctx))
	}
}

// take returns what waits. done must be called before the next take.
func (q *queue) take() writing {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := writing{views: q.views, appended: q.appended, verdict: q.verdict}
	q.views, q.spare = q.spare, nil
	q.appended = nil
	q.taken = len(w.views)
	q.verdict = newVerdict()
	return w
}

// done ends a write. If keep, its views wait for the next one, before newer
// ones. Appended hits never do: whoever waits is told err instead.
func (q *queue) done(w writing, keep bool, err error) {
	q.mu.Lock()
	q.taken = 0
	if keep {
		q.spare = q.views
		q.views = append(w.views, q.views...)
	} else {
		q.spare = w.views
	}
	clear(q.spare) // lets go of the strings
	q.spare = q.spare[:0]
	q.fault = err
	q.mu.Unlock()
	w.verdict.err = err
	close(w.verdict.done)
}

// refuse has appends refused with err until the next write, or taken when it is nil.
func (q *queue) refuse(err error) {
	q.mu.Lock()
	q.fault = err
	q.mu.Unlock()
}

// faulty reports whether the last write failed.
func (q *queue) faulty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fault != nil
}

// close refuses what comes from now on.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
}

// flush has what waits written at once, and returns the outcome.
func (q *queue) flush() error {
	q.mu.Lock()
	v := q.verdict
	q.mu.Unlock()
	signal(q.urgent)
	<-v.done
	return v.err
}

// depth returns how many views and appended hits wait, and how many views were
// refused.
func (q *queue) depth() (views, appended int, dropped uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.views) + q.taken, len(q.appended), q.dropped
}
