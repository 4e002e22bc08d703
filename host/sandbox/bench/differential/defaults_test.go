package differential_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/sandbox"
	"github.com/caisson-dev/caisson/host/sandbox/bench/internal/oracle"
	wt "github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// TestRandomness shows what an embedder of go-sdk gets who does not know: the same random
// numbers and the same time in every instance. The sandbox has no such default.
func TestRandomness(t *testing.T) {
	c := &catalogue{subjects: map[string]subject{}, used: map[string]int{}}
	c.numbers("random and time", "", func(s *script) [][]byte {
		return [][]byte{
			wt.Join(wt.I32Const(0), wt.I32Const(4), s.call("random_get"), wt.Drop(), wt.I32Const(0), wt.LoadI32(), extend),
			wt.Join(wt.I32Const(0), wt.I64Const(1), wt.I32Const(8), s.call("clock_time_get"), wt.Drop(), wt.I32Const(12), wt.LoadI32(), extend),
		}
	})
	s := c.subjects["random and time"]
	m, err := oracle.Compile(t.Context(), s.wasm, oracle.Options{Defaults: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close(context.Background())) }()
	seen := map[string]int{}
	for range 2 {
		i, err := m.Instance(t.Context())
		require.NoError(t, err)
		seen[s.show(i.Call(t.Context(), abi.ExportProvision, nil, nil).Output)]++
	}
	require.Len(t, seen, 1, "go-sdk has become better")
	h := load(t, s.wasm)
	one, other := h.observeOurs(t, s), h.observeOurs(t, s)
	require.NotEqual(t, one, other)
}

// TestDeadline shows what is left of a module that was stopped: nothing in go-sdk, which
// closes it, and a new state in the sandbox. And a loop-free module is not stopped there
// at all, which no test can wait for.
func TestDeadline(t *testing.T) {
	const limit = 200 * time.Millisecond
	wasm := wt.New().Provisioner(wt.Loop(), wt.I32Const(0))
	m, err := oracle.Compile(t.Context(), wasm, oracle.Options{Timeout: limit})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close(context.Background())) }()
	i, err := m.Instance(t.Context())
	require.NoError(t, err)
	require.Contains(t, i.Call(t.Context(), abi.ExportProvision, nil, nil).Trap, "deadline exceeded")
	require.Equal(t, "module is closed", i.Call(t.Context(), abi.ExportDescribe, nil, nil).Trap)

	ours, err := shared(t).Load(t.Context(), wasm, sandbox.Limits{Timeout: limit})
	require.NoError(t, err)
	defer ours.Close()
	_, _, err = ours.Call(t.Context(), "tenant", abi.ExportProvision, nil, nil)
	var fault *sandbox.Fault
	require.ErrorAs(t, err, &fault)
	require.Equal(t, sandbox.FaultTimeout, fault.Kind)
	code, _, err := ours.Call(t.Context(), "tenant", abi.ExportDescribe, nil, nil)
	require.NoError(t, err)
	require.Zero(t, code)
}

// TestForgedDeadline shows why an exit is never read as anything else: the code that
// wazero gives to a deadline can be given by a guest.
func TestForgedDeadline(t *testing.T) {
	h := load(t, wt.Exits(-0x10000001))
	s := subject{}
	require.Equal(t, "exited 4026531839", h.observeTheirs(t, s)[0]["ended"])
	require.Equal(t, "exited 4026531839", h.observeOurs(t, s)[0]["ended"])
}
