// Package services starts the servers for tests, as real processes with their data
// in a directory of the test, and kills them in any way a test needs. It imports
// nothing but the standard library.
package services

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// missing ends the test, because a server is not installed.
func missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(RequireEnv) == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format+" (set "+RequireEnv+"=1 to make this an error)", args...)
}

// Process is a server that can be started again and again with the same
// arguments. One goroutine at a time may use it.
type Process struct {
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

// newProcess returns a process without starting it, and cleans up when the test
// ends. A failed test shows the process's output.
func newProcess(t testing.TB, name, path, dir string, args []string, ready func(context.Context) error) *Process {
	p := &Process{t: t, name: name, path: path, args: args, log: filepath.Join(dir, name+".log"), ready: ready}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s printed:\n%s", name, p.tail())
		}
	})
	return p
}

// Kill ends the process like kill -9 and waits until it is gone. It does nothing
// when the process is not running.
func (p *Process) Kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.exited
	p.cmd = nil
}

// Stop ends the process gracefully.
func (p *Process) Stop() {
	p.t.Helper()
	if p.cmd == nil {
		return
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatalf("stopping %s: %v", p.name, err)
	}
	select {
	case <-p.exited:
		p.cmd = nil
	case <-time.After(stopTimeout):
		p.Kill()
		p.t.Fatalf("%s did not stop within %v; it printed:\n%s", p.name, stopTimeout, p.tail())
	}
}

// Restart kills the process if it is running, starts it again with the data on its
// disk, and waits until it is ready.
func (p *Process) Restart() {
	p.t.Helper()
	p.Kill()
	var err error
	for range 3 { // a connection that is closing may hold the port for a moment
		if err = p.start(); err == nil {
			return
		}
	}
	p.t.Fatal(err)
}

// Relaunch is Restart without waiting until the process is ready, which may depend
// on another process.
func (p *Process) Relaunch() {
	p.t.Helper()
	p.Kill()
	if err := p.launch(); err != nil {
		p.t.Fatal(err)
	}
}

// Pause stops the process like SIGSTOP until Resume.
func (p *Process) Pause() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
}

// Resume lets a paused process go on.
func (p *Process) Resume() {
	p.t.Helper()
	p.signal(syscall.SIGCONT)
}

func (p *Process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("sending %v to %s: %v", s, p.name, err)
	}
}

// Running reports whether the process was started and has not ended since.
func (p *Process) Running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// PID returns the process id. The process must be running.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Printed returns all output of the process, over all restarts.
func (p *Process) Printed() string {
	p.t.Helper()
	data, err := os.ReadFile(p.log)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(data)
}

// launch runs the process.
func (p *Process) launch() error {
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
func (p *Process) start() error {
	if err := p.launch(); err != nil {
		return err
	}
	return p.await()
}

// await waits until the launched process is ready.
func (p *Process) await() error {
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
			p.Kill()
			return fmt.Errorf("%s is not ready after %v: %w; it printed:\n%s", p.name, startTimeout, err, p.tail())
		case <-tick.C:
		}
	}
}

// tail returns the end of the process's output.
func (p *Process) tail() []byte {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	if lines := bytes.Split(data, []byte("\n")); len(lines) > 40 {
		return bytes.Join(lines[len(lines)-40:], []byte("\n"))
	}
	return data
}
