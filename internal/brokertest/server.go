// Package brokertest runs a NATS server inside a test, and talks to it like an
// edge.
package brokertest

import (
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Patience is how long tests wait for an expected event.
const Patience = 30 * time.Second

// Server is a NATS server with JetStream. It keeps its port and directory when it
// is stopped and started again.
type Server struct {
	t    testing.TB
	Dir  string
	port int
	ns   *server.Server
}

// NewServer starts a server that ends with the test.
func NewServer(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, Dir: t.TempDir(), port: server.RANDOM_PORT}
	t.Cleanup(s.Stop)
	s.Start()
	return s
}

// Start starts a server that was stopped.
func (s *Server) Start() {
	s.t.Helper()
	ns, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: s.port, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: s.Dir, JetStreamMaxStore: 8 << 30, JetStreamMaxMemory: 64 << 20,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ns.Start()
	if !ns.ReadyForConnections(Patience) {
		s.t.Fatal("the NATS server does not come up")
	}
	s.ns = ns
	s.port = ns.Addr().(*net.TCPAddr).Port
}

// Stop stops the server; its data stays.
func (s *Server) Stop() {
	if s.ns != nil {
		s.ns.Shutdown()
		s.ns.WaitForShutdown()
		s.ns = nil
	}
}

// URL is where the server listens.
func (s *Server) URL() string { return "nats://127.0.0.1:" + strconv.Itoa(s.port) }

// Connect returns a connection that outlives restarts of the server and ends
// with the test.
func (s *Server) Connect() *nats.Conn {
	s.t.Helper()
	nc, err := nats.Connect(s.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond),
		nats.ReconnectBufSize(-1), nats.RetryOnFailedConnect(true))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	return nc
}

// JetStream returns JetStream over a connection of its own.
func (s *Server) JetStream() jetstream.JetStream {
	s.t.Helper()
	js, err := jetstream.New(s.Connect())
	if err != nil {
		s.t.Fatal(err)
	}
	return js
}
