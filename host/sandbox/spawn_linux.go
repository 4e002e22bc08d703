package sandbox

import (
	"os"
	"syscall"
)

// processAttributes puts a worker into a process group of its own, so that a signal
// for the parent's terminal is not one for it, and lets it die with its parent.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// killGroup kills a worker, and what it may have started if it was no worker.
func killGroup(p *os.Process) {
	_ = syscall.Kill(-p.Pid, syscall.SIGKILL)
	_ = p.Kill()
}
