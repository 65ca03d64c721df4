package services

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// handedOut holds the ports that [FreePort] has returned. A server may open its
// port seconds later; until then no other test of this process may get it.
var handedOut sync.Map

// FreePort returns a free TCP port of the loopback interface. It lies below the
// range that operating systems use for outgoing connections, so that a server which
// is killed and restarted finds its port free.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 10_000 + rand.IntN(20_000)
		if _, taken := handedOut.LoadOrStore(port, true); taken {
			continue
		}
		l, err := net.Listen("tcp", local(port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return port
	}
	t.Fatal("no free port on 127.0.0.1 between 10000 and 30000")
	return 0
}

// local returns the loopback address with a port.
func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// startOnFreePort creates a process for one free port after another until it
// starts: another program may take a port between the check and the listening.
func startOnFreePort(t testing.TB, newProcess func(port int) *Process) *Process {
	t.Helper()
	var err error
	for range 5 {
		p := newProcess(FreePort(t))
		if err = p.start(); err == nil {
			return p
		}
	}
	t.Fatal(err)
	return nil
}
