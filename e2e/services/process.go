// Package services starts the servers that tests need, as real processes with
// their data in a directory of the test, and kills them as hard as the test
// wishes. It imports nothing but the standard library.
package services

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// RequireEnv is the environment variable that turns a missing server from a
// skipped test into a failed one.
const RequireEnv = "HOTBOARD_REQUIRE_SERVICES"

// How long a server may take to start and to stop.
const (
	startTimeout = 30 * time.Second
	stopTimeout  = 30 * time.Second
)

// missing ends the test: a server that it needs is not to be had.
func missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(RequireEnv) == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format+" (set "+RequireEnv+"=1 to make this an error)", args...)
}

// process is a server that can be started again and again with the same
// arguments.
type process struct {
	t    testing.TB
	name string
	path string
	args []string
	log  string
	// ready reports why the server does not answer yet, or nil.
	ready func(ctx context.Context) error

	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd has ended
}

// newProcess returns a process that is not started, and cleans up after it when
// the test ends. What it prints is shown when the test fails.
func newProcess(t testing.TB, name, path, dir string, args []string, ready func(context.Context) error) *process {
	p := &process{t: t, name: name, path: path, args: args, log: filepath.Join(dir, name+".log"), ready: ready}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s printed:\n%s", name, p.tail())
		}
	})
	return p
}

// launch runs the process.
func (p *process) launch() error {
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(p.path, p.args...)
	cmd.Stdout, cmd.Stderr = out, out
	dieWithTest(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // however it ended, it is gone
		close(exited)
	}()
	p.cmd, p.exited = cmd, exited
	return nil
}

// start runs the process and waits until it is ready.
func (p *process) start() error {
	if err := p.launch(); err != nil {
		return err
	}
	cmd, exited := p.cmd, p.exited
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := p.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-exited:
			return fmt.Errorf("%s ended while it was starting (%s); it printed:\n%s", p.name, cmd.ProcessState, p.tail())
		case <-ctx.Done():
			p.kill()
			return fmt.Errorf("%s is not ready after %v: %w; it printed:\n%s", p.name, startTimeout, err, p.tail())
		case <-tick.C:
		}
	}
}

// kill ends the process without warning and waits until it is gone. A process
// that does not run is left as it is.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.exited
	p.cmd = nil
}

// stop asks the process to end and waits until it has.
func (p *process) stop() error {
	if p.cmd == nil {
		return nil
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping %s: %w", p.name, err)
	}
	select {
	case <-p.exited:
		p.cmd = nil
		return nil
	case <-time.After(stopTimeout):
		p.kill()
		return fmt.Errorf("%s did not stop within %v; it printed:\n%s", p.name, stopTimeout, p.tail())
	}
}

// restart starts the process again. The port that it had may be taken for a
// moment by a connection that is closing.
func (p *process) restart() error {
	p.kill()
	var err error
	for range 3 {
		if err = p.start(); err == nil {
			return nil
		}
	}
	return err
}

// tail returns the end of what the process has printed.
func (p *process) tail() []byte {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	if lines := bytes.Split(data, []byte("\n")); len(lines) > 40 {
		return bytes.Join(lines[len(lines)-40:], []byte("\n"))
	}
	return data
}

// FreePort returns a TCP port of the loopback interface that nobody listens on.
// It lies below the range that operating systems take for outgoing connections,
// so that a server which is killed and restarted finds its port free.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 10_000 + rand.IntN(20_000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
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

// startOnFreePort makes a process for one free port after another until it
// starts: between looking and listening somebody else may take a port.
func startOnFreePort(t testing.TB, newProcess func(port int) *process) *process {
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
