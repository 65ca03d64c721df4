// Package app is the aggregator without a command line: it folds the log into a
// store and answers queries, over HTTP and over NATS. The daemon and the
// all-in-one Caddy both run it.
package app

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hotboard/hotboard/aggregator/api"
	"github.com/hotboard/hotboard/aggregator/board"
	"github.com/hotboard/hotboard/aggregator/ingest"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/internal/revisions"
	"github.com/hotboard/hotboard/ruleset"
)

// Options configures an App. Store and Conn are required.
type Options struct {
	// Store keeps the counts. The caller closes it after Stop.
	Store store.Store
	// Conn is the connection to the broker. The caller closes it after Stop. See
	// [ConnectOptions].
	Conn *nats.Conn
	// Rules are the rules that the App proposes to the installation: see package
	// revisions. Without any it follows the current revision.
	Rules *ruleset.Rules
	// From is where Rules come from, such as the name of a file.
	From string
	// LoadRules reads the rules again for ReloadRules; nil rules follow. Without
	// LoadRules POST /-/reload does not exist.
	LoadRules func() (*ruleset.Rules, error)
	// RulesDifferAfter is how long this aggregator or an edge may have other rules
	// than the installation before that is a fault. Default:
	// [revisions.DiffersAfter].
	RulesDifferAfter time.Duration
	// ReloadToken is the bearer token for POST /-/reload and POST /-/acknowledge.
	// Without it only programs on the same machine may use them.
	ReloadToken string
	// Listen is the address of the HTTP listener, such as 127.0.0.1:7070. Empty: no
	// listener; the caller serves Handler.
	Listen string
	// Wait lets Start succeed when the log was made for another store, with a fault
	// instead of an error, as for a log that is away.
	Wait bool
	// Slice is the time slice of answers. Default: [api.DefaultSlice].
	Slice time.Duration
	// BehindAfter is how long an accepted hit may wait to be counted before that is a
	// fault. Default: [hit.BehindAfter].
	BehindAfter time.Duration
	// Log configures how the broker keeps the log.
	Log ingest.LogOptions
	// Logger receives messages for operators. Default: slog.Default().
	Logger *slog.Logger
	// Faults receives the faults. Default: a new one.
	Faults *faults.Registry
	// Registry receives the metrics, and /metrics serves it. Default: a new one.
	Registry *prometheus.Registry
	// Now is the clock of the boards, which tells the current periods. Counting uses
	// no clock. Default: time.Now.
	Now func() time.Time
}

// App is one aggregator.
type App struct {
	opts      Options
	rules     atomic.Pointer[ruleset.Rules] // for answers; nil before any are known
	book      *revisions.Book
	keeper    *revisions.Keeper
	inForce   *inForce
	faults    *faults.Registry
	ingest    *ingest.Ingest
	api       *api.API
	responder *responder
	waiting   *waiting
	outcomes  *outcomes
	metrics   *metrics
	handler   http.Handler

	mu       sync.Mutex // held by Start, Stop and reloads
	cancel   context.CancelFunc
	done     chan struct{} // closed when everything has ended
	listener net.Listener
}

// New returns an App that does nothing until Start.
func New(o Options) (*App, error) {
	if o.Store == nil || o.Conn == nil {
		return nil, errors.New("an aggregator needs a store and a connection to NATS")
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	if o.Faults == nil {
		o.Faults = faults.New(o.Logger, "hotboard", faults.Aggregator)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.BehindAfter == 0 {
		o.BehindAfter = hit.BehindAfter
	}
	if o.RulesDifferAfter == 0 {
		o.RulesDifferAfter = revisions.DiffersAfter
	}
	a := &App{opts: o, faults: o.Faults, metrics: newMetrics(o.Registry)}
	o.Registry.MustRegister(a.faults)
	a.waiting = newWaiting(a.faults, o.BehindAfter)
	var err error
	if a.inForce, err = newInForce(a); err != nil {
		return nil, err
	}
	a.book = revisions.New(func() *nats.Conn { return o.Conn }, o.Log.Replicas)
	a.keeper = revisions.NewKeeper(revisions.KeeperOptions{
		Book: a.book, Authority: revisions.Aggregator, By: hostname(), Changed: a.inForce.changed,
		Faults: a.faults, Logger: o.Logger, DiffersAfter: o.RulesDifferAfter,
	})
	if o.Rules != nil {
		a.rules.Store(o.Rules)
		a.keeper.Carry(o.Rules, o.From)
	}
	boards := board.New(o.Store, a.Rules, o.Now)
	a.outcomes = newOutcomes(boards, &o, a.metrics)
	a.ingest, err = ingest.New(ingest.Options{
		Conn: o.Conn, Store: o.Store, Rules: a.book.Rules, Committed: a.outcomes.committed, Log: o.Log, Owner: owner(),
		BehindAfter: o.BehindAfter,
		Faults:      a.faults, Logger: o.Logger, Registerer: o.Registry,
	})
	if err != nil {
		return nil, err
	}
	a.api = api.New(api.Options{
		Boards: boards, Rules: a.Rules,
		Slice: o.Slice, Now: o.Now, Logger: o.Logger,
	})
	a.responder = newResponder(a)
	a.handler = a.newHandler()
	return a, nil
}

// owner returns an id for this process among those that fold the same store.
func owner() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails, see its documentation
	return fmt.Sprintf("%s-%d-%s", hostname(), os.Getpid(), hex.EncodeToString(b[:]))
}

func hostname() string {
	host, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return host
}

// Start begins to fold and to answer. It fails when the HTTP listener cannot be
// opened, and when the log was made for another store. It waits for a broker or
// store that is away. ctx bounds the start only.
func (a *App) Start(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done != nil {
		return errors.New("the aggregator has already been started")
	}
	if a.opts.Conn.IsConnected() {
		if err := a.ingest.Ensure(ctx); errors.Is(err, ingest.ErrShards) && !a.opts.Wait {
			return err
		} else if err != nil {
			a.opts.Logger.Warn("the log cannot be used yet", "error", err)
		}
		a.keeper.Look(ctx) // so that the first answers know the rules
	}
	if err := a.inForce.look(ctx); err != nil {
		a.opts.Logger.Warn("the rules cannot be put in force yet", "error", err)
	}
	if a.opts.Listen != "" {
		var err error
		if a.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", a.opts.Listen); err != nil {
			return fmt.Errorf("listening on %s: %w (is another aggregator running? choose another address with listen)", a.opts.Listen, err)
		}
	}
	if err := a.responder.subscribe(a.opts.Conn); err != nil {
		a.closeListener()
		return err
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.cancel, a.done = cancel, make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(a.outcomes.folds) // nothing commits any more
		a.ingest.Run(run)
	})
	wg.Go(func() { a.keeper.Run(run) })
	wg.Go(func() { a.inForce.run(run) })
	wg.Go(func() { a.outcomes.run(run) })
	wg.Go(func() { a.waiting.run(run) })
	if a.listener != nil {
		a.opts.Logger.Info("serving", "address", a.listener.Addr().String())
		wg.Go(func() { a.serve(run) })
	}
	go func() { wg.Wait(); close(a.done) }()
	return nil
}

// Stop ends the work that Start began. Commits and answers in progress finish,
// unless ctx ends first.
func (a *App) Stop(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done == nil {
		return nil
	}
	a.cancel()
	a.responder.unsubscribe()
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stopping the aggregator: %w", ctx.Err())
	}
}

// Addr returns the address of the HTTP listener, or nil without one.
func (a *App) Addr() net.Addr {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.listener == nil {
		return nil
	}
	return a.listener.Addr()
}

// Rules returns the rules that answers are made by: those of the newest revision
// that all shards have in force. Before any is in force they are those of the
// current revision, and before that those of the configuration, or none.
func (a *App) Rules() *ruleset.Rules {
	if r := a.rules.Load(); r != nil {
		return r
	}
	return &ruleset.Rules{}
}

// Book returns the revisions of the installation's rules.
func (a *App) Book() *revisions.Book { return a.book }

// Reload proposes other rules; nil follows the current revision. They come into
// force soon afterwards, if they may.
func (a *App) Reload(ctx context.Context, r *ruleset.Rules) {
	a.metrics.reloaded(nil)
	a.keeper.Carry(r, a.opts.From)
	a.keeper.Look(ctx)
}

// ReloadRules reloads the rules that Options.LoadRules returns. It refuses rules
// with a mistake as a whole, and the old ones stay. It fails with
// [revisions.ErrConflict] if others stay in force.
func (a *App) ReloadRules(ctx context.Context) error {
	if a.opts.LoadRules == nil {
		return errors.New("the aggregator was started without a source of rules to reload")
	}
	a.mu.Lock() // a concurrent reload could propose older rules last
	defer a.mu.Unlock()
	r, err := a.opts.LoadRules()
	if err != nil {
		a.metrics.reloaded(err)
		a.opts.Logger.Error("the new rules are refused; the old ones stay", "error", err)
		return err
	}
	a.Reload(ctx, r)
	err = a.keeper.Differs()
	if err != nil {
		a.opts.Logger.Warn("the reloaded rules are not in force", "error", err)
	}
	return err
}

// Handler returns the handler of the HTTP listener: the reading API, health and
// metrics. It is for operators and programs, not for visitors.
func (a *App) Handler() http.Handler { return a.handler }

// Registry returns the metrics.
func (a *App) Registry() *prometheus.Registry { return a.opts.Registry }

func (a *App) closeListener() {
	if a.listener != nil {
		_ = a.listener.Close() // it has served nobody
	}
}
