package testenv

import "syscall"

// attributes makes the kernel wake the child when this process dies. The child watches its parent itself, but while it is
// paused (SIGSTOP) it cannot.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGCONT} }
