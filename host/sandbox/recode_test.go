package sandbox

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// growers are modules that grow tables in every way that the rewriting must find.
func growers() map[string][]byte {
	const function, external = 0x70, 0x6f
	grow := func(typ, table byte, n int32) []byte {
		return wasmtest.Join([]byte{0xd0, typ}, wasmtest.I32Const(n), []byte{0xfc, 0x0f, table})
	}
	none, i32 := []byte(nil), []byte{wasmtest.I32}
	two := wasmtest.New().Table(function, 1).Table(external, 2)
	two.Global(7)
	several := wasmtest.New().Table(external, 0)
	// A body whose length needs another byte once it is rewritten, and one before and after.
	several.Func(none, none, 0, wasmtest.Repeat(30, grow(external, 0, 0), wasmtest.Drop()))
	several.Func(none, none, 2)
	starts := wasmtest.New().Table(function, 0)
	starts.Global(1)
	starts.Start(starts.Func(none, none, 0, grow(function, 0, 5), wasmtest.Drop()))
	named := wasmtest.New().Table(function, 0)
	f := named.Func(none, none, 0, grow(function, 0, 5), wasmtest.Drop())
	named.Start(f).Export(startPrefix, f).Export(startPrefix+"_x", f)
	wide := wasmtest.New().Table(external, 1)
	g := wide.Func(i32, i32, 1, []byte{0xd0, external}, wasmtest.Get(0), []byte{0xfc, 0x8f, 0x00, 0x80, 0x00})
	return map[string][]byte{
		"function": wasmtest.New().Table(function, 1).Provisioner(grow(function, 0, 3)),
		"external": wasmtest.New().Table(external, 1).Provisioner(grow(external, 0, 3)),
		"two":      two.Provisioner(grow(external, 1, 3), wasmtest.Drop(), grow(function, 0, 3)),
		"several":  several.Provisioner(grow(external, 0, 3)),
		"starts":   starts.Provisioner(grow(function, 0, 3)),
		"named":    named.Provisioner(grow(function, 0, 3)),
		"wide":     wide.Provisioner(wasmtest.I32Const(3), wasmtest.Call(g)),
	}
}

// instantiated runs a module, and gives it the limit.
func instantiated(t *testing.T, wasm []byte, bounds *tableBounds, limit uint64) (api.Module, []string) {
	t.Helper()
	wasm, names, err := exportGlobals(wasm)
	require.NoError(t, err)
	ctx := t.Context()
	r := wazero.NewRuntime(ctx)
	t.Cleanup(func() { _ = r.Close(ctx) })
	instance, err := r.Instantiate(ctx, wasm)
	require.NoError(t, err)
	added := names[len(names)-addedGlobals:]
	instance.ExportedGlobal(added[0]).(api.MutableGlobal).Set(limit)
	if bounds.start != "" {
		_, err = instance.ExportedFunction(bounds.start).Call(ctx)
		require.NoError(t, err)
	}
	return instance, added
}

// TestBoundTables: a table grows up to its limit and no further, and else the module does
// what it did.
func TestBoundTables(t *testing.T) {
	before := map[string]uint64{"function": 1, "external": 1, "two": 1, "several": 0, "starts": 5, "named": 5, "wide": 1}
	for name, wasm := range growers() {
		t.Run(name, func(t *testing.T) {
			inspected, err := Preflight(wasm, Limits{})
			require.NoError(t, err)
			require.True(t, inspected.GrowsTables)
			require.NotEmpty(t, inspected.FreshReason, "what an instance has grown cannot be put back")
			bounded, bounds, err := boundTables(wasm)
			require.NoError(t, err)
			again, _, err := boundTables(wasm)
			require.NoError(t, err)
			require.Equal(t, bounded, again, "the same module has the same native code")
			inspected, err = Preflight(bounded, Limits{})
			require.NoError(t, err, "what comes out is a module as good as what went in")
			require.True(t, inspected.GrowsTables)

			size := before[name]
			instance, added := instantiated(t, bounded, bounds, max(size, 2)+3)
			got, err := instance.ExportedFunction("provision").Call(t.Context())
			require.NoError(t, err)
			require.Equal(t, size, got[0], "near miss: the old size")
			require.Zero(t, instance.ExportedGlobal(added[1]).Get())
			if name == "starts" || name == "named" {
				return // a lower limit holds for the start function already
			}
			instance, added = instantiated(t, bounded, bounds, size+2)
			got, err = instance.ExportedFunction("provision").Call(t.Context())
			require.NoError(t, err)
			require.Equal(t, uint64(0xffffffff), got[0], "refused")
			require.Equal(t, size+3, instance.ExportedGlobal(added[1]).Get(), "what it wanted")
		})
	}
}

func TestStartFunctionIsBounded(t *testing.T) {
	bounded, bounds, err := boundTables(growers()["starts"])
	require.NoError(t, err)
	require.Equal(t, startPrefix, bounds.start)
	instance, added := instantiated(t, bounded, bounds, 4)
	require.EqualValues(t, 5, instance.ExportedGlobal(added[1]).Get(), "it runs once there is a limit")
	_, bounds, err = boundTables(growers()["named"])
	require.NoError(t, err)
	require.Equal(t, startPrefix+"_x_", bounds.start, "no name is given twice")
}

func TestBoundTablesRefuses(t *testing.T) {
	grow := wasmtest.Join([]byte{0xd0, 0x6f}, wasmtest.I32Const(1), []byte{0xfc, 0x0f, 1})
	_, _, err := boundTables(nil)
	require.Error(t, err)
	_, _, err = boundTables([]byte("not a module at all"))
	require.Error(t, err)
	_, _, err = boundTables(wasmtest.New().Table(0x6f, 1).Provisioner(grow))
	require.ErrorContains(t, err, "table 1 does not exist")
	many := wasmtest.New().Table(0x6f, 1)
	_, err = Preflight(many.Provisioner(wasmtest.Repeat(maxGrowths+1, []byte{0xd0, 0x6f}, wasmtest.I32Const(0), []byte{0xfc, 0x0f, 0}, wasmtest.Drop()), wasmtest.I32Const(0)), Limits{})
	var refused *LoadError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, []int64{maxGrowths + 1, maxGrowths}, []int64{refused.Got, refused.Limit})
}

// TestFirstSizeOfATable: a file that starts with too much is refused before it is run.
func TestFirstSizeOfATable(t *testing.T) {
	wasm := wasmtest.New().Table(0x70, 1000).Provisioner(wasmtest.I32Const(0))
	_, err := Preflight(wasm, Limits{TableElements: 1000})
	require.NoError(t, err, "near miss")
	_, err = Preflight(wasm, Limits{TableElements: 999})
	var refused *LoadError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, TooLarge, refused.Kind)
	require.ErrorContains(t, err, "a table has too many elements (1000, the limit is 999), in the table section")
	require.ErrorContains(t, err, "give the module a larger limit of table elements")
}

// FuzzBoundTables proves that whatever preflight lets through is accepted by the compiler
// after the rewriting exactly if it was before.
func FuzzBoundTables(f *testing.F) {
	for _, wasm := range growers() {
		f.Add(wasm)
	}
	for _, wasm := range wasmtest.Leavers() {
		f.Add(wasm)
	}
	f.Fuzz(func(t *testing.T, wasm []byte) {
		if len(wasm) > 16*kib {
			return
		}
		if inspected, err := Preflight(wasm, Limits{}); err != nil || !inspected.GrowsTables {
			return
		}
		bounded, _, err := boundTables(wasm)
		if err != nil {
			require.False(t, compiles(t, wasm), "%v", err)
			return
		}
		require.Equal(t, compiles(t, wasm), compiles(t, bounded))
		rewritten, names, err := exportGlobals(bytes.Clone(bounded))
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(names), addedGlobals)
		require.Equal(t, compiles(t, bounded), compiles(t, rewritten))
	})
}

// FuzzInterruptible proves the same of what is done to modules of this process, and that it
// can be done after the other rewriting.
func FuzzInterruptible(f *testing.F) {
	for _, wasm := range growers() {
		f.Add(wasm)
	}
	for _, wasm := range wasmtest.Leavers() {
		f.Add(wasm)
	}
	f.Add(wasmtest.Stallers()["expo"])
	f.Add(wasmtest.Recurses())
	f.Fuzz(func(t *testing.T, wasm []byte) {
		if len(wasm) > 16*kib {
			return
		}
		inspected, err := Preflight(wasm, Limits{})
		if err != nil {
			return
		}
		if inspected.GrowsTables {
			if wasm, _, err = boundTables(wasm); err != nil {
				return
			}
		}
		changed, err := interruptible(wasm)
		require.NoError(t, err)
		require.Equal(t, compiles(t, wasm), compiles(t, changed))
	})
}

// TestInterruptible: each function begins with a loop, and does what it did.
func TestInterruptible(t *testing.T) {
	wasm := wasmtest.Counts()
	changed, err := interruptible(wasm)
	require.NoError(t, err)
	require.Len(t, changed, len(wasm)+2*3, "three bytes for each of two functions")
	require.Equal(t, 2, bytes.Count(changed, []byte{opLoop, typeNone, opEnd}))
	r := wazero.NewRuntime(t.Context())
	defer r.Close(t.Context())
	instance, err := r.Instantiate(t.Context(), changed)
	require.NoError(t, err)
	for want := range uint64(3) {
		got, err := instance.ExportedFunction("provision").Call(t.Context())
		require.NoError(t, err)
		require.Equal(t, want+1, got[0])
	}
	for _, broken := range [][]byte{nil, []byte("no module at all"), wasm[:len(wasm)-1]} {
		_, err := interruptible(broken)
		require.Error(t, err)
	}
}

// compiles reports whether the compiler takes a module. The interpreter does not know each
// spelling of an instruction.
func compiles(t *testing.T, wasm []byte) bool {
	t.Helper()
	ctx := t.Context()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCoreFeatures(coreFeatures))
	defer r.Close(ctx)
	_, err := r.CompileModule(ctx, wasm)
	return err == nil
}
