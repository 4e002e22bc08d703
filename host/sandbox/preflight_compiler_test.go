package sandbox

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"

	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

const (
	// comparedBytes bounds the modules that are compared: shape matters, not size.
	comparedBytes = 4 * kib
	// harmless is the largest number in a module that preflight refuses and the compiler is
	// given nevertheless: it may allocate some hundred bytes for each of so many things.
	harmless = 4 * kib
)

// strict lists what preflight refuses and the compiler takes, with reasons.
func strict(refused *LoadError) bool {
	switch refused.Kind {
	case Unsupported, TooLarge:
		return true // beyond the caps
	case UnknownImport, WrongSignature, MissingExport, NoInitializer, Component, NotWasm:
		return true // it is no module of ours
	case Malformed:
	default:
		return false
	}
	return strings.HasSuffix(refused.Detail, "is repeated") || // one list of names, one manifest
		refused.Section == "name" || // the compiler reads on behind what a list of names claims
		refused.Section == "data count" || // it takes nothing for 0 at the end of the file
		strings.HasPrefix(refused.Detail, "a number is longer than") || // it lets one bit of a signed number pass
		strings.HasPrefix(refused.Detail, "the number of a vector instruction") || // see vectorCode
		strings.HasPrefix(refused.Detail, "the start function is an imported one") // it would fail when it starts
}

// largest is the largest number that a decoder could find anywhere in a module.
func largest(wasm []byte) uint64 {
	most := uint64(0)
	for from := range wasm {
		value := uint64(0)
		for i := 0; i < 5 && from+i < len(wasm); i++ {
			value |= uint64(wasm[from+i]&0x7f) << (7 * i)
			if wasm[from+i] < 0x80 {
				break
			}
		}
		most = max(most, value)
	}
	return most
}

// compileInterpreted gives a module to wazero's decoder, validator and interpreter, and
// returns how much that allocated.
func compileInterpreted(ctx context.Context, wasm []byte, limits Limits) (allocated uint64, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	config := wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(coreFeatures).
		WithMemoryLimitPages(uint32(limits.memoryPages())).WithDebugInfoEnabled(false)
	r := wazero.NewRuntimeWithConfig(ctx, config)
	defer r.Close(ctx)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = r.CompileModule(ctx, wasm)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, err
}

// requireAgreement holds preflight against the compiler in both directions.
func requireAgreement(t *testing.T, wasm []byte) {
	t.Helper()
	limits := DefaultLimits()
	_, err := Preflight(wasm, limits)
	if err == nil {
		allocated, err := compileInterpreted(t.Context(), wasm, limits)
		if err != nil {
			require.Regexp(t, "^invalid function", err.Error(), "what passes preflight can only fail for the types inside of a function")
		}
		// What the caps allow for, and some 4 KB for each byte of code.
		require.Less(t, allocated, uint64(256*mib+4*kib*len(wasm)))
		return
	}
	var refused *LoadError
	require.ErrorAs(t, err, &refused)
	if strict(refused) || largest(wasm) > harmless {
		return
	}
	_, err = compileInterpreted(t.Context(), wasm, limits)
	require.Error(t, err, "preflight refuses what the compiler takes: %v", refused)
	require.NotRegexp(t, "^panic", err.Error())
}

// seeds are modules to begin from: the attacks, and every shape that the tests know.
func seeds() map[string][]byte {
	found := map[string][]byte{}
	for _, a := range wasmtest.Attacks() {
		found["attack "+a.Name] = a.Wasm
	}
	for name, wasm := range wasmtest.Leavers() {
		found["leaver "+name] = wasm
	}
	offset := []byte{0x41, 0, 0x0b}
	found["globals"] = whole([]byte{2, 0x7f, 1, 0x41, 1, 0x41, 2, 0x6a, 0x0b, 0x70, 0, 0xd2, 0, 0x0b}, nil, nil)
	found["elements"] = whole(nil, wasmtest.Join([]byte{2, 0}, offset, []byte{1, 0, 6, 1}, offset, []byte{0x6f, 1, 0xd0, 0x6f, 0x0b}), nil)
	found["data"] = whole(nil, nil, wasmtest.Join([]byte{3, 0}, offset, []byte{1, 'x', 1, 1, 'y', 2, 0}, offset, []byte{0}))
	found["names"] = wasmtest.New().Custom("name", "\x00\x02\x01m\x01\x04\x01\x00\x01f\x02\x06\x01\x00\x01\x00\x01l\x09\x00").Provisioner(wasmtest.I32Const(0))
	return found
}

func TestPreflightAgreesOnSeeds(t *testing.T) {
	for name, wasm := range seeds() {
		t.Run(name, func(t *testing.T) {
			if len(wasm) > 64*kib {
				wasm = wasm[:64*kib]
			}
			requireAgreement(t, wasm)
		})
	}
}

// TestPreflightAgreesOnDamage changes every byte of small modules, one at a time.
func TestPreflightAgreesOnDamage(t *testing.T) {
	for name, wasm := range seeds() {
		if len(wasm) > 160 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			for i := range wasm {
				for _, b := range []byte{0, 1, wasm[i] + 1, wasm[i] - 1, wasm[i] ^ 0x80, 0x0b} {
					damaged := append([]byte(nil), wasm...)
					damaged[i] = b
					requireAgreement(t, damaged)
				}
			}
		})
	}
}

func FuzzPreflightAgrees(f *testing.F) {
	for _, wasm := range seeds() {
		if len(wasm) < comparedBytes {
			f.Add(wasm)
		}
	}
	f.Fuzz(func(t *testing.T, wasm []byte) {
		if len(wasm) <= comparedBytes {
			requireAgreement(t, wasm)
		}
	})
}

// bulky is a module of about n bytes of one kind.
func bulky(kind string, n int) []byte {
	b := wasmtest.New()
	switch kind {
	case "code":
		for range n / 1000 {
			b.Func(nil, nil, 2, wasmtest.Repeat(240, wasmtest.I32Const(1), wasmtest.I32Const(2), []byte{0x6a, 0x1a})[:996])
		}
	case "data":
		b.Memory(1, 0)
		for range n / 100 {
			b.Data(0, strings.Repeat("x", 92))
		}
	case "names":
		names := wasmtest.Repeat(n/12, wasmtest.Leb(7), wasmtest.Name("runtime.xy"))
		b.Custom("name", string(wasmtest.Join([]byte{1}, wasmtest.Name(string(wasmtest.Join(wasmtest.Leb(uint64(n/12)), names))))))
	case "elements":
		b.Func(nil, nil, 0)
		b.Elements(wasmtest.Join([]byte{1, 0}, wasmtest.Leb(uint64(n)), make([]byte, n)))
	case "exports":
		f := b.Func(nil, nil, 0)
		for i := range n / 32 {
			b.Export(fmt.Sprintf("an-export-with-the-number-%06d", i), f)
		}
	}
	return b.Provisioner(wasmtest.I32Const(0))
}

// TestPreflightDoesNotAllocate proves that preflight allocates no more for a module of
// some size than for a small one.
func TestPreflightDoesNotAllocate(t *testing.T) {
	const few = 16 // allocations, whatever the size
	for _, kind := range []string{"code", "data", "names", "elements", "exports"} {
		t.Run(kind, func(t *testing.T) {
			count := func(n int) float64 {
				wasm := bulky(kind, n)
				return testing.AllocsPerRun(5, func() {
					if _, err := Preflight(wasm, Limits{}); err != nil {
						t.Error(err)
					}
				})
			}
			small, large := count(4*kib), count(256*kib)
			require.LessOrEqual(t, large, float64(few))
			require.InDelta(t, small, large, 2, "none for each of its bytes")
		})
	}
}

func BenchmarkPreflightOf(b *testing.B) {
	for _, kind := range []string{"code", "data", "names"} {
		b.Run(kind, func(b *testing.B) {
			wasm := bulky(kind, mib)
			b.SetBytes(int64(len(wasm)))
			b.ReportAllocs()
			for b.Loop() {
				_, err := Preflight(wasm, Limits{})
				require.NoError(b, err)
			}
		})
	}
}
