// Package embedded is a whole Hotboard backend in one process and one directory:
// a NATS server for the log, a SQLite store for the counts, and the aggregator
// between them. It is what a site runs that needs one machine only; an import
// into such a site uses it too.
//
// The aggregator and the connections live as long as the backend. The server and
// the store's file come and go under them: whatever is wrong with the directory,
// [Start] returns a backend, which goes on by itself when it can.
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

// Shards is how many shards the log of an embedded backend has. One SQLite file
// has one writer: more would not be faster.
const Shards = 1

// DefaultLogBytes is how large the log may become unless Options say otherwise.
const DefaultLogBytes = 1 << 30

// Options say where an embedded backend lives and what it does.
type Options struct {
	// Dir holds everything. It is created when there is none.
	Dir string
	// Rules are the rules to begin with. Default, of Open alone: those that were in
	// force last in Dir.
	Rules *ruleset.Ruleset
	// LogBytes is how large the log may become. Default: DefaultLogBytes.
	LogBytes int64
	// Slice is how long an answer of the reading API holds. Default: 1 s.
	Slice time.Duration
	// Logger gets what an operator should know. Default: slog.Default().
	Logger *slog.Logger
	// Registry gets the metrics. Default: a new one.
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
	conn   *nats.Conn                // of whoever embeds
	own    atomic.Pointer[nats.Conn] // of the app
	app    *app.App

	stop  context.CancelFunc
	tasks sync.WaitGroup
	up    keeper
	files files
}

// Open starts a backend, or fails: when another process uses the directory, or
// when something in it cannot be used. ctx bounds the start only.
func Open(ctx context.Context, o Options) (*Embedded, error) {
	if o.Rules == nil && o.Dir != "" {
		var err error
		if o.Rules, err = LoadRules(o.Dir); err != nil {
			return nil, fmt.Errorf("opening the data directory %s: %w", o.Dir, err)
		}
	}
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

// startWait is how long Start waits for a backend in good health, so that a site
// is ready when it begins to serve.
const startWait = 2 * time.Second

// Start starts a backend whatever is wrong with its directory: what cannot be
// opened is a fault, and is tried again until Close. It fails when the rules have
// mistakes.
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

// prepare makes the parts of a backend, and touches nothing.
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

// begin connects, and starts the aggregator. Neither the server nor the store has
// to be there yet.
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
		Store: e.store, Conn: own, Rules: o.Rules, Slice: o.Slice, Logger: e.log, Registry: o.Registry, Faults: e.faults, Now: o.Now,
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
	e.files.rules.Store(a.Rules())
	e.saveFiles()
	return nil
}

// Conn returns a connection to the broker, inside the process. It ends with the
// backend, and comes back by itself when the broker was away.
func (e *Embedded) Conn() *nats.Conn { return e.conn }

// Handler serves what the aggregator's own listener would: the reading API,
// health and metrics.
func (e *Embedded) Handler() http.Handler { return e.app.Handler() }

// Faults returns what is wrong now.
func (e *Embedded) Faults(ctx context.Context) []faults.Fault { return e.app.Faults(ctx) }

// Registry returns the metrics.
func (e *Embedded) Registry() *prometheus.Registry { return e.app.Registry() }

// Rules returns the rules in force.
func (e *Embedded) Rules() *ruleset.Ruleset { return e.app.Rules() }

// Reload puts rules in force. Rules with a mistake are refused as a whole, and
// the old ones stay.
func (e *Embedded) Reload(r *ruleset.Ruleset) error {
	if err := e.app.Reload(r); err != nil {
		return err
	}
	e.files.rules.Store(r)
	e.saveFiles()
	return nil
}

// closeTimeout is how long Close waits for what is being counted.
const closeTimeout = 15 * time.Second

// Close stops the aggregator, then the broker, and gives the directory free.
// What was accepted and is not counted yet is counted after the next Open.
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
