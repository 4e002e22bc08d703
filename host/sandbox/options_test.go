package sandbox_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/sandbox"
	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// TestDefaultWorker looks for the worker beside the current executable, where a test
// binary has none.
func TestDefaultWorker(t *testing.T) {
	_, err := sandbox.New(sandbox.Options{})
	require.ErrorIs(t, err, sandbox.ErrWorkerUnusable)
	self, selfErr := os.Executable()
	require.NoError(t, selfErr)
	require.ErrorContains(t, err, filepath.Join(filepath.Dir(self), "caisson-worker"))
}

func TestTemporaryCacheIsRemoved(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	s, err := sandbox.New(sandbox.Options{Worker: workerCommand(t)})
	require.NoError(t, err)
	m, err := s.Load(t.Context(), wasmtest.Echo(), sandbox.Limits{})
	require.NoError(t, err)
	entries, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	info, err := entries[0].Info()
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	m.Close()
	require.NoError(t, s.Close())
	entries, err = os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// TestMaxWorkers proves that callers wait for each other when there are not enough
// workers, and give up when their context ends.
func TestMaxWorkers(t *testing.T) {
	s := open(t, sandbox.Options{MaxWorkers: 2})
	require.Equal(t, 2, s.MaxWorkers())
	m := load(t, s, wasmtest.Asks("event", 1), sandbox.Limits{})
	var inside atomic.Int32
	leave := make(chan struct{})
	done := make(chan error, 3)
	call := func(ctx context.Context) {
		_, _, err := m.Call(ctx, "tenant", "provision", []byte("x"), func(context.Context, string, []byte) []byte {
			inside.Add(1)
			<-leave
			return []byte("{}")
		})
		done <- err
	}
	go call(context.Background())
	go call(context.Background())
	require.Eventually(t, func() bool { return inside.Load() == 2 }, 20*time.Second, time.Millisecond)
	require.Equal(t, 2, s.Workers())

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	call(ctx)
	require.ErrorIs(t, <-done, context.DeadlineExceeded)
	require.Equal(t, int32(2), inside.Load(), "the third never got a worker")
	close(leave)
	require.NoError(t, <-done)
	require.NoError(t, <-done)
}

// TestLogLevel proves that a guest can learn what it need not format.
func TestLogLevel(t *testing.T) {
	b := wasmtest.New()
	level := b.Import(wasmtest.Env, "get_log_level", nil, []byte{wasmtest.I32})
	wasm := b.Provisioner(wasmtest.Call(level))
	at := func(level slog.Level) *slog.Logger {
		return slog.New(slog.NewTextHandler(&logBuffer{}, &slog.HandlerOptions{Level: level}))
	}
	cases := map[string]struct {
		reason string
		logger *slog.Logger
		want   int32
	}{
		"Trace":  {"slog counts in fours", at(slog.LevelDebug - 4), 0},
		"Debug":  {"Extism's 1", at(slog.LevelDebug), 1},
		"Info":   {"Extism's 2", at(slog.LevelInfo), 2},
		"Warn":   {"Extism's 3", at(slog.LevelWarn), 3},
		"Error":  {"Extism's 4", at(slog.LevelError), 4},
		"Silent": {"nothing is logged above errors", at(slog.LevelError + 4), 1<<31 - 1},
		"None":   {"nobody listens", nil, 1<<31 - 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := open(t, sandbox.Options{Logger: c.logger})
			code, _, err := provision(t, load(t, s, wasm, sandbox.Limits{}), nil)
			require.NoError(t, err)
			require.Equal(t, c.want, code, c.reason)
		})
	}
}

// TestLimitsComeFromOptions proves that a module's own limits win, field by field.
func TestLimitsComeFromOptions(t *testing.T) {
	s := open(t, sandbox.Options{Limits: sandbox.Limits{InputBytes: 10, OutputBytes: 10}})
	m := load(t, s, wasmtest.Echo(), sandbox.Limits{InputBytes: 20})
	_, _, err := provision(t, m, make([]byte, 21))
	faultOf(t, err, sandbox.FaultInput)
	_, _, err = provision(t, m, make([]byte, 11))
	faultOf(t, err, sandbox.FaultOutput)
	_, _, err = provision(t, m, make([]byte, 10))
	require.NoError(t, err)
}

// TestChangedCache proves that a module whose files in the cache were changed is not run.
func TestChangedCache(t *testing.T) {
	cases := map[string]struct {
		reason string
		name   string
		// tidied says that the native code is gone, so that the module has to be compiled again.
		tidied bool
	}{
		"Skeleton": {"it is what a worker loads", "skeleton.wasm", false},
		"Module":   {"it is what is compiled", "module.wasm", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, sandbox.Options{CacheDir: dir, MaxWorkers: 1})
			m := load(t, s, wasmtest.Returns(0), sandbox.Limits{})
			load(t, s, wasmtest.Echo(), sandbox.Limits{}) // takes the only worker's slot
			names, err := filepath.Glob(filepath.Join(dir, "*", m.Digest()[len("sha256:"):], c.name))
			require.NoError(t, err)
			require.Len(t, names, 1)
			content, err := os.ReadFile(names[0])
			require.NoError(t, err)
			content[len(content)-2] ^= 4
			require.NoError(t, os.WriteFile(names[0], content, 0o600))
			if c.tidied {
				require.NoError(t, os.Remove(filepath.Join(filepath.Dir(names[0]), "native.json")))
			}
			_, _, err = provision(t, m, nil)
			require.ErrorContains(t, err, "has been changed", c.reason)
		})
	}
}

// TestLoadIsInterrupted proves that a caller who gives up is not told that the module
// is bad.
func TestLoadIsInterrupted(t *testing.T) {
	s := open(t, sandbox.Options{Worker: fakeCommand(t, "unread")})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := s.Load(ctx, wasmtest.New().Custom("ballast", string(make([]byte, 1<<20))).Provisioner(wasmtest.I32Const(9)), sandbox.Limits{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	var refused *sandbox.LoadError
	require.NotErrorAs(t, err, &refused)
}
