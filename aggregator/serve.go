package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/collectors/version"

	"github.com/hotboard/hotboard/aggregator/app"
	"github.com/hotboard/hotboard/aggregator/config"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/redisstore"
	"github.com/hotboard/hotboard/aggregator/store/sqlitestore"
	"github.com/hotboard/hotboard/ruleset"
)

// stopTimeout is how long commits in progress may take after a signal.
const stopTimeout = 30 * time.Second

func serve(ctx context.Context, args []string, t terminal) error {
	fs := flags("aggregator", usage, t)
	path := fs.String("config", defaultConfig, "the configuration `file`")
	if err := parse(fs, args, false); err != nil {
		return err
	}
	c, err := config.Load(*path)
	if err != nil {
		return err
	}
	log := c.Log.Logger()

	counts, err := waitForStore(ctx, c, log)
	if err != nil {
		return err
	}
	defer func() {
		if err := counts.Close(); err != nil {
			log.Error("closing the store", "error", err)
		}
	}()
	nc, err := connect(c, "hotboard aggregator", log)
	if err != nil {
		return err
	}
	defer nc.Close()

	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo())
	a, err := app.New(app.Options{
		Store: counts, Conn: nc, Rules: c.Rules, From: cmp.Or(string(c.RulesFile), *path),
		LoadRules: reloader(*path, c, log), ReloadToken: string(c.ReloadToken),
		Listen: string(c.Listen), Slice: time.Duration(c.Slice), Log: c.NATS.LogOptions(), Logger: log, Registry: metrics,
	})
	if err != nil {
		return err
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	if err := a.Start(ctx); err != nil {
		return err
	}
	for {
		select {
		case <-hup:
			_ = a.ReloadRules(ctx) // it has logged the mistake
		case <-ctx.Done():
			log.Info("stopping")
			stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
			defer cancel()
			return a.Stop(stopCtx)
		}
	}
}

// reloader returns a function that reads the rules again. If anything else in the
// file has changed, it only logs that this needs a restart.
func reloader(path string, running *config.Config, log *slog.Logger) func() (*ruleset.Rules, error) {
	return func() (*ruleset.Rules, error) {
		c, err := config.Load(path)
		if err != nil {
			return nil, err
		}
		was, is := *running, *c
		for _, c := range []*config.Config{&was, &is} {
			c.Rules, c.RulesConfig, c.RulesFile = nil, nil, ""
		}
		if !reflect.DeepEqual(was, is) {
			log.Warn("settings other than rules have changed; they take effect at the next start")
		}
		return c.Rules, nil
	}
}

// connect returns a connection to the broker, which need not be there yet.
func connect(c *config.Config, name string, log *slog.Logger) (*nats.Conn, error) {
	n := c.NATS
	options := app.ConnectOptions(name, log)
	switch {
	case n.Token != "":
		options = append(options, nats.Token(string(n.Token)))
	case n.User != "":
		options = append(options, nats.UserInfo(string(n.User), string(n.Password)))
	case n.CredentialsFile != "":
		options = append(options, nats.UserCredentials(string(n.CredentialsFile)))
	}
	urls := make([]string, len(n.URLs))
	for i, u := range n.URLs {
		urls[i] = string(u)
	}
	nc, err := nats.Connect(strings.Join(urls, ","), options...)
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	return nc, nil
}

func openStore(ctx context.Context, c *config.Config, log *slog.Logger) (store.Store, error) {
	// Memos of visitors and quotas must last longer than the log.
	keep := max(store.DefaultMemoKeep, time.Duration(c.NATS.MaxAge)+24*time.Hour)
	if c.SQLite != nil {
		return sqlitestore.Open(ctx, sqlitestore.Options{Path: string(c.SQLite.Path), Shards: c.Shards, MemoKeep: keep})
	}
	o := redisstore.Options{URL: string(c.Redis.URL), Prefix: string(c.Redis.Prefix), Shards: c.Shards, MemoKeep: keep, Logger: log}
	return redisstore.Open(ctx, o)
}

// waitForStore opens the store, and waits while it is away: the machines of an
// installation may start in any order.
func waitForStore(ctx context.Context, c *config.Config, log *slog.Logger) (store.Store, error) {
	var w *waiting
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		tryCtx, cancel := context.WithTimeout(ctx, 10*time.Second)
		s, err := openStore(tryCtx, c, log)
		cancel()
		if err == nil || !storeAway(err) {
			return s, err
		}
		switch {
		case w != nil:
			w.because(err)
		case c.Listen != "":
			w = startWaiting(string(c.Listen), err, log)
			defer w.stop()
		}
		log.Error("the store cannot be used yet; trying again", "error", err, "in", pause.String())
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// storeAway reports whether err may pass by itself, or once an operator has corrected
// the server's settings.
func storeAway(err error) bool {
	if network := net.Error(nil); errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrEvicts) {
		return true
	}
	for _, s := range []string{"LOADING", "MASTERDOWN", "CLUSTERDOWN", "sentinels", "EOF"} { // go-redis has no types for these
		if strings.Contains(err.Error(), s) {
			return true
		}
	}
	return false
}

func buildInfo() prometheus.Collector { return version.NewCollector("hotboard") }
