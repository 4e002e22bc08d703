package sandbox

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// clashes is a module that exports functions under the names of the rewriting.
func clashes() []byte {
	b := wasmtest.New()
	b.Global(5)
	f := b.Func(nil, nil, 0)
	return b.Export(globalPrefix+"0", f).Export(globalPrefix+"_x", f).Provisioner(wasmtest.I32Const(0))
}

func TestExportGlobals(t *testing.T) {
	cases := map[string]struct {
		reason string
		wasm   []byte
		names  []string
	}{
		"None":    {"a module without globals stays as it is", wasmtest.Echo(), nil},
		"One":     {"a global gets a name with its index", wasmtest.Counts(), []string{globalPrefix + "0"}},
		"Clashes": {"no name is given twice", clashes(), []string{globalPrefix + "__0"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			out, names, err := exportGlobals(c.wasm)
			require.NoError(t, err)
			require.Equal(t, c.names, names, c.reason)
			if names == nil {
				require.Equal(t, c.wasm, out)
				return
			}
			again, _, err := exportGlobals(c.wasm)
			require.NoError(t, err)
			require.Equal(t, out, again, "the same module has the same native code")
			ctx := t.Context()
			r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
			defer r.Close(ctx)
			instance, err := r.Instantiate(ctx, out)
			require.NoError(t, err)
			for _, name := range names {
				_, mutable := instance.ExportedGlobal(name).(api.MutableGlobal)
				require.True(t, mutable)
			}
		})
	}
}

func TestExportGlobalsRefuses(t *testing.T) {
	global := wasmtest.Section(wasmtest.Global, []byte{1, wasmtest.I32, 1, 0x41, 0, 0x0b})
	for name, wasm := range map[string][]byte{
		"Empty":    nil,
		"Header":   wasmtest.Header(),
		"Section":  append(wasmtest.Header(), wasmtest.Global, 100, 1),
		"Exports":  wasmtest.Join(wasmtest.Header(), global, wasmtest.Section(wasmtest.Export, []byte{2, 1, 'x', 0, 0})),
		"Trailing": wasmtest.Join(wasmtest.Header(), global, wasmtest.Section(wasmtest.Export, []byte{0, 0})),
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := exportGlobals(wasm)
			require.Error(t, err)
		})
	}
}

// FuzzExportGlobals proves that whatever preflight and the compiler accept is accepted
// after the rewriting too, with as many exported globals as there are mutable ones, and
// that nothing else makes the rewriting fail other than by an error.
func FuzzExportGlobals(f *testing.F) {
	for _, wasm := range wasmtest.Leavers() {
		f.Add(wasm)
	}
	f.Add(clashes())
	for _, wasm := range wasmtest.Bombs() {
		if len(wasm) < 10_000 {
			f.Add(wasm)
		}
	}
	f.Fuzz(func(t *testing.T, wasm []byte) {
		out, names, err := exportGlobals(bytes.Clone(wasm))
		if _, refused := Preflight(wasm, Limits{ModuleBytes: mib}); refused != nil {
			return
		}
		ctx := t.Context()
		r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(coreFeatures))
		defer r.Close(ctx)
		if _, refused := r.CompileModule(ctx, wasm); refused != nil {
			return
		}
		require.NoError(t, err)
		_, err = r.CompileModule(ctx, out)
		require.NoError(t, err)
		for _, name := range names {
			require.True(t, bytes.Contains(out, []byte(name)), name)
		}
	})
}

// TestFreshReason proves that each instruction that changes what is not in a snapshot is
// noticed. Preflight does not check types, so the code need not make sense.
func TestFreshReason(t *testing.T) {
	body := func(code ...byte) []byte {
		b := wasmtest.New()
		b.RawFunc(append(append([]byte{0}, code...), 0x0b))
		return b.Provisioner(wasmtest.I32Const(0))
	}
	global := func(typ byte, mutable byte) []byte {
		b := wasmtest.New()
		init := map[byte][]byte{0x7f: {0x41, 0}, 0x7e: {0x42, 0}, 0x7d: {0x43, 0, 0, 0, 0}, 0x7c: {0x44, 0, 0, 0, 0, 0, 0, 0, 0}, 0x70: {0xd0, 0x70}, 0x6f: {0xd0, 0x6f}, 0x7b: append([]byte{0xfd, 12}, make([]byte, 16)...)}[typ]
		section := wasmtest.Section(wasmtest.Global, []byte{1, typ, mutable}, init, []byte{0x0b})
		wasm := b.Provisioner(wasmtest.I32Const(0))
		at := bytes.Index(wasm, []byte{wasmtest.Export})
		for wasm[at+1] >= 0x80 || !bytes.Contains(wasm[at:at+12], []byte("de")) {
			at += 1 + bytes.Index(wasm[at+1:], []byte{wasmtest.Export})
		}
		return wasmtest.Join(wasm[:at], section, wasm[at:])
	}
	cases := map[string]struct {
		wasm []byte
		want string
	}{
		"Plain":           {wasmtest.Echo(), ""},
		"TableGet":        {body(0x25, 0), ""},
		"MemoryInit":      {body(0xfc, 8, 0, 0), ""},
		"MemoryGrow":      {body(0x40, 0), ""},
		"TableSet":        {body(0x26, 0), "it uses table.set"},
		"DataDrop":        {body(0xfc, 9, 0), "it uses data.drop"},
		"TableInit":       {body(0xfc, 12, 0, 0), "it uses table.init"},
		"ElemDrop":        {body(0xfc, 13, 0), "it uses elem.drop"},
		"TableCopy":       {body(0xfc, 14, 0, 0), "it uses table.copy"},
		"TableGrow":       {body(0xfc, 15, 0), "it uses table.grow"},
		"TableSize":       {body(0xfc, 16, 0), ""},
		"TableFill":       {body(0xfc, 17, 0), "it uses table.fill"},
		"First":           {body(0xfc, 9, 0, 0x26, 0), "it uses data.drop"},
		"Float":           {global(0x7c, 1), ""},
		"Vector":          {global(0x7b, 1), "it has a mutable global that is not a number"},
		"Reference":       {global(0x70, 1), "it has a mutable global that is not a number"},
		"ConstantVector":  {global(0x7b, 0), ""},
		"ExternReference": {global(0x6f, 1), "it has a mutable global that is not a number"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inspected, err := Preflight(c.wasm, Limits{})
			require.NoError(t, err, "% x", c.wasm)
			require.Equal(t, c.want, inspected.FreshReason)
		})
	}
}
