package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"

	"github.com/hotboard/hotboard/caddymodule/boards"
	"github.com/hotboard/hotboard/caddymodule/internal/currentlog"
	"github.com/hotboard/hotboard/caddymodule/internal/succession"
	"github.com/hotboard/hotboard/caddymodule/limit"
	"github.com/hotboard/hotboard/caddymodule/outbox"
	"github.com/hotboard/hotboard/caddymodule/outcomes"
	"github.com/hotboard/hotboard/caddymodule/pending"
	"github.com/hotboard/hotboard/caddymodule/samples"
	"github.com/hotboard/hotboard/caddymodule/secrets"
	"github.com/hotboard/hotboard/caddymodule/visitors"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/datadir"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/ruleset"
)

// runtimes holds the state that outlives a configuration, by data directory. A
// reload takes over the existing runtime; the last configuration closes it.
var runtimes = caddy.NewUsagePool()

// closeTimeout is how long a closing outbox keeps publishing. The rest stays on
// disk for the next start.
const closeTimeout = 2 * time.Second

// runtime is the state of an edge that survives reloads: its spool, its secrets,
// the counts of its limits, and the last answers of the aggregators.
type runtime struct {
	shards   int
	faults   *faults.Registry
	outbox   *outbox.Outbox
	secrets  *secrets.Secrets
	limits   *limit.Limiter
	pending  *pending.Views
	samples  *samples.Samples
	visitors *visitors.Pseudonyms
	boards   *boards.Boards
	conns    succession.Of[*nats.Conn]
	outcomes *outcomes.Outcomes
	apps     succession.Of[*App]
	rules    *installation

	stop context.CancelFunc
	done sync.WaitGroup
}

// acquireRuntime returns the runtime of dir, and opens it if no other
// configuration has. releaseRuntime releases it.
func acquireRuntime(dir string, shards int) (*runtime, error) {
	v, _, err := runtimes.LoadOrNew(dir, func() (caddy.Destructor, error) {
		return openRuntime(dir, shards)
	})
	if err != nil {
		return nil, err
	}
	rt := v.(*runtime)
	if rt.shards != shards {
		return nil, errors.Join(
			fmt.Errorf("the spool in %s is in use for a log of %d shards and cannot be used for one of %d: set another dir", dir, rt.shards, shards),
			releaseRuntime(dir))
	}
	return rt, nil
}

// enter puts the connection and the settings of a configuration in force.
func (rt *runtime) enter(a *App, conn *nats.Conn) {
	rt.conns.Enter(a, conn)
	rt.outcomes.Follow(conn)
	rt.apps.Enter(a, a)
	rt.limits.SetMaxKeys(a.LimitKeys)
	rt.rules.settle()
}

// leave removes them, so that those of the previous configuration, if it still
// exists, are in force again.
func (rt *runtime) leave(a *App) {
	rt.conns.Leave(a)
	conn, _ := rt.conns.Current() // nil if no configuration is left
	rt.outcomes.Follow(conn)
	rt.apps.Leave(a)
	if last, ok := rt.apps.Current(); ok {
		rt.limits.SetMaxKeys(last.LimitKeys)
	}
	rt.rules.settle()
}

// generation returns the rules in force, or nil if there is no configuration.
func (rt *runtime) generation() *generation {
	if a, ok := rt.apps.Current(); ok {
		return a.generation.Load()
	}
	return nil
}

// inForce returns the rules in force, or nil if there is no configuration.
func (rt *runtime) inForce() *ruleset.Rules {
	if g := rt.generation(); g != nil {
		return g.rules
	}
	return nil
}

// register makes rules those that the outbox accepts hits under.
func (rt *runtime) register(rules *ruleset.Rules) {
	if len(rules.Lists) > 0 {
		rt.outbox.Document(rules.Document())
	}
}

// learn passes an aggregator's count to the limits in force.
func (rt *runtime) learn(used hit.UsedQuota) {
	if g := rt.generation(); g != nil {
		g.limits.Learn(used)
	}
}

func releaseRuntime(dir string) error {
	_, err := runtimes.Delete(dir)
	return err
}

// newFaults returns a registry for the faults of an edge. Its metrics need no
// logger.
func newFaults(logger *zap.Logger) *faults.Registry {
	log := slog.New(slog.DiscardHandler)
	if logger != nil {
		log = slogOf(logger)
	}
	return faults.New(log, "hotboard_edge", faults.Edge)
}

// slogOf returns a logger that writes to another one, without stack traces.
func slogOf(logger *zap.Logger) *slog.Logger {
	return slog.New(zapslog.NewHandler(logger.Core(), zapslog.WithName(logger.Name()), zapslog.AddStacktraceAt(slog.LevelError+1)))
}

func openRuntime(dir string, shards int) (*runtime, error) {
	rt := &runtime{
		shards: shards, faults: newFaults(currentlog.Logger("hotboard.faults")),
		limits: limit.New(defaultLimitKeys), pending: pending.New(countSpeculative), samples: samples.New(), visitors: visitors.New(),
	}
	if err := datadir.Tidy(dir); err != nil {
		currentlog.Logger("hotboard").Warn("cannot remove files left by a crash; they do no harm", zap.Error(err))
	}
	rt.secrets = secrets.Open(filepath.Join(dir, "salts.json"), rt.inForce, rt.conns.Current, rt.faults, currentlog.Logger("hotboard.secrets"))
	var err error
	rt.outbox, err = outbox.Open(outbox.Options{Dir: filepath.Join(dir, "spool"), Shards: shards, Faults: rt.faults, Logger: currentlog.Logger("hotboard.outbox")})
	if err != nil {
		return nil, fmt.Errorf("opening the spool: %w", err)
	}
	rt.boards = boards.New(rt.conns.Current)
	rt.outcomes = outcomes.New(rt.learn, currentlog.Logger("hotboard.outcomes"))

	ctx, stop := context.WithCancel(context.Background())
	rt.stop = stop
	rt.rules = openInstallation(ctx, rt, dir)
	bus := outbox.NewNATS(func() *nats.Conn {
		nc, _ := rt.conns.Current() // nil before a configuration has connected
		return nc
	}, shards)
	rt.done.Go(func() { rt.outbox.Run(ctx, bus) })
	rt.done.Go(func() { rt.secrets.Run(ctx) })
	rt.done.Go(rt.rules.run)
	return rt, nil
}

// Destruct writes accepted hits to disk, publishes what it can, and closes the
// spool.
func (rt *runtime) Destruct() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := rt.outbox.Close(ctx)
	rt.stop()
	rt.done.Wait()
	if err != nil {
		return fmt.Errorf("closing the spool: %w", err)
	}
	return nil
}
