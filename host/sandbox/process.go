package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// ErrWorkerUnusable says that the program that [Options.Worker] names is missing, is no
// worker, is one of another version, or did not greet in time. Unless the node is
// overloaded it is a mistake in the installation.
var ErrWorkerUnusable = errors.New("the worker program cannot be used")

// Bounds of a worker's process.
const (
	// maxStderrBytes is how much of a worker's own standard error is kept: the head of a
	// crash of the Go runtime.
	maxStderrBytes = 8 * kib
	// reapDelay is how long a dead worker's pipes may stay open in some other process.
	reapDelay = time.Second
)

// process is one worker, seen from its parent. Its methods belong to one goroutine at a
// time, except kill and dead.
type process struct {
	child  child
	in     *os.File // what the worker reads
	out    *os.File // what it writes
	reader *bufio.Reader
	stderr headBuffer
	limit  int // of a payload that it may send
	calls  uint32
	// started is when, for its age.
	started time.Time
	// end ends a worker that is a goroutine; there is no child then.
	end context.CancelFunc

	killOnce sync.Once
	exited   chan struct{}
	exit     exitStatus // valid after exited is closed
}

// launch starts a worker and waits for its greeting. A program that does not greet
// within the timeout is [ErrWorkerUnusable].
func launch(ctx context.Context, run starter, command []string, limit int, timeout time.Duration) (*process, error) {
	p, err := startProcess(run, command, limit)
	switch {
	case errors.Is(err, ErrClosed), errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.ENOSPC):
		// The last is what a kernel says that has too many namespaces.
		return nil, fmt.Errorf("start a worker: %w", err)
	case err != nil:
		return nil, fmt.Errorf("%w: start %s: %w", ErrWorkerUnusable, command[0], err)
	}
	greetCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var greeting frame
	err = p.under(greetCtx, func() (err error) {
		greeting, err = readFrame(p.reader, len(helloText))
		return err
	})
	if err == nil && greeting.typ == frameHello && string(greeting.payload) == helloText {
		return p, nil
	}
	exit := p.bury(0)
	var tooLarge *frameTooLargeError
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("start a worker: %w", context.Cause(ctx))
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("it did not greet within %s", timeout)
	case err == nil, errors.As(err, &tooLarge):
		err = errors.New("its first words are not those of a worker of this version")
	default:
		err = fmt.Errorf("it ended without a greeting (%s)", exit)
	}
	return nil, fmt.Errorf("%w: %s: %w; it must be caisson-worker of this version, or a program that calls RunWorkerIfRequested first", ErrWorkerUnusable, command[0], err)
}

// startProcess starts the program with an empty environment and three pipes.
func startProcess(run starter, command []string, limit int) (*process, error) {
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("open a pipe: %w", err)
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		closeAll(childIn, in)
		return nil, fmt.Errorf("open a pipe: %w", err)
	}
	errOut, childErr, err := os.Pipe()
	if err != nil {
		closeAll(childIn, in, childOut, out)
		return nil, fmt.Errorf("open a pipe: %w", err)
	}
	p := &process{
		in: in, out: out, reader: bufio.NewReaderSize(out, 32*kib), limit: limit,
		exited: make(chan struct{}), started: time.Now(),
	}
	p.child, err = run(append(command[:len(command):len(command)], WorkerArgument), [3]*os.File{childIn, childOut, childErr})
	closeAll(childIn, childOut, childErr)
	if err != nil {
		closeAll(in, out, errOut)
		return nil, &startError{err}
	}
	go p.await(errOut)
	return p, nil
}

// await keeps the head of what the worker says on its standard error, until it has ended.
func (p *process) await(errOut *os.File) {
	said := make(chan struct{})
	go func() {
		defer close(said)
		_, _ = io.Copy(&p.stderr, errOut) // whatever could be read is kept
	}()
	p.exit = p.child.wait()
	select {
	case <-said:
	case <-time.After(reapDelay):
	}
	_ = errOut.Close()
	<-said
	close(p.exited)
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// kill ends the worker at once, from any goroutine, and wakes up whoever waits for its
// pipes. A worker that is dead already still has to be killed: that closes them.
func (p *process) kill() {
	p.killOnce.Do(func() {
		switch {
		case p.end != nil:
			p.end()
		case !p.dead():
			p.child.kill()
		}
		closeAll(p.in, p.out)
	})
}

// bury waits for up to grace for the worker to end by itself, kills it if it did not,
// and returns how it ended. A goroutine has no status to return, and is not waited for once
// it was told to end: it may be in the middle of something long.
func (p *process) bury(grace time.Duration) exitStatus {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
	}
	p.kill()
	if p.end != nil {
		return exitStatus{}
	}
	<-p.exited
	return p.exit
}

// retired reports whether a worker has served for long enough.
func (p *process) retired() bool { return time.Since(p.started) >= workerAge }

// dead reports whether the worker has ended.
func (p *process) dead() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// cpuTime returns for how long the worker has computed in its life.
func (p *process) cpuTime() (time.Duration, error) {
	if p.child == nil {
		return 0, errors.ErrUnsupported
	}
	used, err := cpuTime(p.child.pid())
	if err == nil && p.dead() {
		// Its number may be another's by now.
		return 0, os.ErrProcessDone
	}
	return used, err
}

// setImportance sets how urgent the scheduler takes the worker to be.
func (p *process) setImportance(i importance) error {
	switch {
	case p.child == nil:
		return errors.ErrUnsupported
	case p.dead():
		return os.ErrProcessDone // its number may be another's
	}
	return setImportance(p.child.pid(), i)
}

// residentBytes is how much memory the worker holds, as far as that can be known.
func (p *process) residentBytes() int64 {
	if p.child == nil {
		return 0
	}
	return residentBytes(p.child.pid())
}

// under runs an exchange with the worker and kills the worker when ctx ends before it.
// An error after that is the context's.
func (p *process) under(ctx context.Context, exchange func() error) error {
	stop := context.AfterFunc(ctx, p.kill)
	err := exchange()
	if !stop() {
		// The kill may have come after the exchange was over: the worker is gone either way.
		return ctx.Err()
	}
	if ctx.Err() != nil {
		// The end was heard by a host function before it was by the kill.
		p.kill()
		return ctx.Err()
	}
	return err
}

// prepare gives the worker its limits and its module, and waits for the compiler's
// verdict: nil, a [*LoadError], or what ended the worker.
func (p *process) prepare(s setup, wasm []byte) error {
	if _, err := p.confine(s); err != nil {
		return err
	}
	return p.verdict(wasm)
}

// confine gives the worker its limits and waits until it has given up everything else,
// and says what it could not give up.
func (p *process) confine(s setup) ([]Layer, error) {
	limits, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode a worker's limits: %w", err)
	}
	if err := writeFrame(p.in, frameSetup, 0, limits); err != nil {
		return nil, err
	}
	f, err := readFrame(p.reader, maxLayersBytes)
	if err != nil {
		return nil, err
	}
	var layers []Layer
	if f.typ != frameHardened || json.Unmarshal(f.payload, &layers) != nil || len(layers) > maxLayers {
		return nil, fmt.Errorf("%w: frame %d instead of the layers", errProtocol, f.typ)
	}
	for i := range layers {
		layers[i] = Layer{Name: clean(layers[i].Name, maxNameBytes), Missing: clean(layers[i].Missing, maxDetailBytes)}
	}
	return layers, nil
}

// verdict sends the module and waits for what the compiler says of it.
func (p *process) verdict(wasm []byte) error {
	if err := writeFrame(p.in, frameModule, 0, wasm); err != nil {
		return err
	}
	f, err := readFrame(p.reader, p.limit)
	switch {
	case err != nil:
		return err
	case f.typ == frameReady:
		return nil
	case f.typ == frameRejected:
		return &LoadError{Kind: CompileFailed, Offset: -1, Detail: "the compiler refuses it: " + clean(string(f.payload), maxDetailBytes)}
	default:
		return fmt.Errorf("%w: frame %d instead of a verdict on the module", errProtocol, f.typ)
	}
}

// headBuffer keeps the first bytes that are written to it.
type headBuffer struct {
	mu   sync.Mutex
	head bytes.Buffer
}

// Write implements io.Writer and never fails, so that the writer is never blocked.
func (b *headBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.head.Write(p[:min(len(p), maxStderrBytes-b.head.Len())])
	return len(p), nil
}

func (b *headBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.head.String()
}
