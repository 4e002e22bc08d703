package testenv

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	// keptBytes bounds what is kept of the output of a process.
	keptBytes = 32 << 10

	// stopPatience is how long a process may take to end when asked, before it is killed. devcluster takes half a second.
	stopPatience = 10 * time.Second
)

// process is a running devcluster.
type process struct {
	command *exec.Cmd
	output  *head
	errors  *head
	// exited is closed when the process has ended.
	exited chan struct{}
}

// spawn starts the program at path, which will end with this process.
func spawn(path string) (*process, error) {
	p := &process{output: newHead(), errors: newHead(), exited: make(chan struct{})}
	p.command = exec.Command(path, "--parent-pid", strconv.Itoa(os.Getpid())) //nolint:noctx // ends by stop, or with this process
	p.command.Stdout, p.command.Stderr = p.output, p.errors
	p.command.SysProcAttr = attributes()

	started := make(chan error)
	go func() {
		// To the kernel, a child's parent is the thread that started it. This one must live as long as the child, or the
		// child is told of a death that did not happen.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()

		err := p.command.Start()
		started <- err
		if err == nil {
			_ = p.command.Wait() // how it ended is in ProcessState
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}

	return p, nil
}

// signal sends a signal, unless the process has ended.
func (p *process) signal(signal syscall.Signal) error {
	select {
	case <-p.exited:
		return os.ErrProcessDone
	default:
		return p.command.Process.Signal(signal)
	}
}

// stop ends the process and returns when it has ended: gently, or by force if that takes too long.
func (p *process) stop() {
	_ = p.signal(syscall.SIGTERM)
	_ = p.signal(syscall.SIGCONT) // a paused process would not see the first one

	select {
	case <-p.exited:
	case <-time.After(stopPatience):
		p.kill()
	}
}

// kill ends the process by force and returns when it has ended.
func (p *process) kill() {
	_ = p.signal(syscall.SIGKILL)
	<-p.exited
}

// head keeps the beginning of what is written to it.
type head struct {
	mutex sync.Mutex
	kept  bytes.Buffer
	// line is closed once a whole line was written.
	line chan struct{}
}

func newHead() *head { return &head{line: make(chan struct{})} }

// Write takes all and keeps what fits.
func (h *head) Write(data []byte) (int, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()

	hadLine := bytes.ContainsRune(h.kept.Bytes(), '\n')
	h.kept.Write(data[:min(len(data), keptBytes-h.kept.Len())])
	if !hadLine && bytes.ContainsRune(h.kept.Bytes(), '\n') {
		close(h.line)
	}

	return len(data), nil
}

// firstLine returns the first line, or all that there is of it.
func (h *head) firstLine() []byte {
	h.mutex.Lock()
	defer h.mutex.Unlock()

	line, _, _ := bytes.Cut(h.kept.Bytes(), []byte("\n"))

	return bytes.Clone(line)
}

// String returns what was kept.
func (h *head) String() string {
	h.mutex.Lock()
	defer h.mutex.Unlock()

	return h.kept.String()
}
