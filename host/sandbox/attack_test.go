package sandbox_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/sandbox"
	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// stillTolerated is how long the test's own goroutines may be held up while an attack
// runs. An attack that reaches this process holds them up for ever; a busy machine
// for a fraction of it.
const stillTolerated = 3 * time.Second

// TestStallers runs modules that never come back: each ends at its deadline, and the
// process that embeds the sandbox goes on.
func TestStallers(t *testing.T) {
	heartbeat(t, stillTolerated)
	s := open(t, sandbox.Options{})
	for name, wasm := range wasmtest.Stallers() {
		t.Run(name, func(t *testing.T) {
			limits := sandbox.Limits{Timeout: 500 * time.Millisecond}
			if name == "startloop" {
				_, err := s.Load(t.Context(), wasm, limits)
				var refused *sandbox.LoadError
				require.ErrorAs(t, err, &refused, "the start function runs before describe can")
				require.Equal(t, sandbox.DescribeFailed, refused.Kind)
				faultOf(t, err, sandbox.FaultTimeout)
				return
			}
			m := load(t, s, wasm, limits)
			_, _, err := provision(t, m, nil)
			fault := faultOf(t, err, sandbox.FaultTimeout)
			require.Equal(t, abi.ReasonTimeout, fault.Reason())
			require.Equal(t, int64(500), fault.Limit)
			require.False(t, fault.Crashed())
			require.NoError(t, t.Context().Err(), "the caller's own context is fine")
		})
	}
}

// TestHungry runs modules that want more memory than there is for them.
func TestHungry(t *testing.T) {
	heartbeat(t, stillTolerated)
	s := open(t, sandbox.Options{})
	t.Run("memory", func(t *testing.T) {
		m := load(t, s, wasmtest.Allocates(), sandbox.Limits{MemoryBytes: 16 << 20})
		_, _, err := provision(t, m, nil)
		fault := faultOf(t, err, sandbox.FaultMemory)
		require.Equal(t, abi.ReasonMemoryExceeded, fault.Reason())
		require.Equal(t, int64(16<<20), fault.Limit)
		require.Equal(t, int64(257<<16), fault.Got, "what it asked for, 16 pages at a time from one page on")
		require.False(t, fault.Crashed(), "the guest was refused, its worker is well")
		require.Empty(t, fault.Trap())
	})
	t.Run("table", func(t *testing.T) {
		m := load(t, s, wasmtest.GrowsTable(), sandbox.Limits{TableElements: 1 << 27})
		_, _, err := provision(t, m, nil)
		fault := faultOf(t, err, sandbox.FaultMemory)
		require.Equal(t, abi.ReasonMemoryExceeded, fault.Reason())
		require.True(t, fault.Crashed(), "who allows tables of a gigabyte is left with the limit of the process")
	})
	t.Run("Go", func(t *testing.T) {
		m := load(t, s, goGuest(t), sandbox.Limits{MemoryBytes: 32 << 20})
		_, _, err := provision(t, m, []byte(`{"do":"allocate"}`))
		fault := faultOf(t, err, sandbox.FaultMemory)
		require.Equal(t, int64(32<<20), fault.Limit)
		require.NotEmpty(t, fault.Stderr, "Go's own words are for the log")
		code, _, err := provision(t, m, []byte(`{}`))
		require.NoError(t, err, "the next call is a new life")
		require.Zero(t, code)
	})
	t.Run("arena", func(t *testing.T) {
		m := load(t, s, wasmtest.Outputs(1<<20), sandbox.Limits{ArenaBytes: 1 << 16})
		_, out, err := provision(t, m, nil)
		require.NoError(t, err, "an allocation that fails gives 0, and the guest goes on")
		require.Empty(t, out)
		_, _, err = provision(t, m, make([]byte, 1<<17))
		fault := faultOf(t, err, sandbox.FaultMemory)
		require.Equal(t, int64(1<<16), fault.Limit)
		require.Equal(t, int64(1<<17), fault.Got)
	})
}

// TestTraps runs modules that fail by themselves, and some that pretend to have been
// stopped.
func TestTraps(t *testing.T) {
	heartbeat(t, stillTolerated)
	s := open(t, sandbox.Options{})
	cases := map[string]struct {
		reason string
		wasm   []byte
		text   string
		trap   string
	}{
		"Unreachable": {"a trap", wasmtest.New().Provisioner(wasmtest.Unreachable()), "unreachable", "unreachable in "},
		"DivideBy0":   {"another trap", wasmtest.New().Provisioner(wasmtest.I32Const(1), wasmtest.I32Const(0), []byte{0x6e}), "integer divide by zero", "integer divide by zero in "},
		"OutOfBounds": {"memory that is not there", wasmtest.New().Memory(1, 0).Provisioner(wasmtest.I32Const(-16), []byte{0x28, 2, 0}), "out of bounds", "out of bounds memory access in "},
		"Recursion":   {"a stack without end", wasmtest.Recurses(), "stack overflow", "stack overflow"},
		"Exit0":       {"an exit is no result, whatever its code", wasmtest.Exits(0), "exited with code 0", "exit 0"},
		"ExitTimeout": {"an exit code that wazero uses for deadlines", wasmtest.Exits(-0x10000001), "exited with code 4026531839", "exit 4026531839"},
		"ErrorText":   {"an error text before a trap is kept", wasmtest.Says("error_set", "disk full", wasmtest.Unreachable()), "disk full", "unreachable in "},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := load(t, s, c.wasm, sandbox.Limits{})
			_, _, err := provision(t, m, nil)
			fault := faultOf(t, err, sandbox.FaultTrap)
			require.Equal(t, abi.ReasonModuleTrap, fault.Reason(), c.reason)
			require.ErrorContains(t, err, c.text, c.reason)
			require.Contains(t, fault.Trap(), c.trap, c.reason)
			require.False(t, fault.Crashed(), c.reason)
			require.NotContains(t, err.Error(), "\n", "a log line is one line")
			_, _, again := provision(t, m, nil)
			require.Equal(t, fault.Trap(), faultOf(t, again, sandbox.FaultTrap).Trap(), "the same fault has the same identity")
		})
	}
}

// TestGoTraps runs the ways in which a Go guest ends itself.
func TestGoTraps(t *testing.T) {
	s := open(t, sandbox.Options{})
	m := load(t, s, goGuest(t), sandbox.Limits{Timeout: 5 * time.Second})
	t.Run("panic", func(t *testing.T) {
		_, _, err := provision(t, m, []byte(`{"do":"panic"}`))
		fault := faultOf(t, err, sandbox.FaultTrap)
		require.Equal(t, "about to panic", fault.GuestError)
		require.Contains(t, fault.Stderr[0], "panic: at ")
		require.NotContains(t, fault.Trap(), "panic: at", "the message differs from call to call, the identity must not")
		_, _, err = provision(t, m, []byte(`{"do":"panic"}`))
		again := faultOf(t, err, sandbox.FaultTrap)
		require.Equal(t, fault.Trap(), again.Trap())
		require.NotEqual(t, fault.Stderr[0], again.Stderr[0])
	})
	t.Run("exit", func(t *testing.T) {
		_, _, err := provision(t, m, []byte(`{"do":"exit"}`))
		require.Equal(t, "exit 3", faultOf(t, err, sandbox.FaultTrap).Trap())
	})
	t.Run("deadlock", func(t *testing.T) {
		_, _, err := provision(t, m, []byte(`{"do":"deadlock"}`))
		faultOf(t, err, sandbox.FaultTrap)
	})
	t.Run("after", func(t *testing.T) {
		code, out, err := provision(t, m, []byte(`{}`))
		require.NoError(t, err)
		require.Zero(t, code)
		require.Contains(t, string(out), `"calls":1,`)
	})
}

// TestBombsDoNotReachAWorker proves that Load looks before it compiles.
func TestBombsDoNotReachAWorker(t *testing.T) {
	heartbeat(t, stillTolerated)
	s := open(t, sandbox.Options{})
	require.Eventually(t, func() bool { return s.Workers() == 0 }, 10*time.Second, time.Millisecond)
	for name, wasm := range wasmtest.Bombs() {
		t.Run(name, func(t *testing.T) {
			_, err := s.Load(t.Context(), wasm, sandbox.Limits{})
			var refused *sandbox.LoadError
			require.ErrorAs(t, err, &refused)
			require.NotEqual(t, sandbox.CompileFailed, refused.Kind)
			require.Zero(t, s.Workers())
		})
	}
}

// TestCompilerIsBounded gives the compiler work that preflight has to let through.
func TestCompilerIsBounded(t *testing.T) {
	heartbeat(t, stillTolerated)
	s := open(t, sandbox.Options{})
	t.Run("deadline", func(t *testing.T) {
		// Nested as deep as it may be, as often as fits: each function takes about a second.
		b := wasmtest.New()
		for range 20 {
			b.RawFunc(wasmtest.Join([]byte{0}, wasmtest.Repeat(9_000, []byte{0x02, 0x40}), wasmtest.Repeat(9_001, []byte{0x0b})))
		}
		_, err := s.Load(t.Context(), b.Provisioner(wasmtest.I32Const(0)), sandbox.Limits{CompileTimeout: time.Second})
		var refused *sandbox.LoadError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, sandbox.CompileFailed, refused.Kind)
		faultOf(t, err, sandbox.FaultTimeout)
	})
	t.Run("invalid", func(t *testing.T) {
		// Well-formed, but its types do not match: only the compiler sees that.
		_, err := s.Load(t.Context(), wasmtest.New().Provisioner(wasmtest.I64Const(0)), sandbox.Limits{})
		var refused *sandbox.LoadError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, sandbox.CompileFailed, refused.Kind)
		require.ErrorContains(t, err, "cannot use i64")
	})
	t.Run("memory", func(t *testing.T) {
		// One body near its limit takes some 400 MB.
		body := wasmtest.Repeat(400_000, wasmtest.I32Const(1), wasmtest.I32Const(2), wasmtest.AddI32(), wasmtest.Drop())
		_, err := s.Load(t.Context(), wasmtest.New().Provisioner(body, wasmtest.I32Const(0)), sandbox.Limits{NativeBytes: 64 << 20})
		var refused *sandbox.LoadError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, sandbox.CompileFailed, refused.Kind)
		require.True(t, faultOf(t, err, sandbox.FaultMemory).Crashed())
	})
	require.Eventually(t, func() bool { return s.Workers() == 0 }, 10*time.Second, time.Millisecond, "no compiler is left behind")
}

// TestHarmless runs modules that look like attacks and need not be refused.
func TestHarmless(t *testing.T) {
	s := open(t, sandbox.Options{})
	t.Run("a name that belongs to the host", func(t *testing.T) {
		for _, name := range []string{wasmtest.WASI, wasmtest.Env, wasmtest.User, "env"} {
			m := load(t, s, wasmtest.Hijacks(name), sandbox.Limits{})
			for range 2 {
				code, _, err := provision(t, m, nil)
				require.NoError(t, err)
				require.Zero(t, code)
			}
		}
	})
	t.Run("a memory that may grow over the limit", func(t *testing.T) {
		wasm := wasmtest.New().Memory(1, 65536).Provisioner(wasmtest.I32Const(1000), wasmtest.GrowMemory())
		m := load(t, s, wasm, sandbox.Limits{MemoryBytes: 1 << 20})
		code, _, err := provision(t, m, nil)
		require.NoError(t, err, "a guest that copes with a refusal has no fault")
		require.Equal(t, int32(-1), code)
	})
	t.Run("memory up to the limit", func(t *testing.T) {
		wasm := wasmtest.New().Memory(1, 0).Provisioner(wasmtest.I32Const(15), wasmtest.GrowMemory())
		m := load(t, s, wasm, sandbox.Limits{MemoryBytes: 1 << 20})
		code, _, err := provision(t, m, nil)
		require.NoError(t, err)
		require.Equal(t, int32(1), code)
	})
}

// TestManyCalls proves that a worker neither leaks memory nor files.
func TestManyCalls(t *testing.T) {
	s := open(t, sandbox.Options{MaxWorkers: 1})
	m := load(t, s, wasmtest.Asks("event", 1), sandbox.Limits{MemoryBytes: 256 << 20})
	// Each call reserves 256 MiB of address space and the whole worker has less than
	// four times that: without giving it back the fourth call would fail.
	wasm := wasmtest.New().Memory(16, 0).Provisioner(wasmtest.I32Const(0))
	memory := load(t, s, wasm, sandbox.Limits{MemoryBytes: 256 << 20})
	for _, module := range []*sandbox.Module{m, memory} {
		for range 500 {
			code, _, err := provision(t, module, []byte("x"))
			require.NoError(t, err)
			require.Zero(t, code)
		}
	}
	require.Equal(t, 1, s.Workers(), "one worker served them all")
}
