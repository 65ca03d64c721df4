// Package caddymodule is the edge: the Caddy app "hotboard", which holds the
// rules, the spool and the connection to the log, and the HTTP handler
// "hotboard", which tells views from other requests and answers the endpoints.
//
// What is counted travels to the aggregators through a spool on disk (package
// outbox) and NATS JetStream. The edge never waits for either to serve a page.
package caddymodule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/hotboard/hotboard/caddymodule/botsfile"
	"github.com/hotboard/hotboard/caddymodule/caddyrules"
	"github.com/hotboard/hotboard/caddymodule/limit"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/bots"
)

func init() {
	caddy.RegisterModule(new(App))
	caddy.RegisterModule(new(Handler))
	caddy.RegisterModule(new(NATSBroker))
	caddy.RegisterModule(new(AdminAPI))
	httpcaddyfile.RegisterGlobalOption("hotboard", parseGlobalOption)
	httpcaddyfile.RegisterHandlerDirective("hotboard", parseDirective)
	// After forward_auth the user is known. Everything that writes a page comes
	// later, so that the handler sees the page as the visitor gets it.
	httpcaddyfile.RegisterDirectiveOrder("hotboard", httpcaddyfile.After, "forward_auth")
}

// App is what all sites of a Caddy server have in common: what is counted, and
// where it is sent. The handler `hotboard` in a site's routes does the counting.
type App struct {
	// What is counted, and how.
	ruleset.Ruleset

	// The directory for what must survive a crash: hits on their way, the edge's
	// identity, and the data of the embedded broker. No two Caddy processes can
	// share one. Default: `hotboard` in Caddy's data directory.
	Dir string `json:"dir,omitempty"`

	// Where hits are sent. Default: `{"type": "embedded"}`, which counts inside
	// this process, in a Caddy that is built with it.
	BrokerRaw json.RawMessage `json:"broker,omitempty" caddy:"namespace=hotboard.broker inline_key=type"`

	// How many counts of limits are kept in memory, of all limits together. A
	// count that is worth something is never forgotten; a key that finds no room is
	// judged by an estimate. A million are less than 150 MB, taken as they are
	// used. Default: 1000000.
	LimitKeys int `json:"limit_keys,omitempty"`

	broker   Broker
	bots     *bots.Classifier
	botsFile *botsfile.File // nil if there is none
	limits   *limit.Rules   // set once rt is
	watching context.CancelFunc
	watcher  sync.WaitGroup

	// rt is what this configuration acquired: nil before it started and when it
	// could not.
	rt     atomic.Pointer[runtime]
	mu     sync.Mutex // held to acquire and to release
	tried  error      // why acquiring failed
	closed bool
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "hotboard",
		New: func() caddy.Module { return new(App) },
	}
}

const (
	// botCache is how many User-Agents' verdicts are remembered.
	botCache = 16384
	// defaultLimitKeys is how many counts limits keep.
	defaultLimitKeys = 1_000_000
)

// Provision prepares the app. It writes no file and connects to nothing, so that a
// configuration can be validated beside a running one.
func (a *App) Provision(ctx caddy.Context) error {
	if err := errors.Join(a.Ruleset.Provision(), caddyrules.ValidateIDs(&a.Ruleset)); err != nil {
		return fmt.Errorf("the rules have mistakes:\n%w", err)
	}
	a.bots = bots.New(a.Bots, botCache)
	if a.Bots != nil && a.Bots.File != "" {
		file, err := botsfile.Open(a.Bots.File, a.bots, ctx.Logger().Named("bots"))
		if err != nil {
			return fmt.Errorf("bots.file: %w", err)
		}
		a.botsFile = file
	}
	switch {
	case a.LimitKeys == 0:
		a.LimitKeys = defaultLimitKeys
	case a.LimitKeys < 0:
		return fmt.Errorf("limit_keys: %d is less than 1", a.LimitKeys)
	}

	a.Dir = caddy.NewReplacer().ReplaceAll(a.Dir, "")
	if a.Dir == "" {
		a.Dir = filepath.Join(caddy.AppDataDir(), "hotboard")
	}
	dir, err := filepath.Abs(a.Dir)
	if err != nil {
		return fmt.Errorf("dir: %w", err)
	}
	a.Dir = dir

	if a.BrokerRaw == nil {
		if _, err := caddy.GetModule(embeddedBroker); err != nil {
			return errors.New("no broker is set, and this Caddy is built without the embedded one: " +
				"name a NATS server (in a Caddyfile: nats nats://127.0.0.1:4222), " +
				"or build with github.com/hotboard/hotboard/caddymodule/allinone")
		}
		a.BrokerRaw = json.RawMessage(`{"type":"embedded"}`)
	}
	mod, err := ctx.LoadModule(a, "BrokerRaw")
	if err != nil {
		return fmt.Errorf("loading the broker: %w", err)
	}
	a.broker = mod.(Broker)
	return register(ctx.GetMetricsRegistry())
}

// Start opens the spool and connects to the broker. What is wrong with Dir does not
// make it fail: the site is served, and counting goes on when it can.
func (a *App) Start() error {
	rt, err := a.acquire()
	if err != nil {
		return err
	}
	conn, err := a.broker.Open(BrokerOptions{Dir: a.Dir, Rules: &a.Ruleset})
	if err != nil {
		return fmt.Errorf("starting the broker: %w", err)
	}
	rt.enter(a, conn)
	rt.faults.Clear(faults.BotsFile, faults.Whole) // the file of this configuration was read
	if a.botsFile != nil {
		ctx, stop := context.WithCancel(context.Background())
		a.watching = stop
		a.watcher.Go(func() { a.botsFile.Watch(ctx, rt.faults) })
	}
	return nil
}

// acquire returns the runtime, taking it over or opening it on the first call.
// Caddy starts apps in random order: when it starts the HTTP app first, the
// first request gets here before Start does, and must not be lost.
func (a *App) acquire() (*runtime, error) {
	if rt := a.rt.Load(); rt != nil {
		return rt, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if rt := a.rt.Load(); rt != nil || a.tried != nil {
		return rt, a.tried
	}
	if a.closed {
		return nil, errors.New("the configuration was stopped")
	}
	rt, err := acquireRuntime(a.Dir, a.broker.ShardCount())
	if err != nil {
		a.tried = err
		return nil, err
	}
	a.limits = rt.limits.Bind(a.Limits, a.Lists)
	a.rt.Store(rt)
	return rt, nil
}

// Stop does nothing: requests may still be under way. Cleanup releases.
func (a *App) Stop() error { return nil }

// Cleanup gives back what this configuration acquired: nothing when it was only
// validated, the runtime when it did not come to connect.
func (a *App) Cleanup() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	if a.watching != nil {
		a.watching()
		a.watcher.Wait()
	}
	var errs []error
	if rt := a.rt.Load(); rt != nil && a.tried == nil {
		a.tried = errors.New("released")
		// When this was the last, the outbox publishes what it can while the
		// connection is still there.
		errs = append(errs, releaseRuntime(a.Dir))
		rt.leave(a)
		a.limits.Release()
	}
	if a.broker != nil {
		errs = append(errs, a.broker.Close())
	}
	return errors.Join(errs...)
}

var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)
