package services

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Redis is a redis-server process.
type Redis struct {
	*Process
	// Addr is host:port; Socket is a Unix socket of the same server.
	Addr   string
	Socket string
	// Dir holds its files: dump.rdb, appendonlydir.
	Dir string
}

// StartRedis runs the redis-server in the PATH until the test ends. By default it
// keeps nothing on disk; args are added to its command line, for example
// "--appendonly", "yes".
func StartRedis(t testing.TB, args ...string) *Redis {
	t.Helper()
	path := redisServer(t)
	// The path of a Unix socket has at most about 100 bytes; t.TempDir is longer.
	sockets, err := os.MkdirTemp("", "redis")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })

	r := &Redis{Dir: t.TempDir(), Socket: filepath.Join(sockets, "s")}
	r.Process = startOnFreePort(t, func(port int) *Process {
		r.Addr = local(port)
		all := append([]string{
			"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--unixsocket", r.Socket,
			"--dir", r.Dir, "--save", "",
		}, args...)
		return newProcess(t, "redis-server", path, r.Dir, all, func(ctx context.Context) error {
			return ping(ctx, "unix", r.Socket)
		})
	})
	return r
}

// URL is the address for clients.
func (r *Redis) URL() string { return "unix://" + r.Socket }

// redisServer returns the path of the redis-server in the PATH.
func redisServer(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		missing(t, "redis-server is not installed: %v", err)
	}
	return path
}

// ping reports whether a server has loaded its data and answers.
func ping(ctx context.Context, network, address string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline) // both kinds of sockets have deadlines
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	if strings.TrimSpace(line) != "+PONG" {
		return fmt.Errorf("redis-server answers %q", line)
	}
	return nil
}
