package services

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// handedOut holds the ports that [FreePort] has returned. A server may take its
// port seconds later, and no other test of this process may get it until then.
var handedOut sync.Map

// FreePort returns a TCP port of the loopback interface that nobody listens on.
// It lies below the range that operating systems take for outgoing connections,
// so that a server which is killed and restarted finds its port free.
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

// startOnFreePort makes a process for one free port after another until it
// starts: between looking and listening somebody else may take a port.
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
