// Package caddymodule is the edge: the Caddy app "hotboard", which holds the
// rules, the spool and the connection to the log, and the HTTP handler
// "hotboard", which distinguishes views from other requests and serves the
// endpoints.
//
// Hits travel to the aggregators through a spool on disk (package outbox) and
// NATS JetStream. The edge never waits for either to serve a page.
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
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/ruleset"
)

func init() {
	caddy.RegisterModule(new(App))
	caddy.RegisterModule(new(Handler))
	caddy.RegisterModule(new(NATSBroker))
	caddy.RegisterModule(new(AdminAPI))
	httpcaddyfile.RegisterGlobalOption("hotboard", parseGlobalOption)
	httpcaddyfile.RegisterHandlerDirective("hotboard", parseDirective)
	// After forward_auth the user is known. All handlers that write a page come
	// later, so the handler sees the page that the visitor gets.
	httpcaddyfile.RegisterDirectiveOrder("hotboard", httpcaddyfile.After, "forward_auth")
}

// App is the shared configuration of all sites of a Caddy server: the rules, and
// the broker for their hits. The handler `hotboard` in a site's routes does the
// counting.
//
// With a NATS server and without rules, the app follows: it takes the rules of
// the installation from there, and their changes without a reload. Only the file
// of bots may stand beside, because it belongs to the machine.
type App struct {
	// The rules.
	ruleset.Config

	// The directory for data that must survive a crash: spooled hits, the edge's
	// identity, and the data of the embedded broker. Caddy processes cannot share
	// one. Default: `hotboard` in Caddy's data directory.
	Dir string `json:"dir,omitempty"`

	// The broker for hits. Default: `{"type": "embedded"}`, which counts inside
	// this process, in a Caddy that is built with it.
	BrokerRaw json.RawMessage `json:"broker,omitempty" caddy:"namespace=hotboard.broker inline_key=type"`

	// The maximum number of counts of all limits in memory. Limits forget only
	// counts without effect; a key without room gets an estimate. A million take
	// less than 150 MB, allocated on demand. Default: 1000000.
	LimitKeys int `json:"limit_keys,omitempty"`

	broker   Broker
	own      *ruleset.Rules // nil: the app follows
	named    []string       // lists that directives name
	botsFile *botsfile.File // nil if there is none
	watching context.CancelFunc
	watcher  sync.WaitGroup

	generation atomic.Pointer[generation]
	turn       sync.Mutex // held to replace the generation
	ended      bool       // no generation follows

	// rt is the runtime of this configuration: nil before the start, or if
	// acquiring it failed.
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

// defaultLimitKeys is the default of LimitKeys.
const defaultLimitKeys = 1_000_000

// Provision prepares the app. It writes no file and connects to nothing, so that
// a configuration can be validated while another runs.
func (a *App) Provision(ctx caddy.Context) error {
	rules, err := ruleset.Compile(a.Config)
	if err := errors.Join(err, caddyrules.ValidateIDs(&a.Config)); err != nil {
		return fmt.Errorf("the rules have mistakes:\n%w", err)
	}
	if rules.Bots != nil && rules.Bots.File != "" {
		file, err := botsfile.Open(rules.Bots.File, ctx.Logger().Named("bots"))
		if err != nil {
			return fmt.Errorf("bots.file: %w", err)
		}
		a.botsFile = file
	}
	a.own = rules
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
			return errors.New("missing: a broker; this Caddy lacks the embedded one: " +
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
	if len(rules.Lists) == 0 {
		if rules.ID() != noRules.ID() {
			return errors.New("the rules have no lists: add one, or remove limits and bots too (except bots.file) to follow the rules of the installation")
		}
		if mod.(caddy.Module).CaddyModule().ID != embeddedBroker {
			a.own, rules = nil, noRules
		}
	}
	a.generation.Store(newGeneration(rules, a.botsFile))
	return register(ctx.GetMetricsRegistry())
}

// noRules count nothing.
var noRules, _ = ruleset.Compile(ruleset.Config{})

// Start opens the spool and connects to the broker. A problem with Dir does not
// make it fail: Caddy serves the site, and counting resumes when possible.
func (a *App) Start() error {
	rt, err := a.acquire()
	if err != nil {
		return err
	}
	conn, err := a.broker.Open(BrokerOptions{Dir: a.Dir})
	if err != nil {
		return fmt.Errorf("starting the broker: %w", err)
	}
	rt.enter(a, conn)
	rt.faults.Clear(faults.BotsFile, faults.Whole) // Provision has read this configuration's file
	if a.botsFile != nil {
		ctx, stop := context.WithCancel(context.Background())
		a.watching = stop
		a.watcher.Go(func() { a.botsFile.Watch(ctx, rt.faults) })
	}
	return nil
}

// acquire returns the runtime. On the first call it opens the runtime or takes it
// over. Caddy starts apps in random order: if it starts the HTTP app first, the
// first request arrives here before Start runs, and must not be lost.
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
	g := a.generation.Load()
	if latest := rt.rules.latest.Load(); a.own == nil && latest != nil {
		g = newGeneration(latest, a.botsFile)
	}
	g.bind(rt)
	a.generation.Store(g)
	a.rt.Store(rt)
	return rt, nil
}

// enforce makes rules those of the following requests. Counts of limits go on as
// after a reload.
func (a *App) enforce(rt *runtime, rules *ruleset.Rules) {
	a.turn.Lock()
	defer a.turn.Unlock()
	old := a.generation.Load()
	if a.ended || old.rules.ID() == rules.ID() {
		return
	}
	g := newGeneration(rules, a.botsFile)
	g.bind(rt)
	a.generation.Store(g)
	old.limits.Release()
}

// missingLists returns the lists that directives name and the followed rules lack.
func (a *App) missingLists() (missing []string) {
	rules := a.generation.Load().rules
	if len(rules.Lists) == 0 {
		return nil // that is another fault
	}
	for _, name := range a.named {
		if rules.List(name) == nil {
			missing = append(missing, name)
		}
	}
	return missing
}

// Stop does nothing: requests may still be under way. Cleanup releases.
func (a *App) Stop() error { return nil }

// Cleanup releases the resources of this configuration: none if it was only
// validated or could not acquire the runtime.
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
		// If this was the last configuration, the outbox publishes its batches
		// while the connection still exists.
		errs = append(errs, releaseRuntime(a.Dir))
		rt.leave(a)
		a.turn.Lock()
		a.ended = true
		a.generation.Load().limits.Release()
		a.turn.Unlock()
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
