package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// Defaults of [Options].
const (
	// defaultStartTimeout is for a program to load and to greet, which takes
	// milliseconds; a node that is short of memory needs longer.
	defaultStartTimeout = 10 * time.Second
	// defaultIdleTimeout keeps the worker of a module that is polled at the usual
	// intervals, and gives the memory of one that is not back.
	defaultIdleTimeout = 5 * time.Minute
	// defaultIdleBytes is for some thirty workers of Go modules: more than a node of up to
	// 16 cores has, and what a larger one can spare.
	defaultIdleBytes = 512 * mib
	// defaultWaitTimeout is longer than what ordinary calls of others take together, and
	// short enough for a caller who can do something else meanwhile.
	defaultWaitTimeout = 10 * time.Second
	// minWorkers lets a node with one core run a few modules at once: most of their time
	// goes into waiting for the API server.
	minWorkers = 4
	// cacheVersion names the layout of the cache directory.
	cacheVersion = "sandbox-v1"
	// programName is the worker's, beside the current executable.
	programName = "caisson-worker"
)

// Options configures a [Sandbox]. The zero value is usable where a program named
// caisson-worker lies beside the current executable.
type Options struct {
	// Worker is the command of the worker: a path and its arguments, to which
	// [WorkerArgument] is added. A program that calls [RunWorkerIfRequested] may name
	// itself. Empty means caisson-worker beside the current executable.
	Worker []string
	// CacheDir is where native code is kept between runs, in a subdirectory that only
	// this user may enter. Empty means a temporary directory that Close removes. Native
	// code out of it is run: nobody else may write there, and what is not what this
	// installation has put there is compiled again.
	CacheDir string
	// Limits are those of modules for which [Sandbox.Load] is not told otherwise.
	Limits Limits
	// MaxWorkers caps the processes that exist at the same time, idle ones included. 0
	// means two for each core, and at least 4.
	MaxWorkers int
	// IdleTimeout ends a worker that had nothing to do for so long; 0 means 5 minutes.
	IdleTimeout time.Duration
	// IdleBytes is how much memory idle workers may hold together; those that have not been
	// used for longest are ended first. 0 means 512 MiB. It holds on Linux, where the memory
	// of another process can be read.
	IdleBytes int64
	// WaitTimeout is how long a call waits while all workers are busy; 0 means 10 seconds.
	WaitTimeout time.Duration
	// StartTimeout is how long a worker may take to greet; 0 means 10 seconds.
	StartTimeout time.Duration
	// AllowInProcess lets [Sandbox.LoadInProcess] run modules in this process.
	AllowInProcess bool
	// Logger receives what guests log; nil drops it.
	Logger *slog.Logger
}

// Sandbox loads modules and runs them in worker processes. It is safe for concurrent
// use.
type Sandbox struct {
	command   []string
	cacheDir  string
	sealKey   []byte
	temporary bool

	allowInProcess bool

	limits       Limits
	startTimeout time.Duration
	maxWorkers   int
	logger       *slog.Logger
	level        logLevel

	spawner *spawner
	pool    *pool
	// layers are how workers are confined, noNamespaces why one of them is missing.
	layers       []Layer
	noNamespaces string
	// yields says that a worker that computes for long can be made to give way.
	yields bool

	// end is called by Close, and onEnd schedules what that is to cancel: every worker
	// that is at work dies with the sandbox.
	end   context.CancelFunc
	onEnd func(func()) (stop func() bool)
	// working counts calls and loads, alive counts processes.
	working   sync.WaitGroup
	alive     sync.WaitGroup
	mu        sync.Mutex
	closed    bool
	processes map[*process]struct{}
	// compiling makes concurrent loads of one module compile it once.
	compiling map[string]chan struct{}
	// natives are by digest; a digest costs some hundred bytes.
	natives  map[string]*nativeCode
	counters counters
}

// New prepares a sandbox and proves that the worker can be started. The errors are
// [ErrWorkerUnusable], limits that cannot be honoured, and what the file system says.
func New(o Options) (*Sandbox, error) {
	limits := o.Limits.orElse(DefaultLimits())
	if err := limits.validate(); err != nil {
		return nil, err
	}
	command, err := workerCommand(o.Worker)
	if err != nil {
		return nil, err
	}
	cacheDir, err := openCache(o.CacheDir)
	if err != nil {
		return nil, err
	}
	key, err := sealKey(cacheDir)
	if err != nil {
		return nil, err
	}
	maxWorkers := first(o.MaxWorkers, max(minWorkers, 2*runtime.GOMAXPROCS(0)))
	s := &Sandbox{
		command: command, cacheDir: cacheDir, sealKey: key, temporary: o.CacheDir == "", limits: limits,
		allowInProcess: o.AllowInProcess,
		startTimeout:   first(o.StartTimeout, defaultStartTimeout),
		logger:         o.Logger, level: levelOf(o.Logger),
		spawner:    newSpawner(command, first(o.StartTimeout, defaultStartTimeout)),
		maxWorkers: maxWorkers,
		pool:       newPool(maxWorkers, first(o.IdleTimeout, defaultIdleTimeout)),
		compiling:  map[string]chan struct{}{}, natives: map[string]*nativeCode{},
		processes: map[*process]struct{}{},
	}
	s.pool.idleBytes = first(o.IdleBytes, defaultIdleBytes)
	s.pool.waitTimeout = first(o.WaitTimeout, defaultWaitTimeout)
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	life, end := context.WithCancel(context.Background())
	s.end = end
	s.onEnd = func(f func()) func() bool { return context.AfterFunc(life, f) }
	if err := s.probe(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// launch starts a worker that has not seen a module yet.
func (s *Sandbox) launch(ctx context.Context, limits Limits, where placement) (p *process, err error) {
	if where == inProcess {
		p, err = startHere(limits.frameBytes())
	} else {
		p, err = launch(ctx, s.spawner.start, s.command, limits.frameBytes(), s.startTimeout)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.processes[p] = struct{}{}
	s.mu.Unlock()
	s.alive.Go(func() {
		<-p.exited
		s.mu.Lock()
		delete(s.processes, p)
		s.mu.Unlock()
	})
	return p, nil
}

// Close kills every worker and waits until they are dead. Calls in flight fail with
// [ErrClosed].
func (s *Sandbox) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.pool.close()
	s.end()
	s.working.Wait()
	s.alive.Wait()
	s.spawner.close()
	if !s.temporary {
		return nil
	}
	if err := os.RemoveAll(s.cacheDir); err != nil {
		return fmt.Errorf("remove the temporary cache: %w", err)
	}
	return nil
}

// begin counts the caller as working, unless the sandbox is closed.
func (s *Sandbox) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.working.Add(1)
	return nil
}

// workerCommand finds the worker.
func workerCommand(command []string) ([]string, error) {
	if len(command) > 0 {
		return command, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the worker beside the current executable: %w", err)
	}
	name := programName
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return []string{filepath.Join(filepath.Dir(self), name)}, nil
}

// openCache makes the directory that only this user may enter.
func openCache(dir string) (string, error) {
	if dir == "" {
		dir, err := os.MkdirTemp("", "caisson-sandbox-")
		if err != nil {
			return "", fmt.Errorf("make a temporary cache: %w", err)
		}
		return dir, nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the cache: %w", err)
	}
	private := filepath.Join(dir, cacheVersion)
	if err := os.MkdirAll(private, 0o700); err != nil {
		return "", fmt.Errorf("make the cache: %w", err)
	}
	info, err := os.Lstat(private)
	if err != nil {
		return "", fmt.Errorf("look at the cache: %w", err)
	}
	if !info.IsDir() || !ours(info) || runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("the cache %s must be a directory that belongs to this user and that only this user may enter, its mode is %s", private, info.Mode())
	}
	return private, nil
}

// digestOf is the digest of a module's bytes, as registries write it.
func digestOf(wasm []byte) string {
	sum := sha256.Sum256(wasm)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// levelOf asks the logger what a guest need not bother to format.
func levelOf(logger *slog.Logger) logLevel {
	if logger == nil {
		return levelOff
	}
	for _, level := range []logLevel{levelTrace, levelDebug, levelInfo, levelWarn, levelError} {
		if logger.Enabled(context.Background(), slogLevel(level)) {
			return level
		}
	}
	return levelOff
}

// slogLevel maps a guest's level. Trace is one step below debug, as slog counts.
func slogLevel(level logLevel) slog.Level {
	switch level {
	case levelTrace:
		return slog.LevelDebug - 4
	case levelDebug:
		return slog.LevelDebug
	case levelWarn:
		return slog.LevelWarn
	case levelError:
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}
