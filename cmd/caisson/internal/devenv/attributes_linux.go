package devenv

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// attributes makes a child that dies with us unless the environment is detached.
func attributes(lifetime Lifetime) *syscall.SysProcAttr {
	if lifetime == Detached {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// runs reports whether a process is alive and is the program. PIDs are reused.
func runs(pid int, program string) bool {
	target, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && strings.TrimSuffix(target, " (deleted)") == program
}
