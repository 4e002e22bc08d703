package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// starter starts a program with an empty environment and three files as its standard
// input, output and error. The files stay the caller's.
type starter func(command []string, streams [3]*os.File) (child, error)

// child is a program that has been started.
type child interface {
	// pid is its number. It may be another's once wait has returned.
	pid() int
	// kill ends it at once, and what it may have started. It does nothing to one that has
	// ended.
	kill()
	// wait returns how it ended, once it has. It is called once.
	wait() exitStatus
}

// exitStatus is how a program ended.
type exitStatus struct {
	// Code is what it returned, or -1 if a signal ended it.
	Code int `json:"code"`
	// Text is the same in words.
	Text string `json:"text"`
}

// String implements fmt.Stringer.
func (e exitStatus) String() string { return e.Text }

// isolation says how workers are started, the best way first.
type isolation int

const (
	// throughForkServer gives each worker namespaces of its own, and has a small process
	// make them, see [forkServer].
	throughForkServer isolation = iota
	// withNamespaces has this process make them.
	withNamespaces
	// withoutNamespaces is for systems that do not let us make any.
	withoutNamespaces
)

// spawner starts every worker from one thread that lives as long as the sandbox does.
// The death signal that ends orphaned workers is sent when the *thread* that started
// them ends, and a Go program may end any other thread.
type spawner struct {
	// isolation is set before the first worker is started.
	isolation isolation
	// program is what the fork server is started with, and timeout how long it may take to
	// greet and to answer.
	program  []string
	timeout  time.Duration
	requests chan spawnRequest
	done     chan struct{}

	mu     sync.Mutex
	server *forkServer
}

// errForkServer says that the fork server does not work as one.
var errForkServer = errors.New("the process that starts workers does not answer")

type spawnRequest struct {
	cmd    *exec.Cmd
	result chan error
}

func newSpawner(program []string, timeout time.Duration) *spawner {
	s := &spawner{program: program, timeout: timeout, requests: make(chan spawnRequest), done: make(chan struct{})}
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
func (s *spawner) start(command []string, streams [3]*os.File) (child, error) {
	cmd := exec.Command(command[0], command[1:]...) //nolint:noctx // a worker outlives the call it is started for; kill ends it
	cmd.Env = []string{}
	cmd.Dir = "/"
	if s.isolation == throughForkServer {
		if cmd.Err != nil {
			return nil, cmd.Err
		}
		c, err := s.fork(cmd, streams)
		if errors.Is(err, errForkServer) { // it has died since it was last heard of
			c, err = s.fork(cmd, streams)
		}
		return c, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = streams[0], streams[1], streams[2]
	cmd.SysProcAttr = processAttributes(s.isolation)
	if err := s.run(cmd); err != nil {
		return nil, err
	}
	return ownChild{cmd}, nil
}

// fork has the fork server start a command.
func (s *spawner) fork(cmd *exec.Cmd, streams [3]*os.File) (child, error) {
	server, err := s.running()
	if err != nil {
		return nil, err
	}
	return server.start(cmd.Path, cmd.Args, streams)
}

// running returns the fork server, and starts it if there is none, or none any more.
func (s *spawner) running() (*forkServer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil && !s.server.ended() {
		return s.server, nil
	}
	server, err := startForkServer(s.run, s.program, s.timeout)
	if err != nil {
		return nil, fmt.Errorf("start the process that starts workers: %w", err)
	}
	s.server = server
	return server, nil
}

// run starts a command from the thread of this spawner.
func (s *spawner) run(cmd *exec.Cmd) error {
	r := spawnRequest{cmd: cmd, result: make(chan error, 1)}
	select {
	case <-s.done:
		return ErrClosed
	default:
	}
	select {
	case s.requests <- r:
		return <-r.result
	case <-s.done:
		return ErrClosed
	}
}

// close ends the thread. Workers must be gone before.
func (s *spawner) close() {
	close(s.done)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		s.server.close()
	}
}

// ownChild is a child of this process.
type ownChild struct{ cmd *exec.Cmd }

func (c ownChild) pid() int { return c.cmd.Process.Pid }
func (c ownChild) kill()    { killGroup(c.cmd.Process) }

func (c ownChild) wait() exitStatus {
	// How it ended is in ProcessState; the error says the same.
	_ = c.cmd.Wait()
	return statusOf(c.cmd.ProcessState)
}

func statusOf(state *os.ProcessState) exitStatus {
	return exitStatus{Code: state.ExitCode(), Text: state.String()}
}
