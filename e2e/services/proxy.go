package services

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy forwards TCP connections to a server over a simulated bad network.
type Proxy struct {
	// Addr is host:port for clients to connect to.
	Addr string

	target string
	delay  atomic.Int64 // in nanoseconds
	silent atomic.Bool  // new connections are half-open from the start
	gate   atomic.Pointer[gate]

	mu    sync.Mutex
	links map[*link]struct{}
}

// link is a client's connection to the proxy and the proxy's to the server.
type link struct {
	client, server net.Conn
	halfOpen       atomic.Bool
}

// chunk is data with the time at which it arrives.
type chunk struct {
	data []byte
	due  time.Time
}

// gate holds data with a certain text until it is open.
type gate struct {
	text []byte
	held atomic.Int64 // chunks
	open chan struct{}
}

// Bounds of the data on its way in one direction of a link.
const (
	chunkBytes = 64 << 10
	chunks     = 1024
)

// StartProxy forwards connections to the server at an address until the test ends.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", local(0))
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, links: map[*link]struct{}{}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // the listener is closed
			}
			running.Go(func() { p.pass(ctx, client) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // ends Accept
		cancel()
		running.Wait()
	})
	return p
}

// Delay delays all further data by d in both directions. The data arrives even if
// the sender closes the connection meanwhile.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Hold keeps back all further data with a certain text, and everything after it on
// its connection, until Release.
func (p *Proxy) Hold(text string) {
	p.gate.Store(&gate{text: []byte(text), open: make(chan struct{})})
}

// Held returns how many times data was held.
func (p *Proxy) Held() int { return int(p.gate.Load().held.Load()) }

// Release lets go of the data that Hold has kept back.
func (p *Proxy) Release() { close(p.gate.Swap(nil).open) }

// Reset ends all connections with an RST, like a router after a restart.
func (p *Proxy) Reset() {
	for _, l := range p.open() {
		l.reset()
	}
}

// Silence turns all connections into half-open ones, like a cut cable: they stay
// open and never carry anything again. Until Speak, new connections are accepted
// and are silent too.
func (p *Proxy) Silence() {
	p.silent.Store(true)
	for _, l := range p.open() {
		l.halfOpen.Store(true)
	}
}

// Speak makes later connections work.
func (p *Proxy) Speak() { p.silent.Store(false) }

func (p *Proxy) open() (links []*link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		links = append(links, l)
	}
	return links
}

// pass serves one connection to its end.
func (p *Proxy) pass(ctx context.Context, client net.Conn) {
	var d net.Dialer
	server, err := d.DialContext(ctx, "tcp", p.target)
	if err != nil {
		_ = client.Close() // like a server that has just gone
		return
	}
	l := &link{client: client, server: server}
	p.mu.Lock()
	p.links[l] = struct{}{}
	l.halfOpen.Store(p.silent.Load()) // under the lock: Silence finds the link or has set silent
	p.mu.Unlock()
	stop := context.AfterFunc(ctx, l.reset)
	var directions sync.WaitGroup
	directions.Go(func() { p.carry(ctx, l, server, client) })
	directions.Go(func() { p.carry(ctx, l, client, server) })
	directions.Wait()
	stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// carry forwards one direction of a link, and then closes the receiving side.
func (p *Proxy) carry(ctx context.Context, l *link, to, from net.Conn) {
	queue := make(chan chunk, chunks)
	var writer sync.WaitGroup
	writer.Go(func() {
		for c := range queue {
			select {
			case <-time.After(time.Until(c.due)):
			case <-ctx.Done():
			}
			p.gate.Load().pass(ctx, c.data)
			if !l.halfOpen.Load() {
				_, _ = to.Write(c.data) // if that side is closed, the other direction ends as well
			}
		}
	})
	for {
		buf := make([]byte, chunkBytes)
		n, err := from.Read(buf)
		queue <- chunk{buf[:n], time.Now().Add(time.Duration(p.delay.Load()))}
		if err != nil {
			break
		}
	}
	close(queue)
	writer.Wait()
	if l.halfOpen.Load() {
		<-ctx.Done() // a cut cable does not carry the end of a connection either
	}
	_ = to.Close() // the other direction may have closed it
}

// pass waits for the gate to open if data must not pass. Without a gate it returns
// at once.
func (g *gate) pass(ctx context.Context, data []byte) {
	if g == nil || !bytes.Contains(data, g.text) {
		return
	}
	g.held.Add(1)
	select {
	case <-g.open:
	case <-ctx.Done():
	}
}

// reset closes both connections so that they send an RST.
func (l *link) reset() {
	for _, c := range []net.Conn{l.client, l.server} {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // it may be closed already
		}
		_ = c.Close()
	}
}
