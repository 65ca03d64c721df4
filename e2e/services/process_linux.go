package services

import (
	"os/exec"
	"syscall"
)

// dieWithTest makes the kernel kill the process when this one ends in any way: a
// test that is killed or panics cleans nothing up.
func dieWithTest(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
