package app

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/hotboard/hotboard/aggregator/api"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/internal/reading"
	"github.com/hotboard/hotboard/internal/revisions"
)

const (
	// stuckAfter is how long a worker may stand still before the process counts as
	// dead. It is long, because a restart helps only against a permanent hang.
	stuckAfter = 5 * time.Minute
	// readyTimeout bounds the checks behind /-/ready, which must fail fast.
	readyTimeout = time.Second
	// drainTimeout is how long requests may go on after Stop.
	drainTimeout = 5 * time.Second
)

func (a *App) newHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /-/healthy", a.healthy)
	mux.HandleFunc("GET /-/ready", a.ready)
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.opts.Registry, promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(a.opts.Logger.Handler(), slog.LevelError)}))
	if a.opts.LoadRules != nil {
		// A page in a local browser must not reload either.
		mux.Handle("POST /-/reload", http.NewCrossOriginProtection().Handler(http.HandlerFunc(a.reload)))
	}
	mux.Handle("POST /-/acknowledge", http.NewCrossOriginProtection().Handler(http.HandlerFunc(a.acknowledge)))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		api.WriteError(w, r, &reading.Error{Status: http.StatusNotFound, Code: "not_found", Message: "There is nothing here."})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Not through the mux, which would clean the path: an item's id may have two
		// consecutive slashes.
		if reading.Serves(r.URL.EscapedPath()) || r.URL.Path == api.DescriptionPath {
			began := time.Now()
			s := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
			if a.rules.Load() == nil && r.URL.Path != api.DescriptionPath {
				api.WriteError(s, r, &reading.Error{Status: http.StatusServiceUnavailable, Code: "unavailable", Message: errNoRules.Error()})
			} else {
				a.api.ServeHTTP(s, r)
			}
			a.metrics.answered("http", s.status < 500, time.Since(began))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (s *statusRecorder) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// serve runs the HTTP server until ctx is done.
func (a *App) serve(ctx context.Context) {
	server := &http.Server{
		Handler:           a.handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(a.opts.Logger.Handler(), slog.LevelWarn),
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		if server.Shutdown(drain) != nil {
			_ = server.Close() // cuts off the remaining requests
		}
	}()
	if err := server.Serve(a.listener); !errors.Is(err, http.ErrServerClosed) {
		a.opts.Logger.Error("the HTTP listener has failed", "error", err)
	}
	<-stopped
}

// healthy is for supervisors that restart dead processes. It fails slowly, and
// never because another service is away, which a restart would not help.
func (a *App) healthy(w http.ResponseWriter, _ *http.Request) {
	if d := a.ingest.Stuck(); d > stuckAfter {
		http.Error(w, fmt.Sprintf("A shard has not moved for %s.", d.Round(time.Second)), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = fmt.Fprintln(w, "ok")
}

// ready is for load balancers, alerts and people. It fails at once, with the
// reasons.
func (a *App) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	faults.WriteReady(w, a.Faults(ctx))
}

// Faults returns the current faults, and checks now whether the store and the
// broker answer.
func (a *App) Faults(ctx context.Context) []faults.Fault {
	found := a.faults.Active()
	known := func(k faults.Kind) bool {
		return slices.ContainsFunc(found, func(f faults.Fault) bool { return f.Kind == k })
	}
	now := time.Now().UTC()
	if !known(faults.LogAway) && !a.opts.Conn.IsConnected() {
		found = append(found, faults.Fault{Kind: faults.LogAway, Message: "not connected to NATS", Since: now})
	}
	if !known(faults.StoreAway) && !known(faults.StoreEvicts) {
		if err := a.opts.Store.Ping(ctx); errors.Is(err, store.ErrEvicts) {
			found = append(found, faults.Fault{Kind: faults.StoreEvicts, Message: err.Error(), Since: now})
		} else if err != nil {
			found = append(found, faults.Fault{Kind: faults.StoreAway, Message: err.Error(), Since: now})
		}
	}
	return found
}

// acknowledge ends the fault of lost hits: the operator knows of them.
func (a *App) acknowledge(w http.ResponseWriter, r *http.Request) {
	if !a.mayOperate(w, r) {
		return
	}
	losses, err := a.opts.Store.Acknowledge(r.Context())
	for _, l := range losses {
		a.opts.Logger.Warn("an operator acknowledged lost batches", "shard", l.Shard, "edge", l.Edge, "from", l.From, "to", l.To, "batches", l.Batches)
	}
	a.ingest.ShowLosses(r.Context())
	if err != nil {
		api.WriteError(w, r, &reading.Error{Status: http.StatusServiceUnavailable, Code: "unavailable", Message: err.Error()})
		return
	}
	if losses == nil {
		losses = []store.Loss{}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(struct { // the client has gone away
		Acknowledged []store.Loss `json:"acknowledged"`
	}{losses})
}

func (a *App) reload(w http.ResponseWriter, r *http.Request) {
	if !a.mayOperate(w, r) {
		return
	}
	err := a.ReloadRules(r.Context())
	if errors.Is(err, revisions.ErrConflict) {
		api.WriteError(w, r, &reading.Error{Status: http.StatusConflict, Code: "rules_differ", Message: err.Error()})
		return
	}
	if err != nil {
		api.WriteError(w, r, &reading.Error{Status: http.StatusUnprocessableEntity, Code: "bad_rules", Message: err.Error()})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintln(w, `{"ok":true}`)
}

// mayOperate reports whether a request may change the aggregator, and answers it if
// not.
func (a *App) mayOperate(w http.ResponseWriter, r *http.Request) bool {
	if a.operator(r) {
		return true
	}
	api.WriteError(w, r, &reading.Error{Status: http.StatusForbidden, Code: "forbidden",
		Message: "Send the configured bearer token, or, if none is configured, ask from the same machine."})
	return false
}

func (a *App) operator(r *http.Request) bool {
	if a.opts.ReloadToken != "" {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		return ok && subtle.ConstantTimeCompare([]byte(token), []byte(a.opts.ReloadToken)) == 1
	}
	// A proxy on this machine forwards requests of others.
	if r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != "" {
		return false
	}
	if r.RemoteAddr == "@" { // a Unix socket
		return true
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	return err == nil && net.ParseIP(host).IsLoopback()
}
