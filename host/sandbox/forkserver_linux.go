package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// forkServer starts workers in place of an operator. Linux makes a user namespace only
// for a process that is forked with a copy of its parent's page tables, and those of an
// operator grow with its caches: 8 ms for each 100 MiB that are resident, and a fault for
// each page that is written after it. The fork server is a process of some 10 MiB that
// only does this, one start after the other. It dies with the operator, and its workers
// die with it; the next start begins another one.
//
// The two speak JSON over a socket of packets, the descriptors of a worker's streams
// beside it. Neither is hostile to the other: no guest runs in a fork server.
type forkServer struct {
	conn    *net.UnixConn
	process *exec.Cmd
	timeout time.Duration
	gone    chan struct{} // closed once nothing can be started any more

	mu       sync.Mutex
	last     uint32
	children map[uint32]*forkedChild
}

const (
	// forkServerArgument is the last argument of a program that is to be a fork server.
	forkServerArgument = WorkerArgument + "-fork-server"
	// maxForkMessage is of a command with its arguments, as text.
	maxForkMessage = 64 * kib
)

// forkRequest asks for a start or, without a path, for a kill.
type forkRequest struct {
	ID   uint32   `json:"id"`
	Path string   `json:"path,omitempty"`
	Args []string `json:"args,omitempty"`
}

// forkReply says that a child was started, was not, or has ended. The first of all, with
// the number 0, is a greeting.
type forkReply struct {
	ID    uint32        `json:"id"`
	PID   int           `json:"pid,omitempty"`
	Errno syscall.Errno `json:"errno,omitempty"`
	Error string        `json:"error,omitempty"`
	Exit  *exitStatus   `json:"exit,omitempty"`
}

// startForkServer starts the program as a fork server and waits for its greeting.
func startForkServer(run func(*exec.Cmd) error, program []string, timeout time.Duration) (*forkServer, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer func() { _ = theirs.Close() }()
	conn, err := unixConn(ours)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program[0], append(program[1:len(program):len(program)], forkServerArgument)...) //nolint:noctx // close ends it
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.Stdin = theirs
	cmd.SysProcAttr = processAttributes(withoutNamespaces)
	if err := run(cmd); err != nil {
		_ = conn.Close()
		return nil, err
	}
	f := &forkServer{conn: conn, process: cmd, timeout: timeout, gone: make(chan struct{}), children: map[uint32]*forkedChild{}}
	go f.bury()
	if err := f.greeted(); err != nil {
		f.close()
		return nil, err
	}
	go f.listen()
	return f, nil
}

// greeted waits for the first packet.
func (f *forkServer) greeted() error {
	if err := f.conn.SetReadDeadline(time.Now().Add(f.timeout)); err != nil {
		return fmt.Errorf("wait for a greeting: %w", err)
	}
	reply, err := f.read(make([]byte, maxForkMessage))
	if err != nil {
		return fmt.Errorf("wait for a greeting: %w", err)
	}
	if reply.PID == 0 {
		return fmt.Errorf("wait for a greeting: %w", errForkServer)
	}
	return f.conn.SetReadDeadline(time.Time{})
}

func (f *forkServer) read(buffer []byte) (forkReply, error) {
	var reply forkReply
	n, err := f.conn.Read(buffer)
	if err != nil {
		return reply, err
	}
	return reply, json.Unmarshal(buffer[:n], &reply)
}

// bury waits for the end of the process.
func (f *forkServer) bury() {
	_ = f.process.Wait() // however it ended: what matters is that it did
	close(f.gone)
	_ = f.conn.Close()
}

// listen hands replies out until there are none any more. The children of a fork server
// that has ended are dead.
func (f *forkServer) listen() {
	buffer := make([]byte, maxForkMessage)
	for {
		reply, err := f.read(buffer)
		if err != nil {
			break
		}
		f.mu.Lock()
		c := f.children[reply.ID]
		if reply.PID == 0 {
			delete(f.children, reply.ID)
		}
		f.mu.Unlock()
		switch {
		case c == nil:
		case reply.Exit != nil:
			c.ended <- *reply.Exit
		default:
			c.started <- reply
		}
	}
	f.close()
	<-f.gone
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.children {
		c.ended <- exitStatus{Code: -1, Text: "died with the process that had started it"}
	}
	clear(f.children)
}

// start asks for a worker.
func (f *forkServer) start(path string, args []string, streams [3]*os.File) (child, error) {
	c := &forkedChild{server: f, started: make(chan forkReply, 1), ended: make(chan exitStatus, 1)}
	f.mu.Lock()
	f.last++
	c.id = f.last
	f.children[c.id] = c
	f.mu.Unlock()
	rights := unix.UnixRights(int(streams[0].Fd()), int(streams[1].Fd()), int(streams[2].Fd()))
	err := f.send(forkRequest{ID: c.id, Path: path, Args: args}, rights)
	runtime.KeepAlive(streams)
	if err != nil {
		f.mu.Lock()
		delete(f.children, c.id)
		f.mu.Unlock()
		return nil, err
	}
	reply, err := f.answer(c, path)
	if err != nil {
		return nil, err
	}
	switch {
	case reply.Errno != 0:
		return nil, &os.PathError{Op: "fork/exec", Path: path, Err: reply.Errno}
	case reply.PID == 0:
		return nil, fmt.Errorf("start %s: %s", path, reply.Error)
	}
	c.number = reply.PID
	return c, nil
}

// looks is how often somebody looks before a wait is over. A machine that was paused, which
// is what happens to virtual ones, has looked once in the meantime, however long that was:
// a fork server that had no time to answer is not one that hangs.
const looks = 10

// answer waits for the answer to a start.
func (f *forkServer) answer(c *forkedChild, path string) (forkReply, error) {
	ticker := time.NewTicker(f.timeout / looks)
	defer ticker.Stop()
	for range looks {
		select {
		case reply := <-c.started:
			return reply, nil
		case <-f.gone:
			return forkReply{}, fmt.Errorf("start %s: %w", path, errForkServer)
		case <-ticker.C:
		}
	}
	// It may be in the middle of it: what it would start dies with it.
	f.close()
	<-f.gone
	return forkReply{}, fmt.Errorf("start %s: %w within %s", path, errForkServer, f.timeout)
}

func (f *forkServer) send(request forkRequest, rights []byte) error {
	packet, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode a request: %w", err)
	}
	if len(packet) > maxForkMessage {
		return fmt.Errorf("start %s: %w", request.Path, syscall.E2BIG)
	}
	if _, _, err := f.conn.WriteMsgUnix(packet, rights, nil); err != nil {
		f.close()
		<-f.gone
		return fmt.Errorf("%w: %w", errForkServer, err)
	}
	return nil
}

// ended reports whether the process has.
func (f *forkServer) ended() bool {
	select {
	case <-f.gone:
		return true
	default:
		return false
	}
}

// close ends the process at once, and what it has started. It is heard by one that is
// stopped, too.
func (f *forkServer) close() { _ = f.process.Process.Kill() } // it fails if it has ended

// forkedChild is a worker that a fork server has started.
type forkedChild struct {
	server  *forkServer
	id      uint32
	number  int
	started chan forkReply
	ended   chan exitStatus
}

func (c *forkedChild) pid() int         { return c.number }
func (c *forkedChild) wait() exitStatus { return <-c.ended }

func (c *forkedChild) kill() {
	if c.server.send(forkRequest{ID: c.id}, nil) != nil {
		return // the fork server has ended, and its children have with it
	}
	c.confirm(looks)
}

// confirm ends a fork server that has not told of the child's end when it was looked for
// that often.
func (c *forkedChild) confirm(left int) {
	time.AfterFunc(c.server.timeout/looks, func() {
		c.server.mu.Lock()
		_, alive := c.server.children[c.id]
		c.server.mu.Unlock()
		switch {
		case !alive:
		case left > 1:
			c.confirm(left - 1)
		default: // nobody has listened
			c.server.close()
		}
	})
}

// socketPair returns two ends of a socket of packets.
func socketPair() (ours, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open a pair of sockets: %w", err)
	}
	return os.NewFile(uintptr(pair[0]), "fork server"), os.NewFile(uintptr(pair[1]), "operator"), nil
}

// unixConn turns a file into a connection, and closes the file.
func unixConn(file *os.File) (*net.UnixConn, error) {
	defer func() { _ = file.Close() }()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("use a socket: %w", err)
	}
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("a socket of kind %T", conn), conn.Close())
	}
	return unixConn, nil
}
