package sandbox

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"

	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// codeModule is a module with a memory, a table, a global, a data and an element
// segment, whose provision is the given code.
func codeModule(code ...[]byte) []byte {
	b := wasmtest.New()
	b.Global(0)
	b.Func(nil, []byte{wasmtest.I32}, 0, wasmtest.I32Const(0))
	b.Table(0x70, 4).Memory(1, 0).Data(0, "data")
	return b.Provisioner(wasmtest.Join(code...))
}

// TestPreflightAgreesWithTheCompiler proves that the walk over code knows the length
// of every instruction: what the compiler takes, preflight must take too.
func TestPreflightAgreesWithTheCompiler(t *testing.T) {
	i32, i64 := wasmtest.I32Const(1), wasmtest.I64Const(-1)
	f32, f64 := []byte{0x43, 0, 0, 0, 1}, []byte{0x44, 0, 0, 0, 0, 0, 0, 0, 1}
	v128 := wasmtest.Join([]byte{0xfd, 12}, make([]byte, 16))
	drop := wasmtest.Drop()
	op := func(code ...byte) []byte { return code }
	cases := map[string][]byte{
		"nop":           op(0x01),
		"block":         wasmtest.Join(op(0x02, 0x40), op(0x0c, 0), op(0x0b)),
		"typed block":   wasmtest.Join(op(0x02, 0x7f), i32, op(0x0b), drop),
		"loop":          op(0x03, 0x40, 0x0b),
		"if else":       wasmtest.Join(i32, op(0x04, 0x40, 0x01, 0x05, 0x01, 0x0b)),
		"br_if":         wasmtest.Join(op(0x02, 0x40), i32, op(0x0d, 0), op(0x0b)),
		"br_table":      wasmtest.Join(op(0x02, 0x40), i32, op(0x0e, 2, 0, 0, 0), op(0x0b)),
		"return":        wasmtest.Join(i32, op(0x0f)),
		"call":          wasmtest.Join(wasmtest.Call(0), drop),
		"call_indirect": wasmtest.Join(i32, op(0x11, 0, 0), drop),
		"return_call":   wasmtest.Join(op(0x12, 0)),
		"tail indirect": wasmtest.Join(i32, op(0x13, 0, 0)),
		"select":        wasmtest.Join(i32, i32, i32, op(0x1b), drop),
		"typed select":  wasmtest.Join(i32, i32, i32, op(0x1c, 1, 0x7f), drop),
		"local.tee":     wasmtest.Join(i64, op(0x22, 0), drop),
		"global":        wasmtest.Join(op(0x23, 0), op(0x24, 0)),
		"table.get":     wasmtest.Join(i32, op(0x25, 0), drop),
		"table.set":     wasmtest.Join(i32, op(0xd0, 0x70), op(0x26, 0)),
		"i32.load":      wasmtest.Join(i32, op(0x28, 2, 0x80, 0x01), drop),
		"i64.load32_u":  wasmtest.Join(i32, op(0x35, 2, 0), drop),
		"f64.store":     wasmtest.Join(i32, f64, op(0x39, 3, 0)),
		"i64.store32":   wasmtest.Join(i32, i64, op(0x3e, 2, 0)),
		"memory.size":   wasmtest.Join(op(0x3f, 0), drop),
		"memory.grow":   wasmtest.Join(i32, op(0x40, 0), drop),
		"floats":        wasmtest.Join(f32, f32, op(0x92), drop, f64, f64, op(0xa0), drop),
		"extend":        wasmtest.Join(i32, op(0xc0), drop, i64, op(0xc4), drop),
		"trunc_sat":     wasmtest.Join(f32, op(0xfc, 0), drop, f64, op(0xfc, 7), drop),
		"memory.copy":   wasmtest.Join(i32, i32, i32, op(0xfc, 10, 0, 0)),
		"memory.fill":   wasmtest.Join(i32, i32, i32, op(0xfc, 11, 0)),
		"table.copy":    wasmtest.Join(i32, i32, i32, op(0xfc, 14, 0, 0)),
		"table.grow":    wasmtest.Join(op(0xd0, 0x70), i32, op(0xfc, 15, 0), drop),
		"table.size":    wasmtest.Join(op(0xfc, 16, 0), drop),
		"table.fill":    wasmtest.Join(i32, op(0xd0, 0x70), i32, op(0xfc, 17, 0)),
		"ref.is_null":   wasmtest.Join(op(0xd0, 0x6f), op(0xd1), drop),
		"v128.load":     wasmtest.Join(i32, op(0xfd, 0, 4, 0), drop),
		"v128.store":    wasmtest.Join(i32, v128, op(0xfd, 11, 4, 0)),
		"shuffle":       wasmtest.Join(v128, v128, op(0xfd, 13), make([]byte, 16), drop),
		"swizzle":       wasmtest.Join(v128, v128, op(0xfd, 14), drop),
		"splat":         wasmtest.Join(i32, op(0xfd, 15), drop),
		"extract_lane":  wasmtest.Join(v128, op(0xfd, 21, 1), drop),
		"replace_lane":  wasmtest.Join(v128, f64, op(0xfd, 34, 1), drop),
		"load_lane":     wasmtest.Join(i32, v128, op(0xfd, 84, 0, 0, 1), drop),
		"store_lane":    wasmtest.Join(i32, v128, op(0xfd, 91, 3, 0, 1)),
		"load32_zero":   wasmtest.Join(i32, op(0xfd, 92, 2, 0), drop),
		"load64_zero":   wasmtest.Join(i32, op(0xfd, 93, 3, 0), drop),
		"i8x16.eq":      wasmtest.Join(v128, v128, op(0xfd, 35), drop),
		"i32x4.trunc":   wasmtest.Join(v128, op(0xfd, 0xf8, 0x01), drop),
		"f64x2.convert": wasmtest.Join(v128, op(0xfd, 0xff, 0x01), drop),
	}
	ctx := t.Context()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(coreFeatures))
	defer r.Close(ctx)
	for name, code := range cases {
		t.Run(name, func(t *testing.T) {
			wasm := codeModule(code, wasmtest.I32Const(0))
			_, err := r.CompileModule(ctx, wasm)
			require.NoError(t, err, "the test's own module")
			_, err = Preflight(wasm, Limits{})
			require.NoError(t, err)
			// One byte more or less would end the function somewhere else.
			_, err = Preflight(codeModule(code), Limits{})
			require.NoError(t, err, "preflight checks form, not types")
		})
	}
}

func TestCodeCaps(t *testing.T) {
	nested := func(n int) []byte {
		return codeModule(wasmtest.Repeat(n, []byte{0x02, 0x40}), wasmtest.Repeat(n, []byte{0x0b}), wasmtest.I32Const(0))
	}
	table := func(n int) []byte {
		return codeModule([]byte{0x02, 0x40}, wasmtest.I32Const(0), []byte{0x0e}, wasmtest.Leb(uint64(n)), make([]byte, n+1), []byte{0x0b}, wasmtest.I32Const(0))
	}
	locals := func(n uint64) []byte {
		b := wasmtest.New()
		b.RawFunc(wasmtest.Join(wasmtest.Leb(2), wasmtest.Leb(n-1), []byte{wasmtest.I64}, wasmtest.Leb(1), []byte{wasmtest.I32, 0x0b}))
		return b.Provisioner(wasmtest.I32Const(0))
	}
	body := func(n int) []byte {
		// The locals, the constant and the end take six bytes.
		return codeModule(wasmtest.Repeat(n-6, []byte{0x01}), wasmtest.I32Const(0))
	}
	cases := map[string]struct {
		reason     string
		fits, over []byte
		limit      int64
	}{
		"Nesting":  {"the compiler is quadratic in it", nested(maxNesting - 1), nested(maxNesting), maxNesting},
		"Branches": {"each entry costs memory", table(maxBranches), table(maxBranches + 1), maxBranches},
		"Locals":   {"they are written run-length", locals(maxLocals), locals(maxLocals + 1), maxLocals},
		"Body":     {"a function is compiled as a whole", body(maxBodyBytes), body(maxBodyBytes + 1), maxBodyBytes},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Preflight(c.fits, Limits{})
			require.NoError(t, err, c.reason)
			_, err = Preflight(c.over, Limits{})
			var refused *LoadError
			require.ErrorAs(t, err, &refused, c.reason)
			require.Equal(t, TooLarge, refused.Kind)
			require.Equal(t, c.limit, refused.Limit)
			require.Greater(t, refused.Got, refused.Limit)
		})
	}
}

// TestConstantExpressions covers initial values, which preflight must step over.
func TestConstantExpressions(t *testing.T) {
	globals := func(expression ...byte) []byte {
		content := wasmtest.Join([]byte{1, 0x7f, 0}, expression, []byte{0x0b})
		return wasmtest.Join(wasmtest.Header(), wasmtest.Section(wasmtest.Global, content))
	}
	accepted := map[string][]byte{
		"i32": globals(0x41, 0x80, 0x7f), "i64": globals(0x42, 0), "f32": globals(0x43, 0, 0, 0, 0),
		"f64": globals(0x44, 0, 0, 0, 0, 0, 0, 0, 0), "global": globals(0x23, 0), "null": globals(0xd0, 0x70),
		"function": globals(0xd2, 0), "extended": globals(0x41, 1, 0x41, 2, 0x6a),
		"vector": globals(append([]byte{0xfd, 12}, make([]byte, 16)...)...),
	}
	for name, wasm := range accepted {
		t.Run(name, func(t *testing.T) {
			_, err := Preflight(wasm, Limits{})
			var refused *LoadError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, MissingExport, refused.Kind, "the section is fine, the module is empty: %v", err)
		})
	}
	for name, wasm := range map[string][]byte{
		"call": globals(0x10, 0), "vector add": globals(append([]byte{0xfd, 14}, make([]byte, 16)...)...), "endless": globals(0x41, 0, 0x41)[:15],
	} {
		t.Run("no "+name, func(t *testing.T) {
			_, err := Preflight(wasm, Limits{})
			var refused *LoadError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, Malformed, refused.Kind)
		})
	}
}

// TestSegments covers every encoding of element and data segments.
func TestSegments(t *testing.T) {
	section := func(id byte, content ...byte) []byte {
		return wasmtest.Join(wasmtest.Header(), wasmtest.Section(id, content))
	}
	offset := []byte{0x41, 0, 0x0b}
	null := []byte{0xd0, 0x70, 0x0b}
	cases := map[string]struct {
		wasm []byte
		kind LoadErrorKind
	}{
		"element 0":      {section(9, append(append([]byte{1, 0}, offset...), 2, 0, 1)...), MissingExport},
		"element 1":      {section(9, 1, 1, 0, 2, 0, 1), MissingExport},
		"element 2":      {section(9, append(append([]byte{1, 2, 0}, offset...), 0, 1, 0)...), MissingExport},
		"element 3":      {section(9, 1, 3, 0, 1, 0), MissingExport},
		"element 4":      {section(9, append(append([]byte{1, 4}, offset...), append([]byte{1}, null...)...)...), MissingExport},
		"element 5":      {section(9, append([]byte{1, 5, 0x70, 1}, null...)...), MissingExport},
		"element 6":      {section(9, append(append([]byte{1, 6, 0}, offset...), append([]byte{0x70, 1}, null...)...)...), MissingExport},
		"element 7":      {section(9, append([]byte{1, 7, 0x70, 1}, null...)...), MissingExport},
		"element 8":      {section(9, 1, 8, 0, 0), Malformed},
		"data active":    {section(11, append(append([]byte{1, 0}, offset...), 2, 'h', 'i')...), MissingExport},
		"data passive":   {section(11, 1, 1, 2, 'h', 'i'), MissingExport},
		"data of memory": {section(11, append(append([]byte{1, 2, 0}, offset...), 2, 'h', 'i')...), MissingExport},
		"data of kind 3": {section(11, 1, 3, 0, 0), Malformed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Preflight(c.wasm, Limits{})
			var refused *LoadError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, c.kind, refused.Kind, "%v", err)
		})
	}
}
