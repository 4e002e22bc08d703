package devenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// stopGrace is how long a process gets after SIGTERM. Control planes need about a
// second.
const stopGrace = 10 * time.Second

// Process is one running program.
type Process struct {
	// Name is unique in the environment.
	Name string `json:"name"`
	PID  int    `json:"pid"`
	// Program is the path that was started. A process with another one at PID is not ours.
	Program string `json:"program"`
	// Log is the file with its output.
	Log string `json:"log"`
	// Stage is when it is ended: processes of a higher one use those of lower ones.
	Stage int `json:"stage"`

	ended chan struct{}
}

// The stages.
const (
	// stageServer are control planes and registries.
	stageServer = iota
	// stageUser are operators, which give up their leases when they end.
	stageUser
)

// command says what to run.
type command struct {
	name, program string
	args, env     []string
	logDir        string
	lifetime      Lifetime
	stage         int
}

// start runs a program with its output in a log file, in a process group of its own, so
// that Ctrl-C reaches it through us and in order.
func start(c command) (*Process, error) {
	program, err := resolve(c.program)
	if err != nil {
		return nil, fmt.Errorf("find the program of %s: %w", c.name, err)
	}
	logPath := filepath.Join(c.logDir, c.name+".log")
	out, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", c.name, err)
	}
	defer out.Close()                       //nolint:errcheck // The child has its own descriptor.
	cmd := exec.Command(program, c.args...) //nolint:noctx // The lifetime is managed here, not by a context.
	cmd.Env, cmd.Stdout, cmd.Stderr = c.env, out, out
	cmd.SysProcAttr = attributes(c.lifetime)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	p := &Process{Name: c.name, PID: cmd.Process.Pid, Program: program, Log: logPath, Stage: c.stage, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // How it ended is in its log.
		close(p.ended)
	}()
	return p, nil
}

// Ended is closed once a process that was started here has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Signal sends a signal if the process still is the program that was started.
func (p *Process) Signal(s syscall.Signal) error {
	if !p.running() {
		return os.ErrProcessDone
	}
	if err := syscall.Kill(p.PID, s); err != nil {
		return fmt.Errorf("signal %s: %w", p.Name, err)
	}
	return nil
}

// Stop ends the process: SIGTERM, and SIGKILL after a grace. One that has ended is
// stopped already.
func (p *Process) Stop() error {
	err := p.Signal(syscall.SIGTERM)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	if err != nil {
		return err
	}
	if p.gone(stopGrace) {
		return nil
	}
	if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if !p.gone(stopGrace) {
		return fmt.Errorf("%s (process %d) does not end", p.Name, p.PID)
	}
	return nil
}

// Kill ends the process at once and waits until it is gone.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	p.gone(stopGrace)
	return nil
}

// gone waits until the process is not running any more, and reports whether it is so.
func (p *Process) gone(within time.Duration) bool {
	deadline := time.Now().Add(within)
	for time.Now().Before(deadline) {
		if !p.running() {
			return true
		}
		time.Sleep(20 * time.Millisecond)
	}
	return !p.running()
}

// running reports whether the program still runs under its PID. PIDs are reused, so a
// recorded one counts only while it is our program.
func (p *Process) running() bool {
	select {
	case <-p.ended: // nil for a process of an earlier run, which blocks for ever.
		return false
	default:
	}
	return runs(p.PID, p.Program)
}

// resolve returns the real path of a program, which is what the kernel calls it.
func resolve(program string) (string, error) {
	program, err := filepath.Abs(program)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(program)
}

// tail returns the last lines of the log, for the error of a process that did not come
// up.
func (p *Process) tail() string {
	raw, err := os.ReadFile(p.Log)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	const most = 8 // enough for the cause, few enough for a terminal
	if len(lines) > most {
		lines = lines[len(lines)-most:]
	}
	return strings.Join(lines, "\n")
}

// await polls until ready says so, the process ends, or the context does.
func (p *Process) await(ctx context.Context, what string, ready func(context.Context) bool) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for !ready(ctx) {
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended before %s; its log %s closes with:\n%s", p.Name, what, p.Log, p.tail())
		case <-ctx.Done():
			return fmt.Errorf("wait for %s of %s: %w; its log is %s", what, p.Name, context.Cause(ctx), p.Log)
		case <-ticker.C:
		}
	}
	return nil
}
