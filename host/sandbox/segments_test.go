package sandbox

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"

	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// withData is a module with a page of memory and some segments.
func withData(add func(b *wasmtest.Builder)) []byte {
	b := wasmtest.New().Memory(1, 1)
	add(b)
	return b.Provisioner(wasmtest.I32Const(0))
}

// memoryOf returns the memory that an instance begins with, or how its module is refused.
func memoryOf(t *testing.T, wasm []byte) ([]byte, error) {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(coreFeatures))
	defer func() { require.NoError(t, r.Close(ctx)) }()
	compiled, err := r.CompileModule(ctx, wasm)
	if err != nil {
		return nil, err
	}
	instance, err := r.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithStartFunctions().WithName(""))
	if err != nil || instance.Memory() == nil {
		return nil, err
	}
	memory, _ := instance.Memory().Read(0, instance.Memory().Size())
	return bytes.Clone(memory), nil
}

func TestJoinSegments(t *testing.T) {
	zeros := strings.Repeat("\x00", maxSegmentGap)
	cases := map[string]struct {
		reason string
		add    func(b *wasmtest.Builder)
		// want is the number of segments that are left.
		want int
	}{
		"None":       {"there is nothing to join", func(*wasmtest.Builder) {}, 0},
		"One":        {"nor is there here", func(b *wasmtest.Builder) { b.Data(8, "a") }, 1},
		"Adjacent":   {"no zeros between them", func(b *wasmtest.Builder) { b.Data(8, "ab").Data(10, "c") }, 1},
		"Near":       {"as many zeros as are cheaper than a segment", func(b *wasmtest.Builder) { b.Data(8, "a").Data(9+maxSegmentGap, "b") }, 1},
		"Far":        {"one more", func(b *wasmtest.Builder) { b.Data(8, "a").Data(10+maxSegmentGap, "b") }, 2},
		"Unordered":  {"the order does not matter where nothing overlaps", func(b *wasmtest.Builder) { b.Data(20, "c").Data(8, "a").Data(14, "b") }, 1},
		"Overlap":    {"what comes later wins", func(b *wasmtest.Builder) { b.Data(8, "aaaa").Data(10, "bbbb").Data(9, "c") }, 3},
		"Inside":     {"also where it is all inside", func(b *wasmtest.Builder) { b.Data(8, "aaaa"+zeros).Data(10, "b") }, 2},
		"Same":       {"or at the same place", func(b *wasmtest.Builder) { b.Data(8, "a").Data(8, "b") }, 2},
		"Empty":      {"an empty segment has a place as well", func(b *wasmtest.Builder) { b.Data(8, "").Data(8, "b").Data(9, "") }, 1},
		"End":        {"to the last byte of the memory", func(b *wasmtest.Builder) { b.Data(65534, "a").Data(65535, "b") }, 1},
		"Beyond":     {"and what is beyond it is refused as before", func(b *wasmtest.Builder) { b.Data(65534, "a").Data(65535, "bc") }, 1},
		"FarBeyond":  {"also without a byte in it", func(b *wasmtest.Builder) { b.Data(65530, "a").Data(65537, "") }, 1},
		"LastOffset": {"offsets have no sign", func(b *wasmtest.Builder) { b.Data(8, "a").Data(-1, "b").Data(-9, "c") }, 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			wasm := withData(c.add)
			out := joinSegments(bytes.Clone(wasm))
			p, err := reread(out, nil)
			require.NoError(t, err)
			require.Equal(t, c.want, p.segments, c.reason)
			want, wantErr := memoryOf(t, wasm)
			got, gotErr := memoryOf(t, out)
			require.Equal(t, wantErr == nil, gotErr == nil, "%s: %v and %v", c.reason, wantErr, gotErr)
			require.True(t, bytes.Equal(want, got), c.reason)
			require.Equal(t, out, joinSegments(bytes.Clone(out)), "there is nothing left to join")
		})
	}
}

// TestJoinSegmentsLeavesAlone: modules in which a segment is more than what the memory
// begins with.
func TestJoinSegmentsLeavesAlone(t *testing.T) {
	cases := map[string]struct {
		reason string
		data   []byte
		counts bool
	}{
		"Counted":  {"an instruction may refer to one by its number", []byte{2, 0, 0x41, 8, 0x0b, 1, 'a', 0, 0x41, 9, 0x0b, 1, 'b'}, true},
		"Passive":  {"a passive segment is not put anywhere", []byte{2, 0, 0x41, 8, 0x0b, 1, 'a', 1, 1, 'b'}, false},
		"Explicit": {"a memory with its number, which is written otherwise", []byte{2, 0, 0x41, 8, 0x0b, 1, 'a', 2, 0, 0x41, 9, 0x0b, 1, 'b'}, false},
		"Computed": {"an offset that is the sum of two", []byte{1, 0, 0x41, 8, 0x41, 1, 0x6a, 0x0b, 1, 'a'}, false},
		"Cut":      {"a segment that is cut off", []byte{2, 0, 0x41, 8, 0x0b, 1, 'a', 0, 0x41, 9, 0x0b, 7, 'b'}, false},
		"Longer":   {"bytes behind the last one", []byte{1, 0, 0x41, 8, 0x0b, 1, 'a', 0}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			wasm := withData(func(*wasmtest.Builder) {})
			if c.counts {
				wasm = wasmtest.Join(wasm, wasmtest.Section(sectionDataCount, []byte{2}))
			}
			wasm = wasmtest.Join(wasm, wasmtest.Section(wasmtest.Data, c.data))
			require.Equal(t, wasm, joinSegments(bytes.Clone(wasm)), c.reason)
		})
	}
}

// FuzzJoinSegments proves that an instance begins with the same memory, whatever its
// segments are.
func FuzzJoinSegments(f *testing.F) {
	for _, wasm := range wasmtest.Leavers() {
		f.Add(wasm)
	}
	f.Add(withData(func(b *wasmtest.Builder) { b.Data(8, "a").Data(12, "b").Data(100, "c") }))
	f.Fuzz(func(t *testing.T, wasm []byte) {
		out := joinSegments(bytes.Clone(wasm))
		if bytes.Equal(wasm, out) {
			return
		}
		if _, refused := Preflight(wasm, Limits{ModuleBytes: mib}); refused != nil {
			return
		}
		want, wantErr := memoryOf(t, wasm)
		got, gotErr := memoryOf(t, out)
		require.Equal(t, wantErr == nil, gotErr == nil, "%v and %v", wantErr, gotErr)
		require.True(t, bytes.Equal(want, got))
	})
}
