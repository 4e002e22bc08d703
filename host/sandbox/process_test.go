package sandbox_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/sandbox"
	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// fakeCommand is the command of a false worker.
func fakeCommand(tb testing.TB, name string) []string {
	tb.Helper()
	return append(self(tb), sandbox.FakeWorker(name))
}

func TestNewRefusesPrograms(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("not a program"), 0o700))
	cases := map[string]struct {
		reason  string
		command []string
		text    string
	}{
		"Missing": {"there is no such file", []string{"/nonexistent/caisson-worker"}, "no such file"},
		"Text":    {"the file is no program", []string{text}, "start"},
		"Exits":   {"a program that ends", fakeCommand(t, "exits"), "ended without a greeting (exit status 3)"},
		"Speaks":  {"a program that prints its usage", fakeCommand(t, "text"), "first words"},
		"Garbage": {"a program that claims a frame of 4 GiB", fakeCommand(t, "garbage"), "first words"},
		"Version": {"a worker of another version", fakeCommand(t, "version"), "first words"},
		"Silent":  {"a program that waits", fakeCommand(t, "silent"), "did not greet within"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := 10 * time.Second
			if name == "Silent" {
				start = 300 * time.Millisecond
			}
			_, err := sandbox.New(sandbox.Options{Worker: c.command, CacheDir: t.TempDir(), StartTimeout: start})
			require.ErrorIs(t, err, sandbox.ErrWorkerUnusable, c.reason)
			require.ErrorContains(t, err, c.text, c.reason)
			require.ErrorContains(t, err, c.command[0], "the text says which program")
		})
	}
}

// TestFalseWorkers proves that the parent survives whatever a worker may send, and
// says that the worker is to blame.
func TestFalseWorkers(t *testing.T) {
	cases := map[string]struct {
		reason string
		kind   sandbox.FaultKind
		abi    string
		text   string
	}{
		"dies":            {"a worker that panics", sandbox.FaultCrash, abi.ReasonModuleCrashed, "exit status 4): panic: boom"},
		"dies-of-memory":  {"the memory limit ends a Go program like this", sandbox.FaultMemory, abi.ReasonMemoryExceeded, "ran out of memory"},
		"closes":          {"a worker that closes its pipe and stays", sandbox.FaultCrash, abi.ReasonModuleCrashed, "ended"},
		"other-call":      {"an answer to a call that was not made", sandbox.FaultCrash, abi.ReasonModuleCrashed, "during call"},
		"out-of-place":    {"a frame that has no business in a call", sandbox.FaultCrash, abi.ReasonModuleCrashed, "out of place"},
		"short-result":    {"a result without a code", sandbox.FaultCrash, abi.ReasonModuleCrashed, "cut off"},
		"large-frame":     {"a claim of 2 GiB", sandbox.FaultCrash, abi.ReasonModuleCrashed, "claims"},
		"large-output":    {"an output that the worker should have refused", sandbox.FaultCrash, abi.ReasonModuleCrashed, "5000 bytes, the limit is 4096"},
		"forged-timeout":  {"only the parent knows of timeouts", sandbox.FaultCrash, abi.ReasonModuleCrashed, "impossible kind"},
		"not-imported":    {"the imports bound what can be called", sandbox.FaultCrash, abi.ReasonModuleCrashed, "not imported"},
		"short-host-call": {"a host call without a name", sandbox.FaultCrash, abi.ReasonModuleCrashed, "cut off"},
		"bad-log":         {"a log line of no stream", sandbox.FaultCrash, abi.ReasonModuleCrashed, "log line"},
		"log-flood":       {"a log without end", sandbox.FaultCrash, abi.ReasonModuleCrashed, "over the limits"},
		"stderr-flood":    {"its standard error is drained and dropped", sandbox.FaultTimeout, abi.ReasonTimeout, "not over in time"},
		"hang":            {"a worker that says nothing", sandbox.FaultTimeout, abi.ReasonTimeout, "ms, the limit is 500"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, sandbox.Options{Worker: fakeCommand(t, name)})
			limits := sandbox.Limits{OutputBytes: 4096}
			if c.kind == sandbox.FaultTimeout {
				limits.Timeout = 500 * time.Millisecond
			}
			m := load(t, s, wasmtest.Asks("event", 1), limits)
			_, _, err := provision(t, m, []byte("input"))
			fault := faultOf(t, err, c.kind)
			require.Equal(t, c.abi, fault.Reason(), c.reason)
			require.ErrorContains(t, err, c.text, c.reason)
			require.Equal(t, c.kind != sandbox.FaultTimeout, fault.Crashed(), c.reason)
			require.Empty(t, fault.Trap(), "no crash is a trap")
			require.Equal(t, m.Digest(), fault.Digest)
		})
	}
}

func TestFalseWorkersWhileLoading(t *testing.T) {
	cases := map[string]struct{ reason, text string }{
		"verdict":      {"a frame that is no verdict", "did not survive"},
		"refuses":      {"a refusal is quoted without its control characters", "no.[2J way"},
		"dies-loading": {"a compiler that runs out of memory", "more memory than its limit"},
		"unread":       {"a worker that does not read must not hold up the parent", "did not answer within its time limit"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, sandbox.Options{Worker: fakeCommand(t, name)})
			// More than a pipe holds, so that writing it blocks.
			wasm := wasmtest.New().Custom("ballast", string(make([]byte, 1<<20))).Provisioner(wasmtest.I32Const(0))
			_, err := s.Load(t.Context(), wasm, sandbox.Limits{CompileTimeout: 2 * time.Second})
			var refused *sandbox.LoadError
			require.ErrorAs(t, err, &refused, c.reason)
			require.Equal(t, sandbox.CompileFailed, refused.Kind, c.reason)
			require.ErrorContains(t, err, c.text, c.reason)
		})
	}
}

// TestDeadIdleWorker proves that a worker that was killed while it was idle, by the
// kernel for instance, costs the next caller nothing but time.
func TestDeadIdleWorker(t *testing.T) {
	for name, gone := range map[string]func(*sandbox.Sandbox) bool{
		"dies-idle": func(s *sandbox.Sandbox) bool { return s.Workers() == 0 },
		"deaf-idle": func(s *sandbox.Sandbox) bool { return s.Workers() == 1 }, // it is dying, and not dead yet
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, sandbox.Options{Worker: fakeCommand(t, name)})
			m := load(t, s, wasmtest.Returns(0), sandbox.Limits{})
			for range 3 {
				require.Eventually(t, func() bool { return gone(s) }, 10*time.Second, time.Millisecond)
				_, out, err := m.Call(t.Context(), "tenant", "describe", nil, nil)
				require.NoError(t, err)
				require.Equal(t, "{}", string(out))
			}
		})
	}
}

func TestWorkerIsKilledMidCall(t *testing.T) {
	s := open(t, sandbox.Options{})
	m := load(t, s, wasmtest.Asks("event", 1), sandbox.Limits{})
	_, _, err := m.Call(t.Context(), "tenant", "provision", []byte("x"), func(context.Context, string, []byte) []byte {
		sandbox.KillWorkers(t, s)
		return []byte("{}")
	})
	fault := faultOf(t, err, sandbox.FaultCrash)
	require.True(t, fault.Crashed())
	require.ErrorContains(t, err, "killed")
	code, _, err := m.Call(t.Context(), "tenant", "provision", []byte("x"), func(context.Context, string, []byte) []byte { return []byte("{}") })
	require.NoError(t, err, "the next call gets another worker")
	require.Zero(t, code)
}

func TestWorkerMain(t *testing.T) {
	cases := map[string]struct {
		reason string
		args   []string
		in     string
		code   int
		errOut string
	}{
		"ByHand":  {"a person gets an explanation", nil, "", 2, "starts it by itself"},
		"Unknown": {"another argument is no request", []string{"--help"}, "", 2, "operator"},
		"Closed":  {"a parent that goes away ends it", []string{sandbox.WorkerArgument}, "", 0, ""},
		"Garbage": {"a parent that speaks nonsense ends it", []string{sandbox.WorkerArgument}, "\x01\x00\x00\x00\x63\x00\x00\x00\x00x", 1, "out of place"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			require.Equal(t, c.code, sandbox.WorkerMain(c.args, bytes.NewReader([]byte(c.in)), &out, &errOut), c.reason)
			require.Contains(t, errOut.String(), c.errOut, c.reason)
			require.Equal(t, c.code == 2, out.Len() == 0, "it greets before it reads")
		})
	}
}

func TestCloseEndsEverything(t *testing.T) {
	s, err := sandbox.New(sandbox.Options{Worker: workerCommand(t)})
	require.NoError(t, err)
	m, err := s.Load(t.Context(), wasmtest.Sleeps(1<<50), sandbox.Limits{})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		_, _, err := m.Call(context.Background(), "tenant", "provision", nil, nil)
		done <- err
	}()
	require.Eventually(t, func() bool { return sandbox.WorkersAtWork(s) == 1 }, 10*time.Second, time.Millisecond)
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-done, sandbox.ErrClosed)
	require.NoError(t, s.Close(), "closing twice is fine")
	_, err = s.Load(t.Context(), wasmtest.Echo(), sandbox.Limits{})
	require.ErrorIs(t, err, sandbox.ErrClosed)
	_, _, err = m.Call(t.Context(), "tenant", "provision", nil, nil)
	require.ErrorIs(t, err, sandbox.ErrClosed)
	m.Close()
}

func TestCancelKillsPromptly(t *testing.T) {
	s := open(t, sandbox.Options{})
	m := load(t, s, wasmtest.Stallers()["expo"], sandbox.Limits{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, _, err := m.Call(ctx, "tenant", "provision", nil, nil)
		done <- err
	}()
	require.Eventually(t, func() bool { return sandbox.WorkersAtWork(s) == 1 }, 10*time.Second, time.Millisecond)
	cancel()
	select {
	case err := <-done:
		require.ErrorIs(t, err, context.Canceled)
		var fault *sandbox.Fault
		require.NotErrorAs(t, err, &fault, "a cancelled call is nobody's fault")
	case <-time.After(5 * time.Second):
		require.Fail(t, "the call outlived its context")
	}
}

func TestCacheMustBePrivate(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sandbox-v1"), 0o755))
	_, err := sandbox.New(sandbox.Options{Worker: self(t), CacheDir: dir})
	require.ErrorContains(t, err, "only this user")
}

func TestLimitsAreChecked(t *testing.T) {
	_, err := sandbox.New(sandbox.Options{Worker: self(t), Limits: sandbox.Limits{MemoryBytes: 1 << 40, Timeout: -1}})
	require.ErrorContains(t, err, "limit MemoryBytes is 1099511627776, it must be between 65536 and 4294967296")
	require.ErrorContains(t, err, "limit Timeout is -1")
	s := open(t, sandbox.Options{})
	_, err = s.Load(t.Context(), wasmtest.Echo(), sandbox.Limits{ArenaBytes: -1})
	require.ErrorContains(t, err, "limit ArenaBytes is -1")
}
