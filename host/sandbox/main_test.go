package sandbox_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/sandbox"
)

// TestMain makes the test binary its own worker, as an embedder's binary can be.
func TestMain(m *testing.M) {
	sandbox.RunWorkerIfRequested()
	sandbox.RunFakeIfRequested()
	os.Exit(run(m))
}

// run runs the tests with a cache that they share, so that the Go guest is compiled
// once.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "caisson-sandbox-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	sharedCache = dir
	return m.Run()
}

var sharedCache string

// self is the command that makes a worker of this binary.
func self(tb testing.TB) []string {
	tb.Helper()
	path, err := os.Executable()
	require.NoError(tb, err)
	return []string{path}
}

// workerCommand is the command of a worker: the program that is shipped. This binary may
// link C, so that some layers cannot be put on, and may be instrumented.
func workerCommand(tb testing.TB) []string {
	tb.Helper()
	return []string{realWorker(tb)}
}

// realWorker builds cmd/caisson-worker once and returns its path.
func realWorker(tb testing.TB) string {
	tb.Helper()
	path, err := buildWorker("caisson-worker")
	require.NoError(tb, err)
	return string(path)
}

var buildWorker = onceByKey(func(name string) ([]byte, error) {
	out := filepath.Join(sharedCache, name)
	cmd := exec.Command("go", "build", "-o", out, "../../cmd/caisson-worker")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the worker: %w: %s", err, text)
	}
	return []byte(out), nil
})

// open opens a sandbox that ends with the test.
func open(tb testing.TB, o sandbox.Options) *sandbox.Sandbox {
	tb.Helper()
	if o.Worker == nil {
		o.Worker = workerCommand(tb)
	}
	if o.CacheDir == "" {
		o.CacheDir = sharedCache
		if len(o.Worker) > 1 { // a false worker leaves no native code behind
			o.CacheDir = tb.TempDir()
		}
	}
	s, err := sandbox.New(o)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.Close()) })
	return s
}

// load loads a module that must be loadable.
func load(tb testing.TB, s *sandbox.Sandbox, wasm []byte, limits sandbox.Limits) *sandbox.Module {
	tb.Helper()
	m, err := s.Load(tb.Context(), wasm, limits)
	require.NoError(tb, err)
	tb.Cleanup(m.Close)
	return m
}

// provision calls a module without host functions.
func provision(tb testing.TB, m *sandbox.Module, input []byte) (int32, []byte, error) {
	tb.Helper()
	return m.Call(tb.Context(), "tenant", "provision", input, nil)
}

// faultOf requires an error to be a fault of a kind.
func faultOf(tb testing.TB, err error, kind sandbox.FaultKind) *sandbox.Fault {
	tb.Helper()
	var fault *sandbox.Fault
	require.ErrorAs(tb, err, &fault)
	require.Equal(tb, kind, fault.Kind, "%v", err)
	return fault
}

// goGuest builds testdata/guest once and returns its bytes.
func goGuest(tb testing.TB) []byte {
	tb.Helper()
	wasm, err := buildGoGuest("-buildmode=c-shared")
	require.NoError(tb, err)
	return wasm
}

var buildGoGuest = onceByKey(func(flags string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "caisson-guest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "guest.wasm")
	args := []string{"build", "-o", out}
	if flags != "" {
		args = append(args, flags)
	}
	cmd := exec.Command("go", append(args, "./testdata/guest")...)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the guest: %w: %s", err, text)
	}
	return os.ReadFile(out)
})

// onceByKey calls a function once for each key.
func onceByKey(f func(string) ([]byte, error)) func(string) ([]byte, error) {
	var mu sync.Mutex
	results := map[string]func() ([]byte, error){}
	return func(key string) ([]byte, error) {
		mu.Lock()
		once, ok := results[key]
		if !ok {
			once = sync.OnceValues(func() ([]byte, error) { return f(key) })
			results[key] = once
		}
		mu.Unlock()
		return once()
	}
}

// logBuffer collects log lines from any goroutine.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf.Reset()
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *logBuffer) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug - 4}))
}

// heartbeat ticks until the test is over and fails it if the process stood still.
func heartbeat(tb testing.TB, tolerated time.Duration) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	longest := make(chan time.Duration, 1)
	go func() {
		var worst time.Duration
		last := time.Now()
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
			worst = max(worst, time.Since(last))
			last = time.Now()
		}
		longest <- worst
	}()
	tb.Cleanup(func() {
		cancel()
		require.Less(tb, <-longest, tolerated, "the process that embeds the sandbox stood still")
	})
}
