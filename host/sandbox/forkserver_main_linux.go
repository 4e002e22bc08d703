package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// forking is the life of a fork server.
type forking struct {
	conn *net.UnixConn

	mu sync.Mutex
	// alive are the children that have not been waited for, so that their numbers are theirs.
	alive map[uint32]*os.Process
}

// serveForks starts what is asked for on the socket that is standard input, until that
// is closed. Every child is started from the calling thread, and dies with it.
func serveForks() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	runtime.GOMAXPROCS(1)
	conn, err := unixConn(os.Stdin)
	if err != nil {
		return err
	}
	f := &forking{conn: conn, alive: map[uint32]*os.Process{}}
	if err := f.reply(forkReply{PID: os.Getpid()}); err != nil {
		return err
	}
	packet, control := make([]byte, maxForkMessage), make([]byte, unix.CmsgSpace(3*4))
	for {
		n, controls, _, _, err := conn.ReadMsgUnix(packet, control)
		if errors.Is(err, io.EOF) || err == nil && n == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		streams, err := receivedFiles(control[:controls])
		if err != nil {
			return err
		}
		var request forkRequest
		if err := json.Unmarshal(packet[:n], &request); err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		if request.Path == "" {
			f.kill(request.ID)
			continue
		}
		err = f.reply(f.start(request, streams))
		closeAll(streams...)
		if err != nil {
			return err
		}
	}
}

func (f *forking) reply(reply forkReply) error {
	packet, err := json.Marshal(reply)
	if err != nil {
		return fmt.Errorf("encode a reply: %w", err)
	}
	if _, err := f.conn.Write(packet); err != nil {
		return fmt.Errorf("send a reply: %w", err)
	}
	return nil
}

// start starts a child and reports its end when it comes.
func (f *forking) start(request forkRequest, streams []*os.File) forkReply {
	process, err := os.StartProcess(request.Path, request.Args, &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: streams, Sys: processAttributes(withNamespaces),
	})
	if err != nil {
		reply := forkReply{ID: request.ID, Error: err.Error()}
		errors.As(err, &reply.Errno)
		return reply
	}
	f.mu.Lock()
	f.alive[request.ID] = process
	f.mu.Unlock()
	go f.await(request.ID, process)
	return forkReply{ID: request.ID, PID: process.Pid}
}

// await reports how a child ended. Its number is nobody's until it has been waited for,
// and nobody kills it after that.
func (f *forking) await(id uint32, process *os.Process) {
	for {
		err := unix.Waitid(unix.P_PID, process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, syscall.EINTR) {
			break // an error of another kind is told by Wait as well
		}
	}
	f.mu.Lock()
	delete(f.alive, id)
	f.mu.Unlock()
	exit := exitStatus{Code: -1, Text: "nobody knows how it ended"}
	if state, err := process.Wait(); err == nil {
		exit = statusOf(state)
	}
	// A parent that cannot be told is gone.
	_ = f.reply(forkReply{ID: id, Exit: &exit})
}

func (f *forking) kill(id uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if process := f.alive[id]; process != nil {
		killGroup(process)
	}
}

// receivedFiles returns the files that came with a packet.
func receivedFiles(control []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, fmt.Errorf("read the files of a request: %w", err)
	}
	var files []*os.File
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return nil, fmt.Errorf("read the files of a request: %w", err)
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "stream"))
		}
	}
	return files, nil
}
