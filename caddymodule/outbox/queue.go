package outbox

import (
	"context"
	"fmt"
	"sync"

	"github.com/hotboard/hotboard/hit"
)

// queue holds the hits for the next write to disk. Views and appended hits have
// separate bounds, so that a flood of one leaves room for the other.
type queue struct {
	limit   int // maximum of views, and of appended hits
	flushAt int // number of views that triggers a write before the flush interval ends

	// wake signals a first view: a write is due within the flush interval. urgent
	// signals that a write is due at once. Both have capacity one.
	wake, urgent chan struct{}

	mu       sync.Mutex
	views    []hit.Hit
	spare    []hit.Hit // the other half of the double buffer
	appended []hit.Hit
	taken    int // views in an unfinished write
	verdict  *verdict
	fault    error // error of the last write; append returns it until the next write
	closed   bool
	dropped  uint64 // views refused by Offer
}

// verdict is the outcome of one write. All callers with hits in that write wait
// for it.
type verdict struct {
	done chan struct{} // closed when err is set
	err  error
}

// writing holds the hits of one write.
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

// signal puts a token into a channel of capacity one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// offer adds a view unless the queue is full or closed. It wakes the writer once
// for each write, not for each view.
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

// append adds hits and waits for their write.
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

// take returns the waiting hits. The caller must call done before the next take.
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
// views. Appended hits never do: their callers receive err instead.
func (q *queue) done(w writing, keep bool, err error) {
	q.mu.Lock()
	q.taken = 0
	if keep {
		q.spare = q.views
		q.views = append(w.views, q.views...)
	} else {
		q.spare = w.views
	}
	clear(q.spare) // releases the strings
	q.spare = q.spare[:0]
	q.fault = err
	q.mu.Unlock()
	w.verdict.err = err
	close(w.verdict.done)
}

// refuse makes append return err until the next write; nil makes it accept hits.
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

// close refuses new hits.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
}

// flush writes waiting hits at once, and returns the outcome.
func (q *queue) flush() error {
	q.mu.Lock()
	v := q.verdict
	q.mu.Unlock()
	signal(q.urgent)
	<-v.done
	return v.err
}

// depth returns the numbers of waiting views and appended hits, and of refused
// views.
func (q *queue) depth() (views, appended int, dropped uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.views) + q.taken, len(q.appended), q.dropped
}
