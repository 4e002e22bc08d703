package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caisson-dev/caisson/abi"
)

// Module is a module that has been checked, compiled and asked to describe itself. It
// is safe for concurrent use; calls run in workers of their own.
type Module struct {
	sandbox   *Sandbox
	digest    string
	limits    Limits
	inspected *Inspection
	described []byte
	// original is the module as it came, skeleton what workers load.
	original, skeleton *keptFile
	// globals and startExport are what the rewriting has added for them; see rewriting.
	globals     []string
	startExport string
	closed      atomic.Bool
	native      *nativeCode
	runs        placement
}

// Digest returns "sha256:" and the hexadecimal digest of the module's bytes.
func (m *Module) Digest() string { return m.digest }

// Limits returns what the calls of the module are held to.
func (m *Module) Limits() Limits { return m.limits }

// Manifest returns the JSON of the module's manifest section, not parsed, or nil. The
// caller must not change it.
func (m *Module) Manifest() []byte { return m.inspected.Manifest }

// Described returns the output of the module's describe export. The caller must not
// change it.
func (m *Module) Described() []byte { return m.described }

// Imports returns the host functions that the module imports: all that it can ever
// call.
func (m *Module) Imports() []abi.Function { return slices.Clone(m.inspected.Imports) }

// FreshReason says why every call of the module needs an instance of its own, which
// costs its initialiser each time, or is empty: then the state of one instance is put
// back after each call.
func (m *Module) FreshReason() string { return m.inspected.FreshReason }

// Close ends the module's idle workers and those at work once their call is over.
// Calls after it fail with [ErrClosed].
func (m *Module) Close() {
	if m.closed.Swap(true) {
		return
	}
	m.sandbox.pool.forget(m)
	m.original.close()
	m.skeleton.close()
}

func (m *Module) isClosed() bool { return m.closed.Load() }

// Load checks a module, compiles it in a worker that ends after that, unless the cache
// has it, and calls its describe export. Fields of limits that are zero are taken from
// [Options.Limits].
//
// The errors are [*LoadError] for a module that cannot be used with these limits,
// [ErrWorkerUnusable], [ErrClosed], the context's, and what the file system says.
// Close the module when it is no longer needed.
func (s *Sandbox) Load(ctx context.Context, wasm []byte, limits Limits) (*Module, error) {
	return s.load(ctx, wasm, limits, inWorker)
}

// load is Load for a module that runs somewhere.
func (s *Sandbox) load(ctx context.Context, wasm []byte, limits Limits, where placement) (*Module, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.working.Done()
	limits = limits.orElse(s.limits)
	if err := limits.validate(); err != nil {
		return nil, err
	}
	inspected, err := Preflight(wasm, limits)
	if err != nil {
		return nil, err
	}
	m := &Module{sandbox: s, digest: digestOf(wasm), limits: limits, inspected: inspected, runs: where}
	m.native = s.nativeOf(m)
	ctx, cancel := s.withLife(ctx)
	defer cancel()
	if err := m.prepare(ctx, wasm); err != nil {
		m.Close()
		return nil, err
	}
	if m.described, err = m.describe(ctx); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// nativeOf returns the native code of a module, which all modules of a digest share, so
// that loading one again does not read it again.
func (s *Sandbox) nativeOf(m *Module) *nativeCode {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, known := s.natives[m.dir()]
	if !known {
		n = &nativeCode{dir: m.dir(), digest: m.digest + m.suffix(), key: s.sealKey, verified: map[string]string{}}
		s.natives[m.dir()] = n
	}
	return n
}

// withLife returns a context that also ends when the sandbox is closed.
func (s *Sandbox) withLife(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := s.onEnd(func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// dir is where everything of the module is kept. Only the digest names it, never a
// text out of the module.
func (m *Module) dir() string {
	return filepath.Join(m.sandbox.cacheDir, strings.TrimPrefix(m.digest, "sha256:")+m.suffix())
}

// suffix tells the native code of a module by where it runs: it is not the same.
func (m *Module) suffix() string {
	if m.runs == inProcess {
		return "-in-process"
	}
	return ""
}

// prepare rewrites the module, compiles it unless that has been done, and keeps what
// workers will need of it.
func (m *Module) prepare(ctx context.Context, wasm []byte) error {
	r, err := source{wasm, m.inspected.GrowsTables}.rewrite()
	if err != nil {
		return rewriteError(err)
	}
	m.globals, m.startExport = r.globals, r.start
	if err := os.MkdirAll(m.dir(), 0o700); err != nil {
		return fmt.Errorf("make the module's cache: %w", err)
	}
	if m.original, err = keep(filepath.Join(m.dir(), "module.wasm"), wasm); err != nil {
		return err
	}
	if m.skeleton, err = keep(filepath.Join(m.dir(), "skeleton.wasm"), r.skeleton); err != nil {
		return err
	}
	return m.sandbox.compileOnce(ctx, m)
}

// rewriteError is that of a module which preflight took for one that can be rewritten.
func rewriteError(err error) error {
	return &LoadError{Kind: CompileFailed, Offset: -1, Detail: "it cannot be rewritten: " + err.Error()}
}

// writeAtomically replaces a file by one that is complete.
func writeAtomically(name string, content []byte) error {
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.tmp")
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

// setup is what the workers are told in which the module runs.
func (m *Module) setup() setup {
	l := m.limits
	return setup{
		CacheDir: m.dir(), MemoryBytes: l.MemoryBytes, NativeBytes: l.NativeBytes, ArenaBytes: l.ArenaBytes,
		OutputBytes: l.OutputBytes, HostCallBytes: l.HostCallBytes, LogLines: l.LogLines, LogBytes: l.LogBytes,
		Interruptible: m.runs == inProcess, TableElements: l.TableElements, Globals: m.globals, Start: m.startExport, GrowsTables: m.inspected.GrowsTables,
		ImageBytes: min(maxImageBytes, l.MemoryBytes), LogLevel: m.sandbox.level, Fresh: m.inspected.FreshReason,
		CPUSeconds: seconds(workerCPU + workerThreads*(l.CompileTimeout+l.Timeout)), NoNamespaces: m.sandbox.noNamespaces,
	}
}

// compilerSetup is what the worker is told that only compiles: there is no call, so the
// compiler does not get the address space of one.
func (m *Module) compilerSetup() setup {
	s := m.setup()
	s.ArenaBytes, s.ImageBytes, s.FileBytes = 1, 0, s.NativeBytes
	s.CPUSeconds = seconds(workerThreads * m.limits.CompileTimeout)
	return s
}

// compileOnce fills the cache with the native code of the module, unless it is full already
// or somebody is at it.
func (s *Sandbox) compileOnce(ctx context.Context, m *Module) error {
	for {
		s.mu.Lock()
		others, busy := s.compiling[m.dir()]
		if !busy {
			s.compiling[m.dir()] = make(chan struct{})
		}
		s.mu.Unlock()
		if !busy {
			break
		}
		select {
		case <-others:
		case <-ctx.Done():
			return fmt.Errorf("wait for the compiler: %w", context.Cause(ctx))
		}
	}
	defer func() {
		s.mu.Lock()
		close(s.compiling[m.dir()])
		delete(s.compiling, m.dir())
		s.mu.Unlock()
	}()
	broken := m.native.verify()
	if broken == nil {
		return nil
	}
	discarded, err := m.native.discard()
	if err != nil {
		return err
	}
	if discarded {
		s.counters.discarded.Add(1)
		s.logger.LogAttrs(ctx, slog.LevelWarn, "native code in the cache is compiled again",
			slog.String("module", m.digest), slog.String("reason", broken.Error()))
	}
	wasm, err := m.original.read()
	if err != nil {
		return err
	}
	if wasm, err = (source{wasm, m.inspected.GrowsTables}).rewriteWhole(m.runs); err != nil {
		return rewriteError(err)
	}
	if _, err := s.pool.acquire(ctx, lane{}); err != nil {
		return err
	}
	defer s.pool.release(lane{}, nil)
	p, err := m.start(ctx, m.compilerSetup(), wasm, inWorker)
	if err != nil {
		return m.loadError(err)
	}
	p.bury(0)
	s.counters.compilations.Add(1)
	return m.native.seal()
}

// start starts a worker somewhere and has it load the module, within the compile timeout.
// The caller holds a slot. The errors are a [*LoadError], a [*Fault] and those of launch.
func (m *Module) start(ctx context.Context, s setup, wasm []byte, where placement) (*process, error) {
	p, err := m.sandbox.launch(ctx, m.limits, where)
	if err != nil {
		return nil, err
	}
	loadCtx, cancel := context.WithTimeout(ctx, m.limits.CompileTimeout)
	defer cancel()
	began := time.Now()
	err = p.under(loadCtx, func() error { return p.prepare(s, wasm) })
	if err == nil {
		return p, nil
	}
	var refused *LoadError
	switch {
	case errors.As(err, &refused):
		p.bury(0)
		return nil, err
	case ctx.Err() != nil:
		p.bury(0)
		return nil, fmt.Errorf("load module %s: %w", m.digest, context.Cause(ctx))
	case loadCtx.Err() != nil:
		p.bury(0)
		return nil, m.interrupted(ctx, "compile", m.limits.CompileTimeout, began)
	default:
		return nil, m.postMortem(p, "compile", err)
	}
}

// describe calls the describe export.
func (m *Module) describe(ctx context.Context) ([]byte, error) {
	code, output, err := m.call(ctx, lane{module: m, untouched: true}, abi.ExportDescribe, nil, nil)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("describe module %s: %w", m.digest, context.Cause(ctx))
	}
	if err != nil {
		return nil, m.loadError(err)
	}
	if code != 0 {
		return nil, &LoadError{Kind: DescribeFailed, Offset: -1, Detail: fmt.Sprintf("describe returned %d instead of 0", code)}
	}
	return output, nil
}

// loadError makes a load error of a fault and passes every other error on.
func (m *Module) loadError(err error) error {
	var fault *Fault
	if !errors.As(err, &fault) {
		return err
	}
	kind, what := DescribeFailed, "describe did not return"
	if fault.Export != abi.ExportDescribe {
		kind, what = CompileFailed, "the compiler did not survive it"
	}
	// The reason is ours, and safe to show; what the guest has to say stays in the cause.
	sentence, _ := abi.HostSentence(fault.Reason())
	return &LoadError{Kind: kind, Offset: -1, Detail: what + ": " + sentence, cause: fault}
}
