// Package ingest moves the log into the store: for each shard it reads the log from
// the store's position, folds the messages and commits the result together with the
// new position.
//
// The position in the store is the only cursor. Whatever goes wrong (a lost reply,
// another aggregator, a store restored from an older copy, a recreated stream) ends
// in the same way: load the state, compare it with the log, read on from there.
// Sequence numbers of edges keep batches that are read twice from being counted twice.
package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hotboard/hotboard/aggregator/fold"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/ruleset"
)

// Options configures an Ingest.
type Options struct {
	Conn  *nats.Conn
	Store store.Store
	// Rules returns the rules of a document, as for [fold.Folder].
	Rules func(context.Context, hit.RulesID) (*ruleset.Rules, error)
	// Committed, if set, is called with every fold after its commit. It must not
	// block: the shard waits for it.
	Committed func(*fold.Result)
	Log       LogOptions
	// BehindAfter is how long an accepted hit may wait to be counted before that is a
	// fault. Default: [hit.BehindAfter].
	BehindAfter time.Duration
	// Owner identifies this process among those that fold the same store.
	Owner      string
	Faults     *faults.Registry
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Ingest folds all shards of one log into one store.
type Ingest struct {
	Options
	js      jetstream.JetStream
	metrics *metrics
	workers []*worker
	// Messages that all workers log at once.
	reloads, interruptions *faults.Repeated

	// members are the aggregators that divide the shards, including this one; nil
	// until it has announced itself.
	members atomic.Pointer[[]string]
	// evicts stops all counting into the store: see watchEvictions.
	evicts  atomic.Bool
	showing sync.Mutex // held by ShowLosses
	// usable is true when the streams exist with the right settings.
	usable atomic.Bool
	// era counts how often the log turned out to be another one than before. When it
	// changes, a worker compares its position with the log again.
	era atomic.Uint64
}

// New returns an Ingest that does nothing until Run.
func New(o Options) (*Ingest, error) {
	js, err := jetstream.New(o.Conn)
	if err != nil {
		return nil, fmt.Errorf("using JetStream: %w", err)
	}
	if o.BehindAfter == 0 {
		o.BehindAfter = hit.BehindAfter
	}
	in := &Ingest{
		Options: o, js: js, metrics: newMetrics(o.Registerer),
		reloads:       faults.NewRepeated(o.Logger, slog.LevelInfo, "loading the state again"),
		interruptions: faults.NewRepeated(o.Logger, slog.LevelWarn, "folding is interrupted"),
	}
	for shard := range o.Store.Shards() {
		in.workers = append(in.workers, newWorker(in, shard))
	}
	return in, nil
}

// Ensure creates missing streams. Run does so too, and waits for the broker; Ensure
// reports at once the mistakes that an operator must correct.
func (in *Ingest) Ensure(ctx context.Context) error {
	return EnsureStreams(ctx, in.js, in.Store.Shards(), in.Log)
}

// Run reads and folds until ctx is done. It finishes commits in progress.
func (in *Ingest) Run(ctx context.Context) {
	in.announce(ctx) // so that the workers need not wait
	var wg sync.WaitGroup
	wg.Go(func() { in.divide(ctx) })
	wg.Go(func() { in.watch(ctx) })
	wg.Go(func() { in.watchEvictions(ctx) })
	wg.Go(func() { in.watchProgress(ctx) })
	for _, w := range in.workers {
		wg.Go(func() { w.run(ctx) })
	}
	wg.Wait()
}

// Stuck returns how long the slowest worker has not completed a loop. A store or a
// broker that is away does not hold workers up: they go on trying. So a worker that
// stands still for minutes will do so for ever.
func (in *Ingest) Stuck() time.Duration {
	var longest time.Duration
	for _, w := range in.workers {
		longest = max(longest, time.Since(time.UnixMilli(w.cameRound.Load())))
	}
	return longest
}

func (in *Ingest) folder() *fold.Folder {
	return &fold.Folder{Rules: in.Rules, Store: in.Store, First: firstInLog(in.js)}
}

// brokerError replaces the errors of requests that failed for want of a connection.
func (in *Ingest) brokerError(err error) error {
	if err == nil || errors.Is(err, errDisconnected) || in.Conn.IsConnected() {
		return err
	}
	return fmt.Errorf("%w: %w", errNotConnected, err)
}

// failed reports whether err is a failure, not merely the end of ctx.
func failed(ctx context.Context, err error) bool {
	return err != nil && !(ctx.Err() != nil && errors.Is(err, context.Canceled))
}

// wait waits for d or until ctx is done.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
