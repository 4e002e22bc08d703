package testenv

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes makes the kernel wake the child when this process dies. The child watches its parent itself, but while it is
// paused (SIGSTOP) it cannot.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGCONT} }

// awaitStopped returns once all threads of a child are stopped, which the kernel does in its own time after the signal was
// sent, or once the child has ended. What it learns stays for whoever waits for the child.
func awaitStopped(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
