// Package embedded is a whole Hotboard backend in one process and one directory:
// a NATS server for the log, a SQLite store for the counts, and the aggregator
// between them. A site on a single machine needs nothing else. Imports into such
// a site use it too.
//
// The aggregator and the connections live as long as the backend. The server and
// the store's file can stop and restart: [Start] returns a backend even if the
// directory has a fault, and the backend recovers by itself when it can.
package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hotboard/hotboard/aggregator/app"
	"github.com/hotboard/hotboard/aggregator/ingest"
	"github.com/hotboard/hotboard/aggregator/store/sqlitestore"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/ruleset"
)

// Shards is the number of shards in the log of an embedded backend. A SQLite file
// allows one writer: more shards would not be faster.
const Shards = 1

// DefaultLogBytes is the default of Options.LogBytes.
const DefaultLogBytes = 1 << 30

// Options configures an embedded backend.
type Options struct {
	// Dir holds all files. Open and Start create it if necessary.
	Dir string
	// LogBytes is the maximum size of the log. Default: DefaultLogBytes.
	LogBytes int64
	// Slice is how long an answer of the reading API stays valid. Default: 1 s.
	Slice time.Duration
	// Logger receives log messages for the operator. Default: slog.Default().
	Logger *slog.Logger
	// Registry receives the metrics. Default: a new one.
	Registry *prometheus.Registry
	// Now is the clock of the boards. Default: time.Now.
	Now func() time.Time
}

// Embedded is a running backend.
type Embedded struct {
	dir    string
	log    *slog.Logger
	faults *faults.Registry
	store  *sqlitestore.Store
	broker *broker
	conn   *nats.Conn                // for the embedding process
	own    atomic.Pointer[nats.Conn] // for the aggregator
	app    *app.App

	stop  context.CancelFunc
	tasks sync.WaitGroup
	up    keeper
	url   publishedURL
}

// Open starts a backend. It fails if another process uses the directory, or if a
// file in it is unusable. ctx bounds the start only.
func Open(ctx context.Context, o Options) (*Embedded, error) {
	e, err := prepare(o)
	if err != nil {
		return nil, err
	}
	err = e.keepUp(ctx)
	if err == nil {
		err = e.begin(ctx, o)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the data directory %s: %w", e.dir, err), e.Close())
	}
	return e, nil
}

// startWait is how long Start waits for a healthy backend, so that a site is
// ready when it begins to serve.
const startWait = 2 * time.Second

// Start starts a backend even if its directory has a fault: the backend raises
// the fault and tries again until Close. Start fails if the rules have mistakes.
func Start(o Options) (*Embedded, error) {
	e, err := prepare(o)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	e.stop = stop
	tried := make(chan struct{})
	e.tasks.Go(func() { e.supervise(ctx, tried) })
	select {
	case <-tried:
	case <-time.After(startWait):
	}
	if err := e.begin(ctx, o); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// For shard 0: the aggregator sets the fault of the whole from the reports of
// edges.
func prepare(o Options) (*Embedded, error) {
	if o.Dir == "" {
		return nil, errors.New("an embedded backend needs a directory")
	}
	if o.LogBytes == 0 {
		o.LogBytes = DefaultLogBytes
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s, err := sqlitestore.New(sqlitestore.Options{Path: filepath.Join(o.Dir, countsFile), Shards: Shards})
	if err != nil {
		return nil, err
	}
	return &Embedded{
		dir: o.Dir, log: o.Logger, store: s,
		faults: faults.New(o.Logger, "hotboard", faults.Aggregator),
		broker: &broker{dir: filepath.Join(o.Dir, natsDir), token: rand.Text(), logBytes: o.LogBytes, log: o.Logger},
	}, nil
}

// begin connects and starts the aggregator. The server and the store may start
// later.
func (e *Embedded) begin(ctx context.Context, o Options) error {
	own, err := e.broker.connect("hotboard aggregator")
	if err != nil {
		return err
	}
	e.own.Store(own)
	if e.conn, err = e.broker.connect("hotboard"); err != nil {
		return err
	}
	a, err := app.New(app.Options{
		Store: e.store, Conn: own, Slice: o.Slice, Logger: e.log, Registry: o.Registry, Faults: e.faults, Now: o.Now,
		Wait: e.stop != nil,
		Log:  ingest.LogOptions{MaxBytes: e.broker.logBytes},
	})
	if err != nil {
		return err
	}
	if err := a.Start(ctx); err != nil {
		return err
	}
	e.app = a
	e.saveURL()
	return nil
}

// Conn returns a connection to the broker inside the process. It closes with the
// backend, and reconnects by itself after an outage of the broker.
func (e *Embedded) Conn() *nats.Conn { return e.conn }

// Handler serves the paths of the aggregator's own listener: the reading API,
// health and metrics.
func (e *Embedded) Handler() http.Handler { return e.app.Handler() }

// Faults returns the current faults.
func (e *Embedded) Faults(ctx context.Context) []faults.Fault { return e.app.Faults(ctx) }

// Registry returns the metrics.
func (e *Embedded) Registry() *prometheus.Registry { return e.app.Registry() }

// Rules returns the rules that answers are made by.
func (e *Embedded) Rules() *ruleset.Rules { return e.app.Rules() }

// closeTimeout is how long Close waits for the aggregator to finish counting.
const closeTimeout = 15 * time.Second

// Close stops the aggregator, then the broker, and releases the directory. The
// next Open counts hits that were accepted but not applied.
func (e *Embedded) Close() error {
	if e.stop != nil {
		e.stop()
	}
	e.tasks.Wait()
	var errs []error
	if e.app != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		errs = append(errs, e.app.Stop(ctx))
	}
	for _, nc := range []*nats.Conn{e.conn, e.own.Load()} {
		if nc != nil {
			nc.Close()
		}
	}
	e.broker.shutdown()
	e.removeURL()
	return errors.Join(append(errs, e.store.Close())...)
}
