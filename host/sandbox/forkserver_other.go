//go:build !linux

package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

// forkServerArgument is the last argument of a program that is to be a fork server.
const forkServerArgument = WorkerArgument + "-fork-server"

// forkServer exists on Linux only: what it is for, namespaces, does too.
type forkServer struct{}

func startForkServer(func(*exec.Cmd) error, []string, time.Duration) (*forkServer, error) {
	return nil, errors.ErrUnsupported
}

func (*forkServer) start(string, []string, [3]*os.File) (child, error) {
	return nil, errors.ErrUnsupported
}

func (*forkServer) ended() bool { return true }
func (*forkServer) close()      {}

func serveForks() error { return errors.ErrUnsupported }
