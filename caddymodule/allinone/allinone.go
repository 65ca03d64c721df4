// Package allinone makes Caddy a complete Hotboard: it runs a NATS server, a
// store and an aggregator inside the Caddy process, with all data in one
// directory. A site on a single machine needs nothing else.
package allinone

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap/exp/zapslog"

	"github.com/hotboard/hotboard/aggregator/embedded"
	"github.com/hotboard/hotboard/caddymodule"
	"github.com/hotboard/hotboard/caddymodule/internal/clock"
	"github.com/hotboard/hotboard/caddymodule/internal/currentlog"
	"github.com/hotboard/hotboard/internal/faults"
)

func init() {
	caddy.RegisterModule(new(Broker))
	caddy.RegisterModule(new(adminAPI))
}

// Broker counts inside this Caddy process. It is the default broker of an app.
type Broker struct {
	// The directory for the log and the counts. `aggregator import` is given the
	// same one. Default: that of the app.
	Dir string `json:"dir,omitempty"`

	opened string // key in backends; empty unless open
}

// CaddyModule returns the Caddy module information.
func (*Broker) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "hotboard.broker.embedded",
		New: func() caddy.Module { return new(Broker) },
	}
}

// Provision prepares the broker. It does not touch files.
func (b *Broker) Provision(ctx caddy.Context) error {
	b.Dir = caddy.NewReplacer().ReplaceAll(b.Dir, "")
	return register(ctx.GetMetricsRegistry())
}

// ShardCount returns the number of shards of the log.
func (b *Broker) ShardCount() int { return embedded.Shards }

// Open starts the backend, unless one already runs in the same directory. A
// problem with the directory raises a fault and does not keep Caddy from starting.
// The backend follows the rules that the edge proposes.
func (b *Broker) Open(o caddymodule.BrokerOptions) (*nats.Conn, error) {
	dir := b.Dir
	if dir == "" {
		dir = o.Dir
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("dir: %w", err)
	}
	v, _, err := backends.LoadOrNew(dir, func() (caddy.Destructor, error) {
		// The backend outlives this configuration, so its logger must too. Its
		// errors concern files and servers, so a stack trace would not help.
		log := zapslog.NewHandler(currentlog.Logger("").Core(), zapslog.WithName("hotboard.aggregator"), zapslog.AddStacktraceAt(slog.LevelError+1))
		e, err := embedded.Start(embedded.Options{Dir: dir, Logger: slog.New(log), Now: clock.Now})
		if err != nil {
			return nil, err
		}
		return backend{e}, nil
	})
	if err != nil {
		return nil, err
	}
	b.opened = dir
	return v.(backend).Conn(), nil
}

// Faults returns the faults of the log, the counts and the aggregator.
func (b *Broker) Faults(ctx context.Context) (found []faults.Fault) {
	backends.Range(func(key, v any) bool {
		if key == b.opened {
			found = v.(backend).Faults(ctx)
		}
		return true
	})
	return found
}

// Close releases the backend. It stops with the last configuration that uses it.
func (b *Broker) Close() error {
	if b.opened == "" {
		return nil
	}
	dir := b.opened
	b.opened = ""
	_, err := backends.Delete(dir)
	return err
}

// UnmarshalCaddyfile reads
//
//	embedded [<dir>]
func (b *Broker) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the module's name
	if d.NextArg() {
		b.Dir = d.Val()
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	if d.NextBlock(d.Nesting()) {
		return d.Errf("unknown option %q: embedded has no options", d.Val())
	}
	return nil
}

// backends holds the running backends by directory. There is one, except for the
// moments in which a reload moves to another directory.
var backends = caddy.NewUsagePool()

// backend is a backend that several configurations may use at once.
type backend struct{ *embedded.Embedded }

// Destruct stops the backend.
func (be backend) Destruct() error { return be.Close() }

// adminAPI serves health, metrics and the reading API of the aggregator at
// Caddy's admin endpoint, below /hotboard/.
type adminAPI struct{}

// CaddyModule returns the Caddy module information.
func (*adminAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "admin.api.hotboard_aggregator",
		New: func() caddy.Module { return new(adminAPI) },
	}
}

// Routes implements [caddy.AdminRouter]. The edge serves all other paths below
// /hotboard/, including /hotboard/-/ready, which has the faults of both.
func (*adminAPI) Routes() []caddy.AdminRoute {
	var routes []caddy.AdminRoute
	for _, pattern := range []string{"/hotboard/-/", "/hotboard/metrics", "/hotboard/hot", "/hotboard/api/"} {
		routes = append(routes, caddy.AdminRoute{Pattern: pattern, Handler: caddy.AdminHandlerFunc(serveAdmin)})
	}
	return routes
}

func serveAdmin(w http.ResponseWriter, r *http.Request) error {
	var running http.Handler
	backends.Range(func(_, v any) bool {
		running = v.(backend).Handler()
		return true
	})
	if running == nil {
		return caddy.APIError{
			HTTPStatus: http.StatusServiceUnavailable,
			Err:        errors.New("no embedded aggregator is running"),
		}
	}
	http.StripPrefix("/hotboard", running).ServeHTTP(w, r)
	return nil
}

var (
	_ caddymodule.Broker    = (*Broker)(nil)
	_ caddy.Provisioner     = (*Broker)(nil)
	_ caddy.AdminRouter     = (*adminAPI)(nil)
	_ caddyfile.Unmarshaler = (*Broker)(nil)
)
