package faults

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	// lease is long enough for a busy machine: whoever cannot renew it in two thirds of
	// the time ends, and is started again.
	lease = "3s"
	// takeover bounds how long another replica may take to lead.
	takeover = 30 * time.Second
	// restartPause is what a kubelet would wait at least.
	restartPause = 50 * time.Millisecond
)

// replica is an operator as a process, which is started again whenever it ends.
type replica struct {
	lane    *lane
	name    string
	dir     string
	home    *proxy
	log     logTail
	command *exec.Cmd
	ended   chan struct{}

	mu     sync.Mutex
	wanted bool
	starts int
}

// newReplica prepares one; it does not start it.
func newReplica(l *lane, name string) (*replica, error) {
	r := &replica{lane: l, name: name, dir: filepath.Join(l.dir, name)}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of a replica: %w", err)
	}
	var err error
	if r.home, err = newProxy(l, "home", l.home, r); err != nil {
		return nil, err
	}
	raw, err := r.home.kubeconfig(l.home.Kubeconfig, l.token)
	if err != nil {
		return nil, err
	}
	return r, os.WriteFile(filepath.Join(r.dir, "kubeconfig"), raw, 0o600)
}

// start runs it until stop is called.
func (r *replica) start(elect string) error {
	r.mu.Lock()
	r.wanted, r.ended = true, make(chan struct{})
	ended := r.ended
	r.mu.Unlock()
	if err := r.launch(elect); err != nil {
		close(ended)
		return err
	}
	go func() {
		defer close(ended)
		for {
			_ = r.command.Wait()
			time.Sleep(restartPause)
			r.mu.Lock()
			wanted := r.wanted
			if wanted {
				if err := r.launchLocked(elect); err != nil {
					wanted = false
				}
			}
			r.mu.Unlock()
			if !wanted {
				return
			}
		}
	}()
	return nil
}

func (r *replica) launch(elect string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.launchLocked(elect)
}

func (r *replica) launchLocked(elect string) error {
	command := exec.Command(r.lane.bench.operator, // It ends by stop.
		"--kubeconfig="+filepath.Join(r.dir, "kubeconfig"), "--namespace="+operatorNamespace, "--worker="+r.lane.relay,
		"--cache-dir="+filepath.Join(r.dir, "cache"), "--metrics-bind-address=0", "--health-probe-bind-address=0",
		"--leader-elect="+elect, "--leader-elect-lease="+lease, "--verbose")
	command.Stdout, command.Stderr = &r.log, &r.log
	command.SysProcAttr = attributes()
	fmt.Fprintf(&r.log, "---- %s starts\n", r.name)
	if err := command.Start(); err != nil {
		return fmt.Errorf("start the operator: %w", err)
	}
	r.command = command
	r.starts++
	return nil
}

func (r *replica) signal(s os.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.command != nil {
		_ = r.command.Process.Signal(s)
	}
}

// stop ends it for good.
func (r *replica) stop() {
	r.mu.Lock()
	ended := r.ended
	r.wanted = false
	r.mu.Unlock()
	if ended == nil {
		return
	}
	r.signal(syscall.SIGCONT)
	r.signal(syscall.SIGKILL)
	<-ended
}

// attributes ties a process to this one, if only its thread lives on; an operator that is
// left over would go on with clusters that are gone.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// kept is how much of a log is shown.
const kept = 64 << 10

// logTail keeps the end of what is written to it.
type logTail struct {
	mu   sync.Mutex
	tail bytes.Buffer
}

// Write implements io.Writer.
func (l *logTail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail.Write(p)
	if over := l.tail.Len() - kept; over > kept {
		l.tail.Next(over)
	}
	return len(p), nil
}

func (l *logTail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tail.String()
}

// reset begins anew, for the next run.
func (l *logTail) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail.Reset()
}

// leads takes note of who has the lease.
func (l *lane) leads(r *replica) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leader != r {
		l.leader = r
		l.leaders++
	}
}

func (l *lane) currentLeader() *replica {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leader
}

// killLeader kills the operator as a crash would. It is started again.
func (l *lane) killLeader() {
	if leader := l.currentLeader(); leader != nil {
		leader.signal(syscall.SIGKILL)
	}
}

// changeLeader stops the leader and waits until another replica leads. What it returns
// wakes the one that was stopped, which then learns that it leads no more.
func (l *lane) changeLeader() (resume func()) {
	old := l.currentLeader()
	if old == nil {
		return func() {}
	}
	old.signal(syscall.SIGSTOP)
	for deadline := time.Now().Add(takeover); l.currentLeader() == old && time.Now().Before(deadline); {
		time.Sleep(pollEvery)
	}
	return func() { old.signal(syscall.SIGCONT) }
}
