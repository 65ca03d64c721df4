package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hotboard/hotboard/aggregator/app"
	"github.com/hotboard/hotboard/aggregator/config"
	"github.com/hotboard/hotboard/aggregator/embedded"
	"github.com/hotboard/hotboard/internal/revisions"
	"github.com/hotboard/hotboard/ruleset"
)

// connectTimeout is how long a command waits for the rules of an installation.
const connectTimeout = 10 * time.Second

// target is the installation that a command works on.
type target struct {
	conn      *nats.Conn
	book      *revisions.Book
	authority revisions.Authority // of the first rules
	close     func() error
}

// targetFlags adds the flags that name a target, and returns a function that opens
// it. name is the name of the connection.
func targetFlags(fs *flag.FlagSet, name string, t terminal) (open func(context.Context) (*target, error)) {
	path := fs.String("config", defaultConfig, "the aggregator's configuration `file`")
	data := fs.String("data", "", "the data `directory` of the embedded default")
	return func(ctx context.Context) (*target, error) {
		// The command reports the state of the broker itself.
		log := slog.New(slog.NewTextHandler(t.err, &slog.HandlerOptions{Level: slog.LevelError}))
		if *data != "" {
			return embeddedTarget(ctx, *data, name, log)
		}
		return daemonTarget(*path, name, log)
	}
}

func newTarget(nc *nats.Conn, authority revisions.Authority, end func() error) *target {
	return &target{nc, revisions.New(func() *nats.Conn { return nc }, 0), authority, end}
}

// daemonTarget is the running installation of a configuration.
func daemonTarget(path, name string, log *slog.Logger) (*target, error) {
	c, err := config.Load(path)
	if err != nil {
		return nil, err
	}
	nc, err := connect(c, name, log)
	if err != nil {
		return nil, err
	}
	return newTarget(nc, revisions.Aggregator, func() error { nc.Close(); return nil }), nil
}

// embeddedTarget is the embedded backend that runs in a directory, or else one that
// it starts for the command.
func embeddedTarget(ctx context.Context, dir, name string, log *slog.Logger) (*target, error) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("no directory %s: name the dir of the site's configuration, or create it for a new site", dir)
	}
	if url, err := embedded.URL(dir); err == nil {
		// One try: after a crash the file names a port where nothing listens.
		if probe, err := nats.Connect(url, nats.Timeout(2*time.Second)); err == nil {
			probe.Close()
			nc, err := nats.Connect(url, app.ConnectOptions(name, log)...)
			if err != nil {
				return nil, fmt.Errorf("connecting to the site that runs in %s: %w", dir, err)
			}
			return newTarget(nc, revisions.Caddyfile, func() error { nc.Close(); return nil }), nil
		}
	}
	e, err := embedded.Open(ctx, embedded.Options{Dir: dir, Logger: log})
	if err != nil {
		return nil, err
	}
	return newTarget(e.Conn(), revisions.Caddyfile, e.Close), nil
}

// current returns the current revision and its rules. Without any, first becomes
// the first revision, unless it is nil.
func (t *target) current(ctx context.Context, first *ruleset.Rules) (revisions.Revision, *ruleset.Rules, error) {
	r, err := t.newest(ctx, first)
	if err != nil {
		return r, nil, err
	}
	rules, err := t.book.Rules(ctx, r.Rules)
	return r, rules, err
}

// newest is current without the rules. It waits for the connection.
func (t *target) newest(ctx context.Context, first *ruleset.Rules) (revisions.Revision, error) {
	for began := time.Now(); ; {
		r, err := t.book.Current(ctx)
		if errors.Is(err, revisions.ErrNoRevision) {
			if first == nil {
				return r, fmt.Errorf("%w: start the site or an aggregator with rules once, or pass a file of rules", err)
			}
			r, _, err = t.book.Propose(ctx, first, revisions.Source{Authority: t.authority, By: whoami(), From: "a command"}, 0)
		}
		if err == nil {
			return r, nil
		}
		if time.Since(began) > connectTimeout || ctx.Err() != nil {
			return r, fmt.Errorf("reading the current rules (is NATS running?): %w", err)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// whoami names the user of a command, for the history of the rules.
func whoami() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}
