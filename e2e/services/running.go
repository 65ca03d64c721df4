package services

import "os"

// relaunch starts the process again, after killing it if it runs, and does not
// wait until it is ready: it may wait for another one itself.
func (p *process) relaunch() {
	p.t.Helper()
	p.kill()
	if err := p.launch(); err != nil {
		p.t.Fatal(err)
	}
}

// Relaunch is Restart without waiting until the server is ready.
func (n *NATS) Relaunch() { n.process.relaunch() }

// Relaunch is Restart without waiting until the server is ready.
func (r *Redis) Relaunch() { r.process.relaunch() }

// Relaunch is Restart without waiting until the program is ready.
func (p *Program) Relaunch() { p.process.relaunch() }

// running reports whether the process was started and has not ended, by itself
// or otherwise.
func (p *process) running() bool {
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

// Running reports whether the server was started and has not ended since.
func (n *NATS) Running() bool { return n.process.running() }

// Running reports whether the server was started and has not ended since.
func (r *Redis) Running() bool { return r.process.running() }

// Running reports whether the program was started and has not ended since.
func (p *Program) Running() bool { return p.process.running() }

// PID returns the process id of the program, which has to run.
func (p *Program) PID() int { return p.process.cmd.Process.Pid }

// Printed returns everything that the program has printed.
func (p *Program) Printed() string {
	p.process.t.Helper()
	data, err := os.ReadFile(p.process.log)
	if err != nil {
		p.process.t.Fatal(err)
	}
	return string(data)
}
