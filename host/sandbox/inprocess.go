package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// A module that is trusted like the program itself may run inside of it: the worker is
// then a goroutine behind the same pipes, so that everything the parent checks is checked
// here as well. What only a process can be held to is missing, see [Sandbox.LoadInProcess].

// ErrInProcessNotAllowed says that [Options.AllowInProcess] is not set.
var ErrInProcessNotAllowed = errors.New("modules may not run in this process")

// LoadInProcess is [Sandbox.Load] for a module that is trusted like the program itself: it
// is compiled in a worker and then run in this process, in a goroutine for each call that
// is under way. The worker must be built with the same version of the compiler as this
// program. Without [Options.AllowInProcess] it is [ErrInProcessNotAllowed].
//
// The deadline of a call holds, by an end of the guest at the next call of a function or
// round of a loop; so do the limits of linear memory, tables, Extism memory, input,
// output, host functions and logs. Those that only a process can be held to do not:
// [Limits.CPU], and [Limits.NativeBytes] once the module is compiled. A mistake in the
// compiler, or memory that the machine does not have, is the end of this program, and a
// guest that fills gigabytes with one instruction is ended after it.
func (s *Sandbox) LoadInProcess(ctx context.Context, wasm []byte, limits Limits) (*Module, error) {
	if !s.allowInProcess {
		return nil, ErrInProcessNotAllowed
	}
	return s.load(ctx, wasm, limits, inProcess)
}

// placement says where a module runs.
type placement int

const (
	inWorker placement = iota
	inProcess
)

// startHere starts a worker that is a goroutine of this process.
func startHere(limit int) (*process, error) {
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("open a pipe: %w", err)
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		closeAll(childIn, in)
		return nil, fmt.Errorf("open a pipe: %w", err)
	}
	ctx, end := context.WithCancel(context.Background())
	p := &process{
		in: in, out: out, reader: bufio.NewReaderSize(out, 32*kib), limit: limit,
		exited: make(chan struct{}), started: time.Now(), end: end,
	}
	// The memory of this process is not the worker's to give back.
	w := newWorker(childIn, childOut, func() {})
	w.confine = func(setup) ([]Layer, error) { return nil, nil }
	go func() {
		defer close(p.exited)
		defer closeAll(childIn, childOut)
		defer w.close()
		defer func() {
			// What guests and host functions panic with is recovered where they are called.
			if recovered := recover(); recovered != nil {
				_, _ = fmt.Fprintf(&p.stderr, "panic: %v\n", recovered)
			}
		}()
		if err := w.serve(ctx); err != nil {
			_, _ = fmt.Fprintf(&p.stderr, "worker: %v\n", err)
		}
	}()
	if f, err := readFrame(p.reader, len(helloText)); err != nil || f.typ != frameHello {
		p.kill()
		return nil, fmt.Errorf("%w: a worker in this process does not greet", ErrWorkerUnusable)
	}
	return p, nil
}

// close gives back what a process would give back by ending.
func (w *worker) close() {
	if w.guest != nil {
		w.guest.close(context.Background())
	}
}
