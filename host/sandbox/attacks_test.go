package sandbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/sandbox"
	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// TestAttacks runs every attack through a real worker, and checks that it is stopped by
// what the table says, that the sandbox serves a neighbour afterwards, and that this
// process goes on meanwhile. `make attack` does the same to a running operator.
func TestAttacks(t *testing.T) {
	heartbeat(t, stillTolerated)
	s := open(t, sandbox.Options{})
	neighbour := load(t, s, wasmtest.Echo(), sandbox.Limits{})
	attacks := wasmtest.Attacks()
	require.GreaterOrEqual(t, len(attacks), 60)
	t.Run("all", func(t *testing.T) {
		seen := map[string]bool{}
		for _, a := range attacks {
			require.Regexp(t, "^[a-z0-9-]+$", a.Name)
			require.False(t, seen[a.Name], "two attacks are called %s", a.Name)
			seen[a.Name] = true
			t.Run(a.Name, func(t *testing.T) {
				t.Parallel()
				requireContainedBy(t, s.Load, a)
			})
		}
	})
	_, out, err := provision(t, neighbour, []byte("still here"))
	require.NoError(t, err)
	require.Equal(t, "still here", string(out))
	require.Eventually(t, func() bool { return sandbox.WorkersAtWork(s) == 0 }, 10*time.Second, time.Millisecond, "no worker is left at work")
}

// loading is one of the ways to load a module.
type loading func(context.Context, []byte, sandbox.Limits) (*sandbox.Module, error)

// requireContainedBy runs one attack.
func requireContainedBy(t *testing.T, load loading, a wasmtest.Attack) {
	t.Helper()
	limits := sandbox.Limits{TableElements: a.Tables}
	switch a.By {
	case wasmtest.ByTimeout, wasmtest.ByDescribe:
		limits.Timeout = 300 * time.Millisecond
	case wasmtest.ByCPU:
		limits.CPU = 100 * time.Millisecond
	case wasmtest.ByCompileLimit:
		limits.CompileTimeout = time.Second
	case wasmtest.ByMemory:
		limits.MemoryBytes = 16 << 20
	default:
	}
	m, err := load(t.Context(), a.Wasm, limits)
	var refused *sandbox.LoadError
	switch a.By {
	case wasmtest.ByPreflight:
		require.ErrorAs(t, err, &refused)
		require.NotContains(t, []sandbox.LoadErrorKind{sandbox.CompileFailed, sandbox.DescribeFailed}, refused.Kind, "%v", err)
		return
	case wasmtest.ByCompiler, wasmtest.ByCompileLimit:
		require.ErrorAs(t, err, &refused)
		require.Equal(t, sandbox.CompileFailed, refused.Kind, "%v", err)
		var fault *sandbox.Fault
		if a.By == wasmtest.ByCompileLimit {
			require.ErrorAs(t, err, &fault)
		} else {
			require.NotErrorAs(t, err, &fault, "the compiler says so itself")
		}
		return
	case wasmtest.ByDescribe:
		require.ErrorAs(t, err, &refused)
		require.Equal(t, sandbox.DescribeFailed, refused.Kind, "%v", err)
		return
	default:
	}
	require.NoError(t, err)
	defer m.Close()
	const response = `{"error":{"code":"denied","message":"no"}}`
	answer := func(context.Context, string, []byte) []byte { return []byte(response) }
	_, _, err = m.Call(t.Context(), "tenant", "provision", []byte("{}"), answer)
	switch a.By {
	case wasmtest.ByTimeout:
		faultOf(t, err, sandbox.FaultTimeout)
	case wasmtest.ByCPU:
		faultOf(t, err, sandbox.FaultCPU)
	case wasmtest.ByTable:
		faultOf(t, err, sandbox.FaultTable)
	case wasmtest.ByHostCalls:
		faultOf(t, err, sandbox.FaultHostCalls)
	case wasmtest.ByMemory:
		require.False(t, faultOf(t, err, sandbox.FaultMemory).Crashed())
	case wasmtest.ByCrash:
		var fault *sandbox.Fault
		require.ErrorAs(t, err, &fault)
		require.True(t, fault.Crashed(), "only a crash is counted for a quarantine")
	case wasmtest.ByTrap:
		require.NotEmpty(t, faultOf(t, err, sandbox.FaultTrap).Trap())
	case wasmtest.ByOutput:
		faultOf(t, err, sandbox.FaultOutput)
	case wasmtest.ByValue, wasmtest.ByManifest:
		require.NoError(t, err)
	default:
		t.Fatalf("nobody knows how to be contained by %s", a.By)
	}
}

// TestAttacksKeepTheirManifest proves that a module with a manifest is what it is without
// one: the operator is attacked with these.
func TestAttacksKeepTheirManifest(t *testing.T) {
	const manifest = `{"abi":1,"name":"attack","version":"1.0.0"}`
	for _, a := range wasmtest.Attacks() {
		_, plain := sandbox.Preflight(a.Wasm, sandbox.Limits{})
		inspected, with := sandbox.Preflight(a.With(manifest), sandbox.Limits{})
		require.Equal(t, plain == nil, with == nil, "%s: %v, and with a manifest %v", a.Name, plain, with)
		require.Equal(t, a.By == wasmtest.ByPreflight, with != nil, "%s: %v", a.Name, with)
		if with == nil && a.By != wasmtest.ByManifest {
			require.JSONEq(t, manifest, string(inspected.Manifest), a.Name)
		}
	}
}
