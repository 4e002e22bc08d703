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
	elements := func(n int) []byte {
		b := wasmtest.New()
		b.Func(nil, nil, 0)
		segment := wasmtest.Join([]byte{1, 0}, wasmtest.Leb(uint64(n)), make([]byte, n))
		return b.Elements(segment).Elements(segment).Provisioner(wasmtest.I32Const(0))
	}
	names := func(n int) []byte {
		list := wasmtest.Join(wasmtest.Leb(uint64(n)), make([]byte, 2*n))
		return wasmtest.New().Custom("name", string(wasmtest.Join([]byte{1}, wasmtest.Name(string(list))))).Provisioner(wasmtest.I32Const(0))
	}
	cases := map[string]struct {
		reason     string
		fits, over []byte
		limit      int64
	}{
		"Nesting":   {"the compiler is quadratic in it", nested(maxNesting - 1), nested(maxNesting), maxNesting},
		"Branches":  {"each entry costs memory", table(maxBranches), table(maxBranches + 1), maxBranches},
		"Locals":    {"they are written run-length", locals(maxLocals), locals(maxLocals + 1), maxLocals},
		"AllLocals": {"the decoder writes all of them out", wasmtest.ManyLocals(maxTotalLocals/maxLocals, maxLocals), wasmtest.ManyLocals(maxTotalLocals/maxLocals+1, maxLocals), maxTotalLocals},
		"Elements":  {"each takes the decoder 64 bytes", elements(maxElements / 2), elements(maxElements/2 + 1), maxElements},
		"Names":     {"each takes the decoder 40 bytes", names(maxNames), names(maxNames + 1), maxNames},
		"Body":      {"a function is compiled as a whole", body(maxBodyBytes), body(maxBodyBytes + 1), maxBodyBytes},
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

// whole is a module with one function, a table of each type and a memory, and with the
// given sections of globals, elements and data, that exports nothing.
func whole(global, element, data []byte) []byte {
	section := func(id byte, content []byte) []byte {
		if content == nil {
			return nil
		}
		return wasmtest.Section(id, content)
	}
	return wasmtest.Join(wasmtest.Header(), wasmtest.Section(wasmtest.Type, []byte{1, 0x60, 0, 0}), wasmtest.Section(wasmtest.Function, []byte{1, 0}),
		wasmtest.Section(wasmtest.Table, []byte{2, 0x70, 0, 4, 0x6f, 0, 4}), wasmtest.Section(wasmtest.Memory, []byte{1, 0, 1}),
		section(wasmtest.Global, global), section(wasmtest.Element, element),
		wasmtest.Section(wasmtest.Code, []byte{1, 2, 0, 0x0b}), section(wasmtest.Data, data))
}

// requireKind checks the verdict of preflight over a module of whole, for which
// MissingExport means that its sections are fine, and that the compiler agrees.
func requireKind(t *testing.T, want LoadErrorKind, wasm []byte) {
	t.Helper()
	_, err := Preflight(wasm, Limits{})
	var refused *LoadError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, want, refused.Kind, "%v", err)
	r := wazero.NewRuntimeWithConfig(t.Context(), wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(coreFeatures))
	defer r.Close(t.Context())
	_, err = r.CompileModule(t.Context(), wasm)
	switch want {
	case MissingExport:
		require.NoError(t, err)
	case Malformed:
		require.Error(t, err)
	default: // the compiler may take it
	}
}

// TestConstantExpressions covers initial values.
func TestConstantExpressions(t *testing.T) {
	global := func(typ byte, expression ...byte) []byte {
		return whole(wasmtest.Join([]byte{1, typ, 0}, expression, []byte{0x0b}), nil, nil)
	}
	vector := append([]byte{0xfd, 12}, make([]byte, 16)...)
	deep := func(n int) []byte {
		return wasmtest.Join(wasmtest.Repeat(n, []byte{0x41, 1}), wasmtest.Repeat(n-1, []byte{0x6a}))
	}
	cases := map[string]struct {
		wasm []byte
		kind LoadErrorKind
	}{
		"i32":               {global(0x7f, 0x41, 0x80, 0x7f), MissingExport},
		"i64":               {global(0x7e, 0x42, 0), MissingExport},
		"f32":               {global(0x7d, 0x43, 0, 0, 0, 0), MissingExport},
		"f64":               {global(0x7c, 0x44, 0, 0, 0, 0, 0, 0, 0, 0), MissingExport},
		"vector":            {global(0x7b, vector...), MissingExport},
		"null":              {global(0x70, 0xd0, 0x70), MissingExport},
		"external null":     {global(0x6f, 0xd0, 0x6f), MissingExport},
		"function":          {global(0x70, 0xd2, 0), MissingExport},
		"extended":          {global(0x7f, 0x41, 1, 0x41, 2, 0x6a), MissingExport},
		"extended i64":      {global(0x7e, 0x42, 1, 0x42, 2, 0x42, 3, 0x7d, 0x7e), MissingExport},
		"deep":              {global(0x7f, deep(maxConstantDepth)...), MissingExport},
		"too deep":          {global(0x7f, deep(maxConstantDepth+1)...), TooLarge},
		"global":            {global(0x7f, 0x23, 0), Unsupported},
		"exception":         {global(0x69, 0xd0, 0x69), Unsupported},
		"typed null":        {global(0x70, 0xd0, 0), Unsupported},
		"nothing":           {global(0x7f), Malformed},
		"two values":        {global(0x7f, 0x41, 0, 0x41, 0), Malformed},
		"another type":      {global(0x7f, 0x42, 0), Malformed},
		"one operand":       {global(0x7f, 0x41, 1, 0x6a), Malformed},
		"other operands":    {global(0x7e, 0x41, 1, 0x41, 1, 0x7c), Malformed},
		"no such function":  {global(0x70, 0xd2, 1), Malformed},
		"no such type":      {global(0x71, 0x41, 0), Malformed},
		"mutability":        {whole([]byte{1, 0x7f, 2, 0x41, 0, 0x0b}, nil, nil), Malformed},
		"call":              {global(0x7f, 0x10, 0), Malformed},
		"vector add":        {global(0x7b, 0xfd, 14), Malformed},
		"number of 33 bits": {global(0x7f, 0x41, 0xff, 0xff, 0xff, 0xff, 0x0f), Malformed},
		"endless":           {whole([]byte{1, 0x7f, 0, 0x41, 0, 0x41}, nil, nil), Malformed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { requireKind(t, c.kind, c.wasm) })
	}
}

// TestSegments covers every encoding of element and data segments.
func TestSegments(t *testing.T) {
	elements := func(content ...[]byte) []byte { return whole(nil, wasmtest.Join(content...), nil) }
	data := func(content ...[]byte) []byte { return whole(nil, nil, wasmtest.Join(content...)) }
	b := func(bytes ...byte) []byte { return bytes }
	offset, null, other := b(0x41, 0, 0x0b), b(0xd0, 0x70, 0x0b), b(0xd0, 0x6f, 0x0b)
	cases := map[string]struct {
		wasm []byte
		kind LoadErrorKind
	}{
		"element 0":             {elements(b(1, 0), offset, b(2, 0, 0)), MissingExport},
		"element 1":             {elements(b(1, 1, 0, 2, 0, 0)), MissingExport},
		"element 2":             {elements(b(1, 2, 0), offset, b(0, 1, 0)), MissingExport},
		"element 3":             {elements(b(1, 3, 0, 1, 0)), MissingExport},
		"element 4":             {elements(b(1, 4), offset, b(1), null), MissingExport},
		"element 5":             {elements(b(1, 5, 0x70, 1), null), MissingExport},
		"element 6":             {elements(b(1, 6, 1), offset, b(0x6f, 1), other), MissingExport},
		"element 7":             {elements(b(1, 7, 0x70, 1), null), MissingExport},
		"element 8":             {elements(b(1, 8, 0, 0)), Malformed},
		"element kind":          {elements(b(1, 1, 1, 1, 0)), Malformed},
		"no such function":      {elements(b(1, 1, 0, 1, 1)), Malformed},
		"no such table":         {elements(b(1, 2, 2), offset, b(0, 1, 0)), Malformed},
		"table of another type": {elements(b(1, 2, 1), offset, b(0, 1, 0)), Malformed},
		"offset of 64 bits":     {elements(b(1, 0, 0x42, 0, 0x0b, 0)), Malformed},
		"null of another type":  {elements(b(1, 5, 0x70, 1), other), Malformed},
		"elements of numbers":   {elements(b(1, 5, 0x7f, 1, 0x41, 0, 0x0b)), Malformed},
		"data active":           {data(b(1, 0), offset, b(2, 'h', 'i')), MissingExport},
		"data passive":          {data(b(1, 1, 2, 'h', 'i')), MissingExport},
		"data of memory":        {data(b(1, 2, 0), offset, b(2, 'h', 'i')), MissingExport},
		"data of kind 3":        {data(b(1, 3, 0, 0)), Malformed},
		"data of memory 1":      {data(b(1, 2, 1), offset, b(0)), Malformed},
		"data at 64 bits":       {data(b(1, 0, 0x42, 0, 0x0b, 0)), Malformed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { requireKind(t, c.kind, c.wasm) })
	}
}

// TestPreflightSeesWhatTheCompilerSees feeds encodings that one reader takes for numbers
// and another for instructions: blocks could be hidden in them, past the cap on nesting.
func TestPreflightSeesWhatTheCompilerSees(t *testing.T) {
	i32 := wasmtest.I32Const(0)
	cases := map[string][]byte{
		// The compiler sees instruction 128, unreachable, and a block; the long way to write
		// 0 would be a load whose alignment and offset are that block.
		"vector number": {0xfd, 0x80, 0x00, 0x02, 0x40},
		"vector of 3":   {0xfd, 0x80, 0x81, 0x00},
		"memory number": {0x3f, 0x80, 0x00, 0x1a},
		"select types":  {0x1c, 2, 0x7f, 0x7f},
		"block type":    {0x02, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x0b},
		"block index":   {0x02, 0x20, 0x0b},
	}
	for name, code := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Preflight(codeModule(code, i32), Limits{})
			var refused *LoadError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, Malformed, refused.Kind, "%v", err)
			require.Equal(t, "code", refused.Section)
		})
	}
	for name, code := range map[string][]byte{
		"block of references": {0x02, 0x64, 0x70, 0x0b}, "null of a type": {0xd0, 0x00, 0x1a}, "exception": {0x08, 0},
		"atomic": {0xfe, 0}, "bulk": {0xfc, 99}, "vector 256": {0xfd, 0x80, 2}, "try_table": {0x1f, 0x40, 0, 0x0b},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Preflight(codeModule(code, i32), Limits{})
			var refused *LoadError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, Unsupported, refused.Kind, "%v", err)
		})
	}
}
