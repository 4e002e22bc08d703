package sandbox_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/sandbox"
	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// TestTableLimit goes through a worker, up to the limit and over it; a change of the limit
// compiles nothing again.
func TestTableLimit(t *testing.T) {
	s := open(t, sandbox.Options{CacheDir: t.TempDir()})
	grow := wasmtest.Join([]byte{0xd0, 0x6f}, wasmtest.I32Const(99), []byte{0xfc, 0x0f, 0})
	refused := []byte{0x41, 0x7f, 0x46, 0x04, 0x40, 0x00, 0x0b} // == -1, if, unreachable, end
	strict := wasmtest.New().Table(0x6f, 1).Provisioner(grow, refused, wasmtest.I32Const(0))
	easy := wasmtest.New().Table(0x6f, 1).Provisioner(grow, wasmtest.Drop(), wasmtest.I32Const(0))
	for i, limit := range []int{100, 99, 1 << 20} {
		m := load(t, s, strict, sandbox.Limits{TableElements: limit})
		require.Contains(t, m.FreshReason(), "table.grow")
		for range 2 {
			_, _, err := provision(t, m, nil)
			if limit >= 100 {
				require.NoError(t, err, "near miss")
				continue
			}
			fault := faultOf(t, err, sandbox.FaultTable)
			require.Equal(t, abi.ReasonTableExceeded, fault.Reason())
			require.Equal(t, []int64{99, 100}, []int64{fault.Limit, fault.Got})
			require.ErrorContains(t, err, "the guest was refused a larger table, then: unreachable (100 elements, the limit is 99)")
			require.False(t, fault.Crashed())
			require.Empty(t, fault.Trap(), "a limit is no trap")
		}
		require.EqualValues(t, 1, s.Stats().Compilations, "limit %d", i)
	}
	m := load(t, s, easy, sandbox.Limits{TableElements: 99})
	_, _, err := provision(t, m, nil)
	require.NoError(t, err, "who is refused may go on")
}

// TestTableLimitOfAStartFunction: what runs before everything else is held to it as well.
func TestTableLimitOfAStartFunction(t *testing.T) {
	s := open(t, sandbox.Options{})
	b := wasmtest.New().Table(0x70, 0)
	b.Start(b.Func(nil, nil, 0, []byte{0xd0, 0x70}, wasmtest.I32Const(5), []byte{0xfc, 0x0f, 0, 0x41, 0x7f, 0x46, 0x04, 0x40, 0x00, 0x0b}))
	wasm := b.Provisioner([]byte{0xfc, 0x10, 0}) // the size
	m := load(t, s, wasm, sandbox.Limits{TableElements: 5})
	code, _, err := provision(t, m, nil)
	require.NoError(t, err)
	require.EqualValues(t, 5, code)
	_, err = s.Load(t.Context(), wasm, sandbox.Limits{TableElements: 4})
	var refusedToLoad *sandbox.LoadError
	require.ErrorAs(t, err, &refusedToLoad)
	fault := faultOf(t, err, sandbox.FaultTable)
	require.Equal(t, []int64{4, 5}, []int64{fault.Limit, fault.Got})
}
