// Package outbox carries hits from the edge to the log: after any crash, every
// acknowledged hit counts exactly once.
//
// The path of a hit:
//
//	Offer, Append ─► queue ─► spool (on disk, synced) ─► Sender ─► Bus (the log)
//	                             ▲                          │
//	                             └── trimmed once applied ──┘ applied positions
//
// The outbox writes waiting hits together: one transaction holds all of them,
// packed into one or more batches for each shard. Each batch has the edge's id
// and a sequence without gaps. A goroutine for each shard publishes its batches
// in order until the log acknowledges them. The spool keeps batches until some
// time after the aggregator has applied them; [Sender] explains why.
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
	// ErrFull: the spool has reached MaxBytes, or too many hits wait for the
	// disk.
	ErrFull = errors.New("the spool is full")
	// ErrUnavailable: the spool cannot be opened or written now. The fault
	// [faults.SpoolFailing] has the cause.
	ErrUnavailable = errors.New("the spool is not available")
	ErrClosed      = errors.New("the outbox is closed")
	ErrRunning     = errors.New("the outbox is already being published")
)

// Options of [Open]. Zero values select the defaults.
type Options struct {
	// Dir is the spool directory. Open creates it. Only one process may use it at
	// a time.
	Dir string
	// Shards is the number of shards of the log. It never changes.
	Shards int
	// Keep is how long batches stay after they were applied. Default: 1 minute.
	Keep time.Duration
	// MaxBytes bounds the batches in the spool. The files can be somewhat larger.
	// Default: 1 GiB.
	MaxBytes int64
	// Flush is the maximum delay before a view is written. Default: 100 ms,
	// because many small batches cost the edge and the log more than the views
	// themselves.
	Flush time.Duration
	// Queue is the maximum number of waiting views, and of waiting appended hits,
	// in memory. Default: 8192.
	Queue int
	// BehindAfter is how long a batch may wait to be applied before that is a
	// fault. Default: [hit.BehindAfter].
	BehindAfter time.Duration
	// Logger defaults to none. It does not receive faults.
	Logger *zap.Logger
	// Faults receives faults of the kinds of [faults.Edge]. Default: none.
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

// Outbox accepts hits and delivers them to the log. Its methods are safe for
// concurrent use.
type Outbox struct {
	opts   Options
	timing Timing
	log    *zap.Logger
	queue  *queue
	began  time.Time

	// The writer is the only goroutine that writes to the spool after the opener
	// has opened it.
	jobs        chan func() // run by the writer between writes
	stop        chan struct{}
	goroutines  sync.WaitGroup // the writer and the opener
	writerDone  chan struct{}
	opened      chan struct{} // closed once spool is set
	unconfirmed bool          // the last write returned errUnsure; owned by the writer
	byShard     [][]hit.Hit   // scratch; owned by the writer
	diskTrouble trouble

	registered registered

	mu      sync.Mutex // guards the fields below and every lane's sender
	spool   *spool     // nil until it is open, then constant
	lanes   []*lane    // lanes of all edge ids with batches, and the current id's
	current []*lane    // of the current edge id, by shard
	edge    string
	run     *run // while Run runs
	closed  bool

	progress chan struct{} // a batch was acknowledged; capacity one
	counters counters
}

// lane carries one edge id's batches of one shard.
type lane struct {
	laneID
	wake chan struct{} // there may be something to send; capacity one

	// Owned by the writer.
	written uint64 // highest batch in the spool
	opened  uint64 // highest batch when the spool was opened

	sender *Sender // guarded by Outbox.mu
}

func newLane(id laneID, last uint64, sender *Sender) *lane {
	return &lane{laneID: id, wake: make(chan struct{}, 1), written: last, opened: last, sender: sender}
}

// Open starts an outbox with the spool in opts.Dir. Run publishes the content of
// the spool. Open fails only if opts are invalid. If the spool cannot be opened,
// the outbox keeps trying: meanwhile views wait in memory, and Append refuses
// hits.
func Open(opts Options) (*Outbox, error) {
	opts = opts.withDefaults()
	if opts.Dir == "" || opts.Shards < 1 || opts.Shards > hit.MaxShards {
		return nil, fmt.Errorf("opening the outbox: need a directory and 1 to %d shards, not %q and %d", hit.MaxShards, opts.Dir, opts.Shards)
	}
	o := &Outbox{
		opts:       opts,
		timing:     Timing{Keep: opts.Keep}.withDefaults(),
		log:        opts.Logger,
		began:      time.Now(),
		queue:      newQueue(opts.Queue, opts.Shards),
		jobs:       make(chan func()),
		stop:       make(chan struct{}),
		writerDone: make(chan struct{}),
		opened:     make(chan struct{}),
		byShard:    make([][]hit.Hit, opts.Shards),
		current:    make([]*lane, opts.Shards),
		progress:   make(chan struct{}, 1),
		registered: registered{texts: map[hit.RulesID][]byte{}},
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

// Edge returns the current edge id, or "" before the spool is open. Each Open
// takes a new id. While the outbox is open, the id changes only if another
// process uses the same one.
func (o *Outbox) Edge() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.edge
}

// Offer accepts a view without blocking. It returns false and drops the view if
// the queue is full or the outbox closed. Only a crash within the flush interval
// loses an accepted view. The hit must be valid, and its Rules registered by
// Document.
func (o *Outbox) Offer(h hit.Hit) bool { return o.queue.offer(h) }

// Append returns nil once all hits are on disk: they will be counted. After
// ErrFull, ErrUnavailable, ErrClosed, ErrNoDocument or an invalid hit, none of them
// will be. If ctx ends first, they may or may not be.
func (o *Outbox) Append(ctx context.Context, hits ...hit.Hit) error {
	for i := range hits {
		if err := hits[i].Valid(); err != nil {
			return fmt.Errorf("hit %d of %d: %w", i+1, len(hits), err)
		}
		if (i == 0 || hits[i].Rules != hits[i-1].Rules) && o.registered.text(hits[i].Rules) == nil {
			return fmt.Errorf("hit %d of %d: %w: nobody registered %s", i+1, len(hits), ErrNoDocument, hits[i].Rules)
		}
	}
	if len(hits) == 0 {
		return nil
	}
	return o.queue.append(ctx, hits)
}

// Close refuses new hits, writes waiting hits to disk, and keeps publishing until
// the log has all of them or ctx ends. Then it ends Run and closes the spool. The
// next Open publishes the rest from the spool.
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

// flushQueue writes waiting hits. It tries at least once.
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

// drain waits until everything was acknowledged, if Run is active.
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

// jitter returns d ± 30 %, so that edges that failed together do not retry
// together.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.7 + 0.6*rand.Float64()))
}

type counters struct {
	hits, batches, writes     atomic.Uint64
	rejected                  atomic.Uint64
	published, resent, failed atomic.Uint64
	wentBack, renewed         atomic.Uint64
}
