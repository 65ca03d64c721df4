package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/internal/faults"
)

// waiting answers on the daemon's address while the store is away at the start, so
// that probes and people see the reason.
type waiting struct {
	server *http.Server
	since  time.Time

	mu     sync.Mutex
	reason error
}

// startWaiting listens until stop, and answers with reason. An address that is in use
// is only logged: the daemon itself will fail on it.
func startWaiting(address string, reason error, log *slog.Logger) *waiting {
	w := &waiting{since: time.Now().UTC(), reason: reason}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /-/healthy", func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(rw, "ok") // a restart would not bring the store back
	})
	mux.HandleFunc("/", w.answer)
	w.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		log.Error("answering while the store is away", "error", err)
		return w
	}
	go func() { _ = w.server.Serve(listener) }()
	return w
}

// because records why the store cannot be opened.
func (w *waiting) because(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reason = err
}

func (w *waiting) answer(rw http.ResponseWriter, _ *http.Request) {
	w.mu.Lock()
	f := faults.Fault{Kind: faults.StoreAway, Message: w.reason.Error(), Since: w.since}
	if errors.Is(w.reason, store.ErrEvicts) {
		f.Kind = faults.StoreEvicts
	}
	w.mu.Unlock()
	faults.WriteReady(rw, []faults.Fault{f})
}

// stop frees the address.
func (w *waiting) stop() { _ = w.server.Close() }
