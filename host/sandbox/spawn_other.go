//go:build !linux

package sandbox

import (
	"os"
	"syscall"
)

// processAttributes has nothing to offer that all systems know.
func processAttributes(isolation) *syscall.SysProcAttr { return nil }

// killGroup kills a worker.
func killGroup(p *os.Process) { _ = p.Kill() }
