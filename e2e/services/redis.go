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
	// Addr is host:port; Socket is a Unix socket of the same server.
	Addr   string
	Socket string
	// Dir holds its files: dump.rdb, appendonlydir.
	Dir string

	process *process
}

// StartRedis runs the redis-server that is in the PATH until the test ends. By
// default it keeps nothing on disk; args are added to its command line, for
// example "--appendonly", "yes".
func StartRedis(t testing.TB, args ...string) *Redis {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		missing(t, "redis-server is not installed: %v", err)
	}
	// The path of a Unix socket has at most about 100 bytes; t.TempDir is longer.
	sockets, err := os.MkdirTemp("", "redis")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })

	r := &Redis{Dir: t.TempDir(), Socket: filepath.Join(sockets, "s")}
	r.process = startOnFreePort(t, func(port int) *process {
		r.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		all := append([]string{
			"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--unixsocket", r.Socket,
			"--dir", r.Dir, "--save", "",
		}, args...)
		return newProcess(t, "redis-server", path, r.Dir, all, r.ping)
	})
	return r
}

// URL is how a client names the server.
func (r *Redis) URL() string { return "unix://" + r.Socket }

// Kill ends the server as kill -9 does.
func (r *Redis) Kill() { r.process.kill() }

// Stop ends the server in good order.
func (r *Redis) Stop() {
	r.process.t.Helper()
	if err := r.process.stop(); err != nil {
		r.process.t.Fatal(err)
	}
}

// Restart starts the server again with what it has on disk, after killing it if
// it runs.
func (r *Redis) Restart() {
	r.process.t.Helper()
	if err := r.process.restart(); err != nil {
		r.process.t.Fatal(err)
	}
}

// ping reports whether the server has loaded its data and answers.
func (r *Redis) ping(ctx context.Context) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", r.Socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline) // a Unix socket has deadlines
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
