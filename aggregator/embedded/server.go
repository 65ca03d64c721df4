package embedded

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/hotboard/hotboard/aggregator/app"
	"github.com/hotboard/hotboard/aggregator/ingest"
	"github.com/hotboard/hotboard/internal/revisions"
)

const (
	// startTimeout is how long the NATS server may take to start: reading the
	// index of a large log takes seconds after a crash.
	startTimeout = time.Minute
	readyPoll    = 100 * time.Millisecond
	// roomBeside is the space that JetStream may use for everything but the log,
	// the unreadable messages and the rules: the secrets, and the overhead of all streams
	// on disk.
	roomBeside = 64 << 20
	memory     = 32 << 20 // for the state of consumers
	// reconnectDelay is short, because an attempt inside the process costs
	// nothing.
	reconnectDelay = 50 * time.Millisecond
)

// broker is the NATS server, which can stop and restart. Connections to it, and
// their token, live as long as the broker.
type broker struct {
	dir      string
	token    string
	logBytes int64
	log      *slog.Logger

	running atomic.Pointer[server.Server]
}

var _ nats.InProcessConnProvider = (*broker)(nil)

// InProcessConn implements [nats.InProcessConnProvider].
func (b *broker) InProcessConn() (net.Conn, error) {
	if ns := b.running.Load(); ns != nil {
		return ns.InProcessConn()
	}
	return nil, errors.New("the embedded NATS server is not running")
}

// connect returns a connection that reconnects whenever the server runs.
func (b *broker) connect(name string) (*nats.Conn, error) {
	options := append(app.ConnectOptions(name, b.log), nats.InProcessServer(b), nats.Token(b.token),
		nats.CustomReconnectDelay(func(int) time.Duration { return reconnectDelay }))
	nc, err := nats.Connect("", options...)
	if err != nil {
		return nil, fmt.Errorf("connecting to the embedded NATS server: %w", err)
	}
	return nc, nil
}

// url returns the server's URL for other processes, with its token, or "" while
// the server is down.
func (b *broker) url() string {
	ns := b.running.Load()
	if ns == nil {
		return ""
	}
	u := url.URL{Scheme: "nats", User: url.User(b.token), Host: ns.Addr().String()}
	return u.String()
}

// errSlow does not indicate damage.
var errSlow = fmt.Errorf("not ready after %s", startTimeout)

// start starts a NATS server with JetStream in this process. It also listens on a
// free port of the loopback interface, for imports. The token keeps other users
// of the machine out.
func (b *broker) start() error {
	ns, err := server.NewServer(&server.Options{
		ServerName:         "hotboard",
		Host:               "127.0.0.1",
		Port:               server.RANDOM_PORT,
		Authorization:      b.token,
		NoSigs:             true, // signals belong to the process around it
		JetStream:          true,
		StoreDir:           b.dir,
		JetStreamMaxStore:  b.logBytes + ingest.MaxPoisonBytes + revisions.MaxBytes + roomBeside,
		JetStreamMaxMemory: memory,
		// A power cut must not lose messages that the broker has acknowledged.
		SyncAlways:             true,
		DisableJetStreamBanner: true,
	})
	if err != nil {
		return fmt.Errorf("configuring the embedded NATS server: %w", err)
	}
	l := &serverLog{log: b.log.With("component", "nats")}
	ns.SetLoggerV2(l, false, false, false)
	ns.Start()
	for began := time.Now(); !ns.ReadyForConnections(readyPoll); {
		if err := l.failed(); err != nil || time.Since(began) > startTimeout {
			ns.Shutdown()
			ns.WaitForShutdown()
			return fmt.Errorf("the embedded NATS server has not started: %w", cmp.Or(err, errSlow))
		}
	}
	b.running.Store(ns)
	return nil
}

// shutdown stops the server, if it runs.
func (b *broker) shutdown() {
	if ns := b.running.Swap(nil); ns != nil {
		ns.Shutdown()
		ns.WaitForShutdown()
	}
}

// Errors of a running server.
var (
	// errUnrecovered: the files of a stream exist, but the server could not load
	// it.
	errUnrecovered = errors.New("a stream cannot be read")
	// errRefuses: after a write error JetStream refuses messages until a restart.
	errRefuses = errors.New("the log refuses messages")
)

// health returns errUnrecovered or errRefuses, with the cause, or nil. It runs
// the server's own health check, which only reads a directory.
func (b *broker) health() error {
	ns := b.running.Load()
	w := httptest.NewRecorder()
	ns.HandleHealthz(w, httptest.NewRequest(http.MethodGet, "/healthz?details=true", nil))
	var status server.HealthStatus
	if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil {
		return nil // the check failed for an unrelated reason
	}
	for _, e := range status.Errors {
		switch {
		case e.Type == server.HealthzErrorStream && strings.HasSuffix(e.Error, "could not be recovered"):
			return fmt.Errorf("%w: %s", errUnrecovered, e.Error)
		case e.Type == server.HealthzErrorStream, e.Type == server.HealthzErrorJetStream:
			return fmt.Errorf("%w: %s", errRefuses, e.Error)
		}
	}
	return nil
}

// serverLog is the log of the NATS server.
type serverLog struct {
	log *slog.Logger

	mu    sync.Mutex
	fatal error
}

var _ server.Logger = (*serverLog)(nil)

// Noticef drops routine notices of NATS.
func (l *serverLog) Noticef(format string, v ...any) { l.log.Debug(message(format, v)) }

// Warnf implements [server.Logger].
func (l *serverLog) Warnf(format string, v ...any) {
	if strings.HasPrefix(format, "Healthcheck failed") { // from broker.health, every second
		l.log.Debug(message(format, v))
		return
	}
	l.log.Warn(message(format, v))
}

// Errorf implements [server.Logger].
func (l *serverLog) Errorf(format string, v ...any) { l.log.Error(message(format, v)) }

// Debugf implements [server.Logger].
func (l *serverLog) Debugf(format string, v ...any) { l.log.Debug(message(format, v)) }

// Tracef implements [server.Logger].
func (l *serverLog) Tracef(string, ...any) {}

// Fatalf keeps the reason why the server cannot start; the start then fails by
// itself.
func (l *serverLog) Fatalf(format string, v ...any) {
	l.log.Error(message(format, v))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fatal = errors.New(message(format, v))
}

// failed returns the reason why the server has not started, or nil.
func (l *serverLog) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatal
}

func message(format string, v []any) string { return strings.TrimSpace(fmt.Sprintf(format, v...)) }
