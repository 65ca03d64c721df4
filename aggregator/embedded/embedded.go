// Package embedded is a whole Hotboard backend in one process and one directory:
// a NATS server for the log, a SQLite store for the counts, and the aggregator
// between them. It is what a site runs that needs one machine only; an import
// into such a site uses it too.
package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hotboard/hotboard/aggregator/app"
	"github.com/hotboard/hotboard/aggregator/ingest"
	"github.com/hotboard/hotboard/aggregator/store/sqlitestore"
	"github.com/hotboard/hotboard/ruleset"
)

// Shards is how many shards the log of an embedded backend has. One SQLite file
// has one writer: more would not be faster.
const Shards = 1

// DefaultLogBytes is how large the log may become unless Options say otherwise.
const DefaultLogBytes = 1 << 30

// Files in the directory of an embedded backend.
const (
	countsFile = "counts.db" // SQLite; also locks the directory
	natsDir    = "nats"
	urlFile    = "nats.url"
	rulesFile  = "rules.json"
)

// Options say where an embedded backend lives and what it does.
type Options struct {
	// Dir holds everything. It is created when there is none.
	Dir string
	// Rules are the rules to begin with. Default: those that were in force last in
	// Dir.
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
	store  *sqlitestore.Store
	server *server.Server
	conn   *nats.Conn // of whoever embeds
	own    *nats.Conn // of the app
	app    *app.App
}

// Open starts a backend. It fails when another process uses the directory. ctx
// bounds the start only.
func Open(ctx context.Context, o Options) (*Embedded, error) {
	if o.Dir == "" {
		return nil, errors.New("an embedded backend needs a directory")
	}
	if o.LogBytes == 0 {
		o.LogBytes = DefaultLogBytes
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	e := &Embedded{dir: o.Dir, log: o.Logger}
	if err := e.open(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the data directory %s: %w", o.Dir, err), e.Close())
	}
	return e, nil
}

func (e *Embedded) open(ctx context.Context, o Options) error {
	if err := os.MkdirAll(e.dir, 0o700); err != nil {
		return err
	}
	// The store first: it locks the directory.
	var err error
	if e.store, err = sqlitestore.Open(ctx, sqlitestore.Options{Path: filepath.Join(e.dir, countsFile), Shards: Shards}); err != nil {
		return err
	}
	if o.Rules == nil {
		if o.Rules, err = LoadRules(e.dir); err != nil {
			return err
		}
	}
	token := rand.Text()
	if e.server, err = startServer(filepath.Join(e.dir, natsDir), token, o.LogBytes, e.log); err != nil {
		return err
	}
	if e.own, err = e.connect("hotboard aggregator", token); err != nil {
		return err
	}
	if e.conn, err = e.connect("hotboard", token); err != nil {
		return err
	}
	a, err := app.New(app.Options{
		Store: e.store, Conn: e.own, Rules: o.Rules, Slice: o.Slice, Logger: e.log, Registry: o.Registry, Now: o.Now,
		Log: ingest.LogOptions{MaxBytes: o.LogBytes},
	})
	if err != nil {
		return err
	}
	if err := a.Start(ctx); err != nil {
		return err
	}
	e.app = a
	e.saveRules()
	u := url.URL{Scheme: "nats", User: url.User(token), Host: e.server.Addr().String()}
	return writeFile(filepath.Join(e.dir, urlFile), []byte(u.String()+"\n"))
}

func (e *Embedded) connect(name, token string) (*nats.Conn, error) {
	options := append(app.ConnectOptions(name, e.log), nats.InProcessServer(e.server), nats.Token(token))
	nc, err := nats.Connect("", options...)
	if err != nil {
		return nil, fmt.Errorf("connecting to the embedded NATS server: %w", err)
	}
	return nc, nil
}

// Conn returns a connection to the broker, inside the process. It ends with the
// backend.
func (e *Embedded) Conn() *nats.Conn { return e.conn }

// Handler serves what the aggregator's own listener would: the reading API,
// health and metrics.
func (e *Embedded) Handler() http.Handler { return e.app.Handler() }

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
	e.saveRules()
	return nil
}

// closeTimeout is how long Close waits for what is being counted.
const closeTimeout = 15 * time.Second

// Close stops the aggregator, then the broker, and gives the directory free.
// What was accepted and is not counted yet is counted after the next Open.
func (e *Embedded) Close() error {
	var errs []error
	if e.app != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		errs = append(errs, e.app.Stop(ctx))
		if err := os.Remove(filepath.Join(e.dir, urlFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	for _, nc := range []*nats.Conn{e.conn, e.own} {
		if nc != nil {
			nc.Close()
		}
	}
	if e.server != nil {
		e.server.Shutdown()
		e.server.WaitForShutdown()
	}
	if e.store != nil {
		errs = append(errs, e.store.Close())
	}
	return errors.Join(errs...)
}
