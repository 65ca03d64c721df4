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
)

const (
	// startTimeout is how long the NATS server may take: it reads the log's index,
	// which takes seconds for a large log after a crash.
	startTimeout = time.Minute
	readyPoll    = 100 * time.Millisecond
	// roomBeside is what JetStream may keep beside the log and the messages that
	// cannot be read: the salts, and what becomes of all of them on disk.
	roomBeside = 64 << 20
	memory     = 32 << 20 // for the state of consumers
	// reconnectDelay is short, because a try costs nothing: it is in this process.
	reconnectDelay = 50 * time.Millisecond
)

// broker is the NATS server, which comes and goes. Connections to it, and the
// token that they use, live as long as the broker.
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

// connect returns a connection that is there whenever the server is.
func (b *broker) connect(name string) (*nats.Conn, error) {
	options := append(app.ConnectOptions(name, b.log), nats.InProcessServer(b), nats.Token(b.token),
		nats.CustomReconnectDelay(func(int) time.Duration { return reconnectDelay }))
	nc, err := nats.Connect("", options...)
	if err != nil {
		return nil, fmt.Errorf("connecting to the embedded NATS server: %w", err)
	}
	return nc, nil
}

// url returns where other processes reach the server, with its token; "" while it
// does not run.
func (b *broker) url() string {
	ns := b.running.Load()
	if ns == nil {
		return ""
	}
	u := url.URL{Scheme: "nats", User: url.User(b.token), Host: ns.Addr().String()}
	return u.String()
}

// errSlow is not a sign of damage.
var errSlow = fmt.Errorf("it is not ready after %s", startTimeout)

// start starts a NATS server with JetStream in this process. It also listens on a
// free port of the loopback interface, for an import; the token keeps others on
// the machine out.
func (b *broker) start() error {
	ns, err := server.NewServer(&server.Options{
		ServerName:         "hotboard",
		Host:               "127.0.0.1",
		Port:               server.RANDOM_PORT,
		Authorization:      b.token,
		NoSigs:             true, // signals belong to the process around it
		JetStream:          true,
		StoreDir:           b.dir,
		JetStreamMaxStore:  b.logBytes + ingest.MaxPoisonBytes + roomBeside,
		JetStreamMaxMemory: memory,
		// A power cut must not take back what an edge was told is stored.
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

// Troubles of a server that runs.
var (
	// errUnrecovered: the files of a stream are there, but not the stream.
	errUnrecovered = errors.New("a stream cannot be read")
	// errRefuses: JetStream keeps an error of writing until it is started again.
	errRefuses = errors.New("the log stores nothing")
)

// health returns errUnrecovered or errRefuses, with the cause, or nil. It asks the
// server for its own verdict, which costs a look at a directory.
func (b *broker) health() error {
	ns := b.running.Load()
	w := httptest.NewRecorder()
	ns.HandleHealthz(w, httptest.NewRequest(http.MethodGet, "/healthz?details=true", nil))
	var status server.HealthStatus
	if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil {
		return nil // it answers other questions than the one that matters
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

// Noticef logs what NATS says in good health, which nobody asked for here.
func (l *serverLog) Noticef(format string, v ...any) { l.log.Debug(message(format, v)) }

// Warnf implements [server.Logger].
func (l *serverLog) Warnf(format string, v ...any) {
	if strings.HasPrefix(format, "Healthcheck failed") { // broker.health asked, each second
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

// Fatalf notes why the server cannot start; it goes on to fail by itself.
func (l *serverLog) Fatalf(format string, v ...any) {
	l.log.Error(message(format, v))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fatal = errors.New(message(format, v))
}

// failed returns why the server has not started, or nil.
func (l *serverLog) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatal
}

func message(format string, v []any) string { return strings.TrimSpace(fmt.Sprintf(format, v...)) }
