package sandbox_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/sandbox"
	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// trusting opens a sandbox that runs modules in this process. Its worker is this program,
// because the compiler names its files by the version of the program that it is in.
func trusting(tb testing.TB) *sandbox.Sandbox {
	tb.Helper()
	return open(tb, sandbox.Options{AllowInProcess: true, Worker: self(tb), CacheDir: ownCache(tb)})
}

// ownCache is a cache of these tests, beside the one of the worker that is shipped.
func ownCache(tb testing.TB) string {
	tb.Helper()
	dir := filepath.Join(sharedCache, "in-process")
	require.NoError(tb, os.MkdirAll(dir, 0o700))
	return dir
}

// here loads a module into this process.
func here(tb testing.TB, s *sandbox.Sandbox, wasm []byte, limits sandbox.Limits) *sandbox.Module {
	tb.Helper()
	m, err := s.LoadInProcess(tb.Context(), wasm, limits)
	require.NoError(tb, err)
	tb.Cleanup(m.Close)
	return m
}

func TestInProcessMustBeAllowed(t *testing.T) {
	s := open(t, sandbox.Options{})
	_, err := s.LoadInProcess(t.Context(), wasmtest.Echo(), sandbox.Limits{})
	require.ErrorIs(t, err, sandbox.ErrInProcessNotAllowed)
	require.Zero(t, s.Stats().Compilations, "it is not even looked at")
}

// TestInProcess: a module that is trusted gives the same answers, and there is no process
// for it.
func TestInProcess(t *testing.T) {
	s := trusting(t)
	echo := here(t, s, wasmtest.Echo(), sandbox.Limits{})
	_, out, err := provision(t, echo, []byte("hello"))
	require.NoError(t, err)
	require.Equal(t, "hello", string(out))
	require.Empty(t, sandbox.PIDs(s), "no other process is left at work")
	require.Equal(t, 1, s.Workers())

	counter := here(t, s, wasmtest.Counts(), sandbox.Limits{})
	golang := here(t, s, goGuest(t), sandbox.Limits{})
	for range 3 {
		code, _, err := provision(t, counter, nil)
		require.NoError(t, err)
		require.EqualValues(t, 1, code, "no call sees what another left")
		_, out, err := golang.Call(t.Context(), "tenant", "provision", []byte(`{"calls":3}`), answerConfigMap)
		require.NoError(t, err)
		require.Contains(t, string(out), `"calls":1,`)
		require.Contains(t, string(out), `"answers":["n0","n1","n2"]`)
	}
	require.Positive(t, s.Stats().RestoredCalls)

	compiled := s.Stats().Compilations
	here(t, s, goGuest(t), sandbox.Limits{MemoryBytes: 64 << 20})
	require.Equal(t, compiled, s.Stats().Compilations, "its native code is kept like any other")
	beside := load(t, s, goGuest(t), sandbox.Limits{})
	_, _, err = provision(t, beside, []byte(`{}`))
	require.NoError(t, err, "and is not that of the same module in a worker")
	require.Len(t, sandbox.PIDs(s), 1)
}

// TestAttacksInProcess lets everything loose that a limit stops which needs no process:
// it ends as it does in a worker.
func TestAttacksInProcess(t *testing.T) {
	heartbeat(t, stillTolerated)
	s := trusting(t)
	before := runtime.NumGoroutine()
	for _, a := range wasmtest.Attacks() {
		switch {
		case a.By == wasmtest.ByCPU:
			continue // processor time is counted for a process
		case a.By == wasmtest.ByCrash, a.Name == "memfill":
			continue // they end the process, and their call long after its deadline: see LoadInProcess
		case a.By == wasmtest.ByPreflight, a.By == wasmtest.ByCompiler, a.By == wasmtest.ByCompileLimit:
			continue // they are refused before it matters where they run
		}
		t.Run(a.Name, func(t *testing.T) {
			requireContainedBy(t, s.LoadInProcess, a)
		})
	}
	require.Eventually(t, func() bool { return s.Workers() == 0 && runtime.NumGoroutine() <= before+5 }, time.Minute, 5*time.Millisecond,
		"none of them is still running")
}

// TestInProcessWithoutAProcess: what only a process can be held to does not hold, and says
// so in the documentation.
func TestInProcessWithoutAProcess(t *testing.T) {
	s := trusting(t)
	m := here(t, s, wasmtest.Computes(30_000_000, "event"), sandbox.Limits{CPU: time.Millisecond})
	_, _, err := provision(t, m, nil)
	require.NoError(t, err)
}

// TestInProcessCancelled: a caller who goes away does not wait for the guest.
func TestInProcessCancelled(t *testing.T) {
	s := trusting(t)
	m := here(t, s, wasmtest.Stallers()["expo"], sandbox.Limits{Timeout: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, _, err := m.Call(ctx, "tenant", "provision", nil, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.Eventually(t, func() bool { return s.Workers() == 0 }, time.Minute, time.Millisecond)
	echo := here(t, s, wasmtest.Echo(), sandbox.Limits{})
	_, _, err = provision(t, echo, nil)
	require.NoError(t, err)
}

// TestInProcessHammer calls from many goroutines while modules and the sandbox close.
func TestInProcessHammer(t *testing.T) {
	s, err := sandbox.New(sandbox.Options{Worker: self(t), CacheDir: ownCache(t), AllowInProcess: true, MaxWorkers: 4})
	require.NoError(t, err)
	m, err := s.LoadInProcess(t.Context(), wasmtest.Echo(), sandbox.Limits{})
	require.NoError(t, err)
	var calls sync.WaitGroup
	for i := range 8 {
		calls.Go(func() {
			payload := strings.Repeat(string(rune('a'+i)), 1000)
			for range 50 {
				_, out, err := m.Call(context.Background(), string(rune('a'+i%3)), "provision", []byte(payload), nil)
				if err != nil || string(out) != payload {
					t.Errorf("%v", err)
					return
				}
			}
		})
	}
	calls.Wait()
	require.NoError(t, s.Close())
	require.Zero(t, s.Workers())
	_, _, err = m.Call(t.Context(), "tenant", "provision", nil, nil)
	require.ErrorIs(t, err, sandbox.ErrClosed)
}
