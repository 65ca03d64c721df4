//go:build !linux

package services

import "os/exec"

// dieWithTest does nothing: only Linux supports it.
func dieWithTest(*exec.Cmd) {}
