package services

import (
	"os/exec"
	"syscall"
)

// dieWithTest has the kernel end the process when this one ends, however it
// does: a test that is killed or panics cleans nothing up.
func dieWithTest(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
