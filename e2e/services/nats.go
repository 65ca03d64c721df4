package services

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

const natsModule = "github.com/nats-io/nats-server/v2"

// NATS is a nats-server process with JetStream.
type NATS struct {
	*Process
	// URL is the address for clients. It stays the same over restarts.
	URL string
	// Dir holds the streams.
	Dir string
	// Name is the server's name in its cluster.
	Name string
}

// StartNATS runs a nats-server of the version in go.mod until the test ends. It
// syncs every message to disk before it acknowledges it. config adds lines to its
// configuration.
func StartNATS(t testing.TB, config ...string) *NATS {
	t.Helper()
	return StartNATSIn(t, t.TempDir(), config...)
}

// StartNATSIn is [StartNATS] with the directory for the streams.
func StartNATSIn(t testing.TB, dir string, config ...string) *NATS {
	t.Helper()
	var n *NATS
	startOnFreePort(t, func(port int) *Process {
		n = newNATS(t, port, dir, config...)
		return n.Process
	})
	return n
}

// StartNATSCluster runs so many nats-servers as one cluster until the test ends. A
// stream needs 3 replicas to survive the loss of one.
func StartNATSCluster(t testing.TB, size int) []*NATS {
	t.Helper()
	addresses, routes := make([]string, size), make([]string, size)
	for i := range size {
		addresses[i] = local(FreePort(t))
		routes[i] = strconv.Quote("nats-route://" + addresses[i])
	}
	nodes := make([]*NATS, size)
	for i := range nodes {
		nodes[i] = newNATS(t, FreePort(t), t.TempDir(),
			fmt.Sprintf("cluster { name: test, listen: %q, routes: [%s] }", addresses[i], strings.Join(routes, ", ")))
		nodes[i].Relaunch() // none is ready without the others
	}
	for _, n := range nodes {
		if err := n.await(); err != nil {
			t.Fatal(err)
		}
	}
	return nodes
}

// newNATS returns a nats-server without starting it.
func newNATS(t testing.TB, port int, dir string, config ...string) *NATS {
	t.Helper()
	path, err := natsServer()
	if err != nil {
		missing(t, "nats-server cannot be built: %v", err)
	}
	own, address, monitor := t.TempDir(), local(port), local(FreePort(t))
	name := "server-" + strconv.Itoa(port)
	// By default it promises only as much storage as the disk has room for.
	text := fmt.Sprintf("server_name: %s\nlisten: %q\nhttp: %q\njetstream { store_dir: %q, sync_interval: always, max_file_store: 100GB }\n%s\n",
		name, address, monitor, dir, strings.Join(config, "\n"))
	file := filepath.Join(own, "nats.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return &NATS{
		URL: "nats://" + address, Dir: dir, Name: name,
		Process: newProcess(t, "nats-server", path, own, []string{"-c", file}, func(ctx context.Context) error {
			return natsReady(ctx, address, monitor)
		}),
	}
}

// natsReady reports whether the server answers clients and has loaded its streams.
func natsReady(ctx context.Context, addr, monitor string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline) // a TCP connection has deadlines
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
		return err
	} else if !strings.HasPrefix(line, "INFO ") {
		return fmt.Errorf("nats-server greets with %q", line)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+monitor+"/healthz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1000)) // only for the message
		return fmt.Errorf("nats-server is not healthy: %s %s", resp.Status, body)
	}
	return nil
}

// natsServer returns the path of a nats-server of the version in go.mod. It is
// built once per version and Go release and kept in the user's cache directory.
func natsServer() (string, error) {
	version, err := goCommand("list", "-m", "-f", "{{.Version}}", natsModule)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "hotboard-test")
	path := filepath.Join(dir, "nats-server-"+version+"-"+runtime.Version())
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	// Two tests may build at once, each in a directory of its own; the last one stays.
	tmp, err := os.MkdirTemp(dir, "build")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	built := filepath.Join(tmp, "nats-server")
	if _, err := goCommand("build", "-trimpath", "-o", built, natsModule); err != nil {
		return "", err
	}
	return path, os.Rename(built, path)
}

func goCommand(args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			return "", fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
		}
		return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
