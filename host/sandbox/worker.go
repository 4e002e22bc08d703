package sandbox

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/caisson-dev/caisson/abi"
)

// workerThreads is how many cores a worker's Go runtime uses: one for the guest and
// one for the collector. There is one call in flight, and many workers to a node.
const workerThreads = 2

// restAfter is how long a worker has nothing to do before it lets go of its native code
// until it is used again, where the kernel maps more of that than is used.
const restAfter = time.Second

// RunWorkerIfRequested turns the current process into a worker if its first argument
// is [WorkerArgument], or into what starts workers, and then does not return. A program that wants to be its own
// worker calls it first thing in main, and gives its own path as [Options.Worker].
func RunWorkerIfRequested() {
	if len(os.Args) > 1 && (os.Args[1] == WorkerArgument || os.Args[1] == forkServerArgument) {
		os.Exit(WorkerMain(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
}

// WorkerMain is the life of a worker: it greets, takes limits, a module and then one
// call after the other from in, and ends when in does. args are the arguments after
// the program's name. It returns the exit code: 0 when the parent closed the pipe, 2
// when it was not started by a parent, 1 for everything else, with a line on errOut.
//
// It lowers the limits of the process it runs in, for good.
//
// Where workers get namespaces, a parent starts the same program once more, with another
// argument: that process starts the workers, and needs nothing but standard input.
func WorkerMain(args []string, in io.Reader, out, errOut io.Writer) int {
	if len(args) > 0 && args[0] == forkServerArgument {
		if err := serveForks(); err != nil {
			_, _ = fmt.Fprintf(errOut, "fork server: %v\n", err)
			return 1
		}
		return 0
	}
	if len(args) == 0 || args[0] != WorkerArgument {
		_, _ = fmt.Fprintf(errOut, "This program runs Wasm modules for the Caisson operator, which starts it by itself with the argument %s; there is nothing to do with it by hand.\n", WorkerArgument)
		return 2
	}
	runtime.GOMAXPROCS(workerThreads)
	// These keep files open that cannot be opened any more later.
	tracker, around := newPageTracker(), newFaultAround()
	code, program := newCodePages(around), newProgramPages(around)
	w := newWorker(in, out, func() {
		code.drop()
		program.drop()
	})
	w.tracker, w.code, w.free = tracker, code, debug.FreeOSMemory
	w.restsInPauses = around == nil
	if file, ok := in.(*os.File); ok {
		fd := file.Fd()
		w.watch = func() { watchFor(fd) }
	}
	w.confine = func(s setup) ([]Layer, error) {
		// The collector works harder before the limit that kills is reached.
		debug.SetMemoryLimit(s.NativeBytes / 4 * 3)
		if s.compiles() {
			beNice()
		}
		return harden(s, slices.Concat(tracker.files(), around.files(), code.files())...)
	}
	if err := w.serve(context.Background()); err != nil {
		_, _ = fmt.Fprintf(errOut, "worker: %v\n", err)
		return 1
	}
	return 0
}

// worker is the child's end of the pipes.
type worker struct {
	in  *bufio.Reader
	out io.Writer
	// confine gives up everything that a worker does not need.
	confine func(setup) ([]Layer, error)
	tracker *pageTracker
	code    *codePages
	guest   *guest
	// watch waits a moment for something to read, free gives back what loading needed.
	watch, free func()
	// rest lets go of code that is not used just now.
	rest func()
	// pause fires when there was no call for some time. Where more is mapped than calls use,
	// that is given back in each pause.
	pause         *time.Timer
	restsInPauses bool
	err           error // the pipe's, found inside a host function
}

// newWorker makes a worker that calls rest after its first call.
func newWorker(in io.Reader, out io.Writer, rest func()) *worker {
	w := &worker{in: bufio.NewReaderSize(in, 32*kib), out: out, pause: time.AfterFunc(restAfter, rest), rest: rest, watch: func() {}, free: func() {}}
	w.pause.Stop() // there is nothing to give back yet
	return w
}

// serve returns nil when the parent closes the pipe between two frames.
func (w *worker) serve(ctx context.Context) error {
	if err := writeFrame(w.out, frameHello, 0, []byte(helloText)); err != nil {
		return fmt.Errorf("greet: %w", err)
	}
	s, err := w.readSetup()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the limits: %w", err)
	}
	layers, err := w.confine(s)
	if err != nil {
		return fmt.Errorf("confine this process: %w", err)
	}
	report, err := json.Marshal(layers)
	if err != nil {
		return fmt.Errorf("encode the layers: %w", err)
	}
	if err := writeFrame(w.out, frameHardened, 0, report); err != nil {
		return fmt.Errorf("report the layers: %w", err)
	}
	for {
		f, err := w.read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a frame: %w", err)
		}
		switch {
		case f.typ == frameModule && w.guest == nil:
			err = w.load(ctx, f.payload, s, layers)
		case f.typ == frameCall && w.guest != nil:
			w.pause.Stop()
			if err = w.call(ctx, f, s); err == nil {
				w.guest.settle(ctx)
				w.served(f.call)
			}
		default:
			err = fmt.Errorf("%w: frame %d is out of place", errProtocol, f.typ)
		}
		if err != nil {
			return err
		}
	}
}

// served lets go of code after a call, as often as that pays.
func (w *worker) served(call uint32) {
	if call == 1 {
		w.rest() // from what only loading and the initialiser used
	}
	if w.restsInPauses {
		w.pause.Reset(restAfter)
	}
}

// read reads a frame of the parent, which is trusted with its sizes.
func (w *worker) read() (frame, error) { return readFrame(w.in, maxPayloadBytes) }

func (w *worker) readSetup() (setup, error) {
	var s setup
	f, err := w.read()
	if err != nil {
		return s, err
	}
	if f.typ != frameSetup {
		return s, fmt.Errorf("%w: frame %d is out of place", errProtocol, f.typ)
	}
	return s, json.Unmarshal(f.payload, &s)
}

// load compiles the module, or loads what has been compiled, gives up what only that
// needed, and says how it went.
func (w *worker) load(ctx context.Context, wasm []byte, s setup, layers []Layer) (err error) {
	defer w.code.close()
	if s.FileBytes > 0 {
		err = compileNative(ctx, wasm, s)
	} else {
		w.guest, err = loadGuest(ctx, wasm, s, w.tracker, w.ask)
		_ = w.code.share(s.CacheDir) // where that cannot be, this worker has a copy of its own
		w.free()
	}
	if err != nil {
		return writeFrame(w.out, frameRejected, 0, []byte(clean(firstLine(err.Error()), maxDetailBytes)))
	}
	if err := hardenMore(layers); err != nil {
		return fmt.Errorf("confine this process: %w", err)
	}
	return writeFrame(w.out, frameReady, 0)
}

// call runs one call and answers with its result or its fault.
func (w *worker) call(ctx context.Context, f frame, s setup) error {
	export, input, err := unpackNamed(f.payload)
	if err != nil {
		return err
	}
	logs := newLogSink(w.out, f.call, s.LogLines, s.LogBytes)
	r := w.guest.serve(ctx, f.call, export, input, logs)
	if r.guestError != "" && r.fault == nil {
		logs.send(streamLog, levelError, []byte(r.guestError))
	}
	logs.close()
	switch {
	case w.err != nil:
		return w.err
	case logs.err != nil:
		return logs.err
	case r.fault == nil:
		return writeFrame(w.out, frameResult, f.call, packResult(r.code, r.origin), r.output)
	}
	r.fault.Stderr = logs.tail
	payload, err := json.Marshal(r.fault)
	if err != nil {
		return fmt.Errorf("encode a fault: %w", err)
	}
	return writeFrame(w.out, frameFault, f.call, payload)
}

// ask carries a host call to the parent. A pipe that breaks unwinds the guest with a
// panic, which wazero recovers, and ends the worker after that.
func (w *worker) ask(c *call, name string, request []byte) []byte {
	if limit := w.guest.setup.HostCallBytes; len(request) > limit {
		return errorResponse(abi.CodeTooLarge, fmt.Sprintf("the request has %d bytes, the limit is %d", len(request), limit))
	}
	f, err := w.exchange(c.id, name, request)
	if err != nil {
		w.err = err
		panic(err)
	}
	return f.payload
}

func (w *worker) exchange(id uint32, name string, request []byte) (frame, error) {
	if w.err != nil {
		return frame{}, w.err
	}
	if err := writeFrame(w.out, frameHostCall, id, packNamed(name), request); err != nil {
		return frame{}, fmt.Errorf("send a host call: %w", err)
	}
	w.watch()
	f, err := w.read()
	if err != nil {
		return frame{}, fmt.Errorf("read the result of a host call: %w", err)
	}
	if f.typ != frameHostResult || f.call != id {
		return frame{}, fmt.Errorf("%w: frame %d is out of place", errProtocol, f.typ)
	}
	return f, nil
}

// errorResponse is the response of a host function that failed.
func errorResponse(code abi.ErrorCode, message string) []byte {
	payload, err := json.Marshal(abi.Response{Error: &abi.CallError{Code: code, Message: message}})
	if err != nil {
		// Two strings always encode; this keeps the response well-formed all the same.
		return []byte(`{"error":{"code":"unavailable"}}`)
	}
	return payload
}
