// Package outbox carries hits from the edge to the log so that a hit that was
// acknowledged to a visitor is counted exactly once, whatever crashes.
//
// The way of a hit:
//
//	Offer, Append ─► queue ─► spool (on disk, synced) ─► Sender ─► Bus (the log)
//	                             ▲                          │
//	                             └── trimmed once applied ──┘ applied positions
//
// Hits that wait are written together: one transaction holds all of them,
// packed into one or more batches for each shard. Each batch has the edge's id
// and a sequence without gaps. A goroutine for each shard publishes its batches
// one after the other until they are acknowledged; the spool keeps them until
// the aggregator has had them in its counts for a while. [Sender] says why.
package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/faults"
)

// Errors of [Outbox.Append] and [Outbox.Run].
var (
	// ErrFull: the spool has reached MaxBytes, or too many hits wait for the disk.
	ErrFull = errors.New("the spool is full")
	// ErrUnavailable: the spool cannot be opened or written now. The fault
	// [faults.SpoolFailing] has the reason.
	ErrUnavailable = errors.New("the spool is not available")
	ErrClosed      = errors.New("the outbox is closed")
	ErrRunning     = errors.New("the outbox is being published already")
)

// Options of [Open]. Zero values give the defaults.
type Options struct {
	// Dir is the spool directory; it is created. It belongs to one process at a
	// time.
	Dir string
	// Shards is the number of shards of the log. It is chosen once.
	Shards int
	// Keep is how long batches stay after they were applied. Default 1 minute.
	Keep time.Duration
	// MaxBytes bounds the batches in the spool. The file can be somewhat larger
	// and does not shrink. Default 1 GiB.
	MaxBytes int64
	// Flush is how long a view may wait for company before it is written.
	// Default 100 ms: many small batches cost the edge and the log more than the
	// views themselves.
	Flush time.Duration
	// Queue is how many views, and how many appended hits, may wait in memory.
	// Default 8192.
	Queue int
	// BehindAfter is how long a batch may wait to be applied before that is a fault.
	// Default: [hit.BehindAfter].
	BehindAfter time.Duration
	// Logger defaults to none. Faults are not logged to it.
	Logger *zap.Logger
	// Faults is told what is wrong: kinds of [faults.Edge]. Default: nobody is.
	Faults *faults.Registry
}

func (o Options) withDefaults() Options {
	if o.MaxBytes <= 0 {
		o.MaxBytes = 1 << 30
	}
	if o.Flush <= 0 {
		o.Flush = 100 * time.Millisecond
	}
	if o.Queue <= 0 {
		o.Queue = 8192
	}
	if o.BehindAfter <= 0 {
		o.BehindAfter = hit.BehindAfter
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Faults == nil {
		o.Faults = faults.New(slog.New(slog.DiscardHandler), "hotboard_edge", faults.Edge)
	}
	return o
}

// Outbox takes hits and sees to it that they are counted. Its methods are safe
// for concurrent use.
type Outbox struct {
	opts   Options
	timing Timing
	log    *zap.Logger
	queue  *queue

	// The writer is the one goroutine that writes to the spool, once the opener has
	// opened it.
	jobs        chan func() // for the writer, beside writing hits
	stop        chan struct{}
	goroutines  sync.WaitGroup // the writer and the opener
	writerDone  chan struct{}
	opened      chan struct{} // closed once spool is set
	unconfirmed bool          // what was written is errUnsure; the writer's
	byShard     [][]hit.Hit   // scratch; the writer's
	diskTrouble trouble

	mu      sync.Mutex // guards what follows and every lane's sender
	spool   *spool     // nil until it is open, then always the same
	lanes   []*lane    // of every edge id that has batches, and the current one's
	current []*lane    // of the current edge id, by shard
	edge    string
	run     *run // while Run runs
	closed  bool

	progress chan struct{} // a batch was acknowledged; room for one
	counters counters
}

// lane is the way of one edge id's batches of one shard.
type lane struct {
	laneID
	wake chan struct{} // something may be to send; room for one

	// The writer's own.
	written uint64 // highest batch in the spool
	opened  uint64 // highest batch in the spool when it was opened

	sender *Sender // guarded by Outbox.mu
}

func newLane(id laneID, last uint64, sender *Sender) *lane {
	return &lane{laneID: id, wake: make(chan struct{}, 1), written: last, opened: last, sender: sender}
}

// Open starts an outbox with the spool in opts.Dir. What the spool holds is
// published by Run. It is an error only if opts make no sense. A spool that cannot be
// opened is tried again until it can: meanwhile views wait in memory, and appended
// hits are refused.
func Open(opts Options) (*Outbox, error) {
	opts = opts.withDefaults()
	if opts.Dir == "" || opts.Shards < 1 || opts.Shards > hit.MaxShards {
		return nil, fmt.Errorf("opening the outbox: a directory and 1 to %d shards are needed, not %q and %d", hit.MaxShards, opts.Dir, opts.Shards)
	}
	o := &Outbox{
		opts:       opts,
		timing:     Timing{Keep: opts.Keep}.withDefaults(),
		log:        opts.Logger,
		queue:      newQueue(opts.Queue, opts.Shards),
		jobs:       make(chan func()),
		stop:       make(chan struct{}),
		writerDone: make(chan struct{}),
		opened:     make(chan struct{}),
		byShard:    make([][]hit.Hit, opts.Shards),
		current:    make([]*lane, opts.Shards),
		progress:   make(chan struct{}, 1),
	}
	o.queue.refuse(fmt.Errorf("%w: it is being opened", ErrUnavailable))
	tried := make(chan struct{})
	o.goroutines.Go(o.write)
	o.goroutines.Go(func() { o.open(tried) })
	select {
	case <-tried:
	case <-time.After(openPatience):
		o.log.Info("the spool is still being read", zap.String("dir", opts.Dir))
	}
	return o, nil
}

// Edge returns the current edge id, or nothing while the spool is not open. Each
// Open takes a new one. While the outbox is open it changes only when another
// process turns out to have the same.
func (o *Outbox) Edge() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.edge
}

// Offer takes a view. It never waits; false means that the queue is full, or
// the outbox closed, and the view is dropped. A view that was taken is lost
// only by a crash before the flush interval is over. The hit must be valid.
func (o *Outbox) Offer(h hit.Hit) bool { return o.queue.offer(h) }

// Append takes hits and returns nil when all of them are on disk: they will be
// counted. ErrFull, ErrUnavailable, ErrClosed or an invalid hit mean that none will
// be; the end of ctx, that they may be or not.
func (o *Outbox) Append(ctx context.Context, hits ...hit.Hit) error {
	for i := range hits {
		if err := hits[i].Valid(); err != nil {
			return fmt.Errorf("hit %d of %d: %w", i+1, len(hits), err)
		}
	}
	if len(hits) == 0 {
		return nil
	}
	return o.queue.append(ctx, hits)
}

// Close refuses new hits, writes those that wait to disk, goes on publishing
// until the log has all of them or ctx ends, then ends Run and closes the spool.
// What was not published is in the spool for the next Open.
func (o *Outbox) Close(ctx context.Context) error {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return ErrClosed
	}
	o.closed = true
	o.mu.Unlock()

	o.queue.close()
	err := o.flushQueue(ctx)
	o.drain(ctx)

	o.mu.Lock()
	running := o.run
	o.mu.Unlock()
	if running != nil {
		running.cancel()
		<-running.done
	}
	close(o.stop)
	o.goroutines.Wait()
	if o.spool == nil {
		return err
	}
	return errors.Join(err, o.spool.close())
}

// flushQueue writes what waits, at least trying once.
func (o *Outbox) flushQueue(ctx context.Context) error {
	for {
		err := o.queue.flush()
		views, _, _ := o.queue.depth()
		if err == nil || views == 0 {
			return nil
		}
		select {
		case <-time.After(jitter(retryMin)):
		case <-ctx.Done():
			o.log.Error("closed with views that could not be written", zap.Int("lost", views), zap.Error(err))
			return fmt.Errorf("closing the outbox: %d views are lost: %w", views, err)
		}
	}
}

// drain waits until everything was acknowledged, if anybody publishes.
func (o *Outbox) drain(ctx context.Context) {
	for {
		o.mu.Lock()
		unsent := uint64(0)
		for _, l := range o.lanes {
			unsent += l.sender.Unsent()
		}
		running := o.run
		o.mu.Unlock()
		if unsent == 0 || running == nil {
			return
		}
		select {
		case <-o.progress:
		case <-running.done:
		case <-ctx.Done():
			o.log.Warn("closed before everything was published; the spool keeps the rest", zap.Uint64("batches", unsent))
			return
		}
	}
}

// jitter returns d ± 30 %, so that edges that failed together do not retry together.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.7 + 0.6*rand.Float64()))
}

type counters struct {
	hits, batches, writes     atomic.Uint64
	rejected                  atomic.Uint64
	published, resent, failed atomic.Uint64
	wentBack, renewed         atomic.Uint64
}
