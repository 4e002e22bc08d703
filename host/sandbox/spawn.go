package sandbox

import (
	"os/exec"
	"runtime"
)

// starter starts a command.
type starter func(*exec.Cmd) error

// spawner starts every worker from one thread that lives as long as the sandbox does.
// The death signal that ends orphaned workers is sent when the *thread* that started
// them ends, and a Go program may end any other thread.
type spawner struct {
	// isolation is set before the first worker is started.
	isolation isolation
	requests  chan spawnRequest
	done      chan struct{}
}

// isolation says whether workers get namespaces of their own.
type isolation int

const (
	withNamespaces isolation = iota
	withoutNamespaces
)

type spawnRequest struct {
	cmd    *exec.Cmd
	result chan error
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan spawnRequest), done: make(chan struct{})}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for {
			select {
			case r := <-s.requests:
				r.result <- r.cmd.Start()
			case <-s.done:
				return
			}
		}
	}()
	return s
}

// start implements starter.
func (s *spawner) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = processAttributes(s.isolation)
	r := spawnRequest{cmd: cmd, result: make(chan error, 1)}
	select {
	case s.requests <- r:
		return <-r.result
	case <-s.done:
		return ErrClosed
	}
}

// close ends the thread. Workers must be gone before.
func (s *spawner) close() { close(s.done) }
