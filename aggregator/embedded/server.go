package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/hotboard/hotboard/aggregator/ingest"
)

const (
	// startTimeout is how long the NATS server may take: it reads the log's index,
	// which takes seconds for a large log after a crash.
	startTimeout = time.Minute
	// roomBeside is what JetStream may keep beside the log and the messages that
	// cannot be read: the salts, and what becomes of all of them on disk.
	roomBeside = 64 << 20
	memory     = 32 << 20 // for the state of consumers
)

// startServer starts a NATS server with JetStream in this process. It also
// listens on a free port of the loopback interface, for an import; the token
// keeps others on the machine out.
func startServer(dir, token string, logBytes int64, log *slog.Logger) (*server.Server, error) {
	ns, err := server.NewServer(&server.Options{
		ServerName:         "hotboard",
		Host:               "127.0.0.1",
		Port:               server.RANDOM_PORT,
		Authorization:      token,
		NoSigs:             true, // signals belong to the process around it
		JetStream:          true,
		StoreDir:           dir,
		JetStreamMaxStore:  logBytes + ingest.MaxPoisonBytes + roomBeside,
		JetStreamMaxMemory: memory,
		// A power cut must not take back what an edge was told is stored.
		SyncAlways:             true,
		DisableJetStreamBanner: true,
	})
	if err != nil {
		return nil, fmt.Errorf("configuring the embedded NATS server: %w", err)
	}
	l := &serverLog{log: log.With("component", "nats")}
	ns.SetLoggerV2(l, false, false, false)
	ns.Start()
	if !ns.ReadyForConnections(startTimeout) {
		ns.Shutdown()
		ns.WaitForShutdown()
		return nil, fmt.Errorf("the embedded NATS server has not started: %w", l.last())
	}
	return ns, nil
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
func (l *serverLog) Warnf(format string, v ...any) { l.log.Warn(message(format, v)) }

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

func (l *serverLog) last() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fatal != nil {
		return l.fatal
	}
	return fmt.Errorf("it is not ready after %s", startTimeout)
}

func message(format string, v []any) string { return strings.TrimSpace(fmt.Sprintf(format, v...)) }
