package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// HostFunc answers a host function: name is one of those that the module imports,
// request what the guest passed, and the result is the JSON of an [abi.Response]. It
// cannot fail: errors are values of that type. It runs in the goroutine that called
// [Module.Call], which returns only after it, and should honour ctx, which ends at the
// call's deadline. It may keep the request.
type HostFunc = func(ctx context.Context, name string, request []byte) []byte

// deathGrace is how long a worker that closed its pipe has to end, so that its exit
// says why.
const deathGrace = time.Second

// Call runs an export and returns its code and its output; the code is whatever number
// the module returned. Every call finds the state that the module's initialiser leaves,
// and nothing of any other call. host answers the host functions; where it is nil every
// one is denied.
//
// tenant names whom the call is for, in any form: a worker that has served one tenant
// never serves another.
//
// The deadline is the earlier one of ctx and [Limits.Timeout], which counts from when a
// worker is ready; waiting for one is bounded by ctx and [Options.WaitTimeout]. At the
// deadline, and when ctx is cancelled, the worker is killed. The errors are a [*Fault] for
// what the module did, a [*BusyError] when there was no worker in time, which passes by
// itself, [ErrWorkerUnusable], [ErrClosed], and the context's error when it was cancelled
// or ended before a worker was ready.
func (m *Module) Call(ctx context.Context, tenant, export string, input []byte, host HostFunc) (int32, []byte, error) {
	return m.call(ctx, lane{module: m, tenant: tenant}, export, input, host)
}

// call is Call in a lane.
func (m *Module) call(ctx context.Context, l lane, export string, input []byte, host HostFunc) (int32, []byte, error) {
	if err := m.sandbox.begin(); err != nil {
		return 0, nil, err
	}
	defer m.sandbox.working.Done()
	if got, limit := len(input), m.limits.InputBytes; got > limit {
		return 0, nil, &Fault{Kind: FaultInput, Digest: m.digest, Export: export, Limit: int64(limit), Got: int64(got), Detail: "the input is too large"}
	}
	if len(export) > 255 {
		return 0, nil, fmt.Errorf("call an export: its name has %d bytes, the limit is 255", len(export))
	}
	ctx, cancel := m.sandbox.withLife(ctx)
	defer cancel()
	recompiled, stale := false, false
	for {
		c := &conversation{lane: l, export: export, host: host}
		code, output, err := c.run(ctx, input)
		switch {
		case errors.Is(err, errStale) && !stale:
			stale = true
		case errors.Is(err, errUnsealed) && !recompiled:
			// Somebody has tidied the cache, or worse. The slot has been given back, so that
			// the compiler can have it.
			recompiled = true
			if err := m.sandbox.compileOnce(ctx, m); err != nil {
				return 0, nil, err
			}
		default:
			return code, output, err
		}
	}
}

// errStale says that the call could not even be sent, because the worker had died
// before. That is nobody's fault if the worker had been idle.
var errStale = errors.New("the worker was dead before the call")

// conversation is one call, seen from the parent. Everything that it hears is taken
// for hostile.
type conversation struct {
	lane
	export string
	host   HostFunc

	spent    budget
	logLines int
	logBytes int
	stderr   []string // the last lines
	code     int32
	output   []byte
}

// run finds a worker and holds the conversation with it.
func (c *conversation) run(ctx context.Context, input []byte) (int32, []byte, error) {
	m := c.module
	if m.isClosed() {
		return 0, nil, ErrClosed
	}
	p, err := m.sandbox.pool.acquire(ctx, c.lane)
	if err != nil {
		return 0, nil, err
	}
	idle := p != nil
	// Whatever happens below, a panic of a host function included, the slot goes back,
	// and the worker with it only after an answer.
	fit := false
	defer func() {
		if p != nil && !fit {
			p.kill()
			p = nil
		}
		m.sandbox.pool.release(c.lane, p)
	}()
	if !idle {
		if err := m.native.verify(); err != nil {
			return 0, nil, err
		}
		skeleton, err := m.skeleton.read()
		if err != nil {
			return 0, nil, err
		}
		if p, err = m.start(ctx, m.setup(), skeleton, m.runs); err != nil {
			return 0, nil, err
		}
	}
	timed, cancel := context.WithTimeout(ctx, m.limits.Timeout)
	defer cancel()
	callCtx, stop := watchCPU(timed, p.cpuTime, m.limits.CPU)
	defer stop()
	if m.sandbox.yields {
		// It has to be as it was before somebody else can have the worker, or bury it.
		resume := yieldWhile(p.cpuTime, p.setImportance)
		defer resume()
		defer context.AfterFunc(callCtx, resume)()
	}
	began := time.Now()
	err = p.under(callCtx, func() error { return c.hold(callCtx, p, input) })
	var (
		fault *Fault
		cpu   *cpuExceeded
	)
	switch {
	case err == nil:
		fit = true
		return c.code, c.output, nil
	case errors.As(context.Cause(callCtx), &cpu):
		return 0, nil, &Fault{
			Kind: FaultCPU, Digest: m.digest, Export: c.export, Limit: m.limits.CPU.Milliseconds(), Got: cpu.used.Milliseconds(),
			Detail: "it computed for too long", Stderr: c.stderr,
		}
	case callCtx.Err() != nil:
		err := m.interrupted(ctx, c.export, m.limits.Timeout, began)
		if errors.As(err, &fault) {
			fault.Stderr = c.stderr
		}
		return 0, nil, err
	case errors.As(err, &fault):
		return 0, nil, fault
	case idle && errors.Is(err, errStale):
		return 0, nil, errStale
	}
	err = m.postMortem(p, c.export, err)
	if errors.As(err, &fault) {
		fault.Stderr = c.stderr
	}
	return 0, nil, err
}

// hold sends the call and answers until there is a result. The errors are a [*Fault]
// of the guest, errProtocol and those of the pipes.
func (c *conversation) hold(ctx context.Context, p *process, input []byte) error {
	p.calls++
	id := p.calls
	if err := writeFrame(p.in, frameCall, id, packNamed(c.export), input); err != nil {
		return fmt.Errorf("%w: %w", errStale, err)
	}
	for {
		f, err := readFrame(p.reader, p.limit)
		if err != nil {
			var tooLarge *frameTooLargeError
			if errors.As(err, &tooLarge) {
				return fmt.Errorf("%w: %w", errProtocol, err)
			}
			return err
		}
		if f.call != id {
			return fmt.Errorf("%w: a frame of call %d during call %d", errProtocol, f.call, id)
		}
		switch f.typ {
		case frameHostCall:
			var response []byte
			if response, err = c.answer(ctx, f.payload); err == nil {
				err = writeFrame(p.in, frameHostResult, id, response)
			}
		case frameLog:
			err = c.log(ctx, f.payload)
		case frameResult:
			return c.finish(f.payload)
		case frameFault:
			return c.fault(f.payload)
		default:
			err = fmt.Errorf("%w: frame %d is out of place", errProtocol, f.typ)
		}
		if err != nil {
			return err
		}
	}
}

// imports reports whether the module imports a host function.
func (c *conversation) imports(name string) bool {
	for _, f := range c.module.inspected.Imports {
		if string(f) == name {
			return true
		}
	}
	return false
}

// log passes a line of the guest on to the logger. A worker keeps the budget itself,
// so one that exceeds it is broken.
func (c *conversation) log(ctx context.Context, payload []byte) error {
	stream, level, text, err := unpackLog(payload)
	if err != nil {
		return err
	}
	c.logLines++
	c.logBytes += len(text)
	// One line more, and its bytes, are the worker's remark on what it dropped.
	if c.logLines > c.module.limits.LogLines+1 || c.logBytes > c.module.limits.LogBytes+frameSlackBytes {
		return fmt.Errorf("%w: %d log lines of %d bytes are over the limits", errProtocol, c.logLines, c.logBytes)
	}
	text = clean(text, maxLineBytes)
	if stream == streamStderr {
		c.stderr = appendTail(c.stderr, text)
	}
	c.module.sandbox.logger.LogAttrs(ctx, slogLevel(level), "module log",
		slog.String("module", c.module.digest), slog.String("export", c.export),
		slog.String("stream", streamName(stream)), slog.String("text", text))
	return nil
}

// appendTail keeps the last lines.
func appendTail(lines []string, line string) []string {
	if len(lines) == maxTailLines {
		copy(lines, lines[1:])
		lines = lines[:maxTailLines-1]
	}
	return append(lines, line)
}

func streamName(stream logStream) string {
	switch stream {
	case streamStdout:
		return "stdout"
	case streamStderr:
		return "stderr"
	case streamHost:
		return "host"
	default:
		return "log"
	}
}

// finish reads the result.
func (c *conversation) finish(payload []byte) error {
	code, origin, output, err := unpackResult(payload)
	if err != nil {
		return err
	}
	if len(output) > c.module.limits.OutputBytes {
		return fmt.Errorf("%w: an output of %d bytes, the limit is %d", errProtocol, len(output), c.module.limits.OutputBytes)
	}
	c.code, c.output = code, output
	c.module.sandbox.counted(origin)
	return nil
}

// fault reads what the worker says of a guest that failed.
func (c *conversation) fault(payload []byte) error {
	g, err := unpackFault(payload)
	if err != nil {
		return err
	}
	f := &Fault{
		Kind: g.Kind, Digest: c.module.digest, Export: c.export, Limit: g.Limit, Got: g.Got,
		Detail: clean(g.Text, maxDetailBytes), GuestError: clean(g.GuestError, maxDetailBytes),
	}
	if g.Kind == FaultTrap {
		f.trap = clean(g.Trap, maxDetailBytes)
		c.spent.blame(f)
	}
	for _, line := range g.Stderr {
		f.Stderr = appendTail(f.Stderr, clean(line, maxLineBytes))
	}
	return f
}

// interrupted says why a deadline or a cancellation ended a worker. ctx is the
// caller's, timeout the limit that ran since began.
func (m *Module) interrupted(ctx context.Context, export string, timeout time.Duration, began time.Time) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("call %s of module %s: %w", export, m.digest, cause)
	}
	if deadline, exists := ctx.Deadline(); exists {
		timeout = min(timeout, deadline.Sub(began))
	}
	return &Fault{
		Kind: FaultTimeout, Digest: m.digest, Export: export, Limit: timeout.Milliseconds(),
		Got: max(time.Since(began), timeout).Milliseconds(), Detail: "it was not over in time",
	}
}

// postMortem says what a worker died of, after a pipe failed or the protocol was
// broken. The worker's own standard error is not the guest's: only its Go runtime
// writes there.
func (m *Module) postMortem(p *process, export string, broken error) error {
	f := &Fault{Kind: FaultCrash, Digest: m.digest, Export: export, crashed: true}
	if errors.Is(broken, errProtocol) {
		p.bury(0)
		f.Detail = clean(broken.Error(), maxDetailBytes)
		return f
	}
	exit := p.bury(deathGrace)
	last := p.stderr.String()
	if outOfMemory(last) {
		f.Kind = FaultMemory
		f.Limit = m.limits.MemoryBytes + m.limits.NativeBytes
		f.Detail = "the worker ran out of memory"
		return f
	}
	f.Detail = "the worker ended by itself"
	if exit.Text != "" {
		f.Detail += fmt.Sprintf(" (%s)", exit)
	}
	if line := firstLine(last); line != "" {
		f.Detail += ": " + clean(line, maxDetailBytes)
	}
	return f
}

// outOfMemory recognises the last words of a Go program whose memory is limited.
func outOfMemory(stderr string) bool {
	for _, words := range []string{"out of memory", "cannot allocate memory", "failed to create new OS thread", "errno=12"} {
		if strings.Contains(stderr, words) {
			return true
		}
	}
	return false
}
