package caddymodule

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hotboard/hotboard/caddymodule/caddyrules"
	"github.com/hotboard/hotboard/caddymodule/internal/currentlog"
	"github.com/hotboard/hotboard/internal/datadir"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/internal/revisions"
	"github.com/hotboard/hotboard/ruleset"
)

const (
	// rulesFile is the name of the file with the document that an edge followed
	// last.
	rulesFile = "rules.json"
	// saveEvery is how often an edge that follows checks the file.
	saveEvery = time.Minute
)

// differsAfter is a variable for tests.
var differsAfter = revisions.DiffersAfter

// installation connects a runtime with the rules of its installation: it proposes
// those of the configuration, or has the configuration follow.
type installation struct {
	rt   *runtime
	path string // of rulesFile
	log  *slog.Logger
	ctx  context.Context // of the runtime
	wake chan struct{}   // to save the file

	// latest are the last known rules of the installation, or nil.
	latest atomic.Pointer[ruleset.Rules]

	enforcing sync.Mutex // held by enforce

	mu     sync.Mutex
	keeper *revisions.Keeper // of conn; nil without one
	conn   *nats.Conn
	stop   func()
}

// openInstallation reads the rules of an earlier process from dir.
func openInstallation(ctx context.Context, rt *runtime, dir string) *installation {
	in := &installation{
		rt: rt, path: filepath.Join(dir, rulesFile), ctx: ctx, wake: make(chan struct{}, 1),
		log: slogOf(currentlog.Logger("hotboard.rules")),
	}
	doc, err := os.ReadFile(in.path)
	if err == nil {
		var rules *ruleset.Rules
		if rules, err = ruleset.ParseDocument(doc); err == nil {
			in.latest.Store(rules)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		in.log.Warn("cannot use the rules of an earlier process; those of the broker replace them", "file", in.path, "error", err)
	}
	return in
}

// settle makes the configuration in force follow, or proposes its rules. It
// proposes nothing while two configurations overlap, because the new one may still
// fail to start.
func (in *installation) settle() {
	in.mu.Lock()
	defer in.mu.Unlock()
	conn, _ := in.rt.conns.Current()
	if conn != in.conn {
		// Another broker has rules and revisions of its own.
		if in.stop != nil {
			in.stop()
		}
		in.conn, in.keeper, in.stop = conn, nil, nil
		if conn != nil {
			in.connect(conn)
		}
	}
	in.enforce()
	if a, alone := in.rt.apps.Only(); alone && in.keeper != nil {
		in.keeper.Carry(a.own, "the Caddyfile")
	}
}

func (in *installation) connect(conn *nats.Conn) {
	host, _ := os.Hostname() // empty if unknown
	in.keeper = revisions.NewKeeper(revisions.KeeperOptions{
		Book:      revisions.New(func() *nats.Conn { return conn }, 0),
		Authority: revisions.Caddyfile, By: host,
		Changed: in.changed, Known: in.latest.Load() != nil,
		Faults: in.rt.faults, Logger: in.log, DiffersAfter: differsAfter,
	})
	ctx, cancel := context.WithCancel(in.ctx)
	done := make(chan struct{})
	keeper := in.keeper
	in.rt.done.Go(func() { keeper.Run(ctx); close(done) })
	in.stop = func() { cancel(); <-done }
}

// changed puts the rules of the current revision in force where the configuration
// follows.
func (in *installation) changed(r revisions.Revision, rules *ruleset.Rules) {
	in.latest.Store(rules)
	in.log.Info("the rules of the installation", "revision", r.String())
	var config ruleset.Config
	for _, l := range rules.Lists {
		config.Lists = append(config.Lists, &l.ListConfig)
	}
	if err := caddyrules.ValidateIDs(&config); err != nil {
		in.log.Error("the rules have ids that no edge can evaluate: requests of these lists are bad_item", "revision", r.String(), "error", err)
	}
	in.enforce()
}

// enforce puts in force the rules that the configuration carries or follows.
func (in *installation) enforce() {
	in.enforcing.Lock()
	defer in.enforcing.Unlock()
	a, ok := in.rt.apps.Current()
	if !ok {
		return
	}
	if latest := in.latest.Load(); a.own == nil && latest != nil {
		a.enforce(in.rt, latest)
	}
	in.rt.register(a.generation.Load().rules)
	in.rt.secrets.Check()
	if missing := a.missingLists(); len(missing) > 0 {
		in.rt.faults.Set(faults.ListUnknown, faults.Whole, fmt.Sprintf(
			"a directive hotboard has lists that the rules lack, so nothing is counted on them: %v. Correct the option lists, or add these lists to the rules", missing))
	} else {
		in.rt.faults.Clear(faults.ListUnknown, faults.Whole)
	}
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// run keeps the followed rules on disk until the runtime ends.
func (in *installation) run() {
	trouble := faults.NewRepeated(in.log, slog.LevelError,
		"cannot store the rules; if this edge restarts while the broker is away, it counts by older rules or nothing")
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	for {
		select {
		case <-in.ctx.Done():
			return
		case <-in.wake:
		case <-tick.C:
		}
		if err := in.save(); err != nil {
			trouble.Log("error", err)
		}
	}
}

func (in *installation) save() error {
	rules := in.latest.Load()
	if a, ok := in.rt.apps.Current(); !ok || a.own != nil || rules == nil {
		return nil
	}
	if doc, err := os.ReadFile(in.path); err == nil && bytes.Equal(doc, rules.Document()) {
		return nil
	}
	return errors.Join(datadir.Make(filepath.Dir(in.path)), datadir.Replace(in.path, rules.Document()))
}
