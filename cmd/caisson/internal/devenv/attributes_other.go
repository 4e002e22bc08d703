//go:build !linux

package devenv

import "syscall"

// attributes makes a child in a group of its own. Only Linux ends it with us when we are
// killed.
func attributes(lifetime Lifetime) *syscall.SysProcAttr {
	if lifetime == Detached {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true}
}

// runs reports whether a process is alive. Elsewhere than on Linux there is no cheap way
// to learn its program.
func runs(pid int, _ string) bool { return syscall.Kill(pid, 0) == nil }
