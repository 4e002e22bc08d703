package sandbox_test

import (
	"bytes"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/sandbox"
	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// command is a program, with a custom section that tells by what it was built.
func command(section string) []byte {
	b := wasmtest.New()
	b.Export("_start", b.Func(nil, nil, 0))
	return b.Custom(section, "x").Provisioner(wasmtest.I32Const(0))
}

func TestPreflightRejects(t *testing.T) {
	i32, i64 := []byte{wasmtest.I32}, []byte{wasmtest.I64}
	importing := func(module, name string, params, results []byte) []byte {
		b := wasmtest.New()
		b.Import(module, name, params, results)
		return b.Provisioner(wasmtest.I32Const(0))
	}
	initializer := func() []byte {
		b := wasmtest.New()
		b.Export("_initialize", b.Func(nil, i32, 0, wasmtest.I32Const(0)))
		return b.Provisioner(wasmtest.I32Const(0))
	}
	export := func(name string, results []byte) []byte {
		b := wasmtest.New()
		f := b.Func(nil, results, 0, wasmtest.I32Const(0))
		return b.Export("describe", f).Export(name, f).Bytes()
	}
	memory := func() []byte {
		b := wasmtest.New()
		b.ImportMemory(wasmtest.Env, "memory")
		return b.Provisioner(wasmtest.I32Const(0))
	}
	echo := wasmtest.Echo()
	section := func(parts ...[]byte) []byte {
		return wasmtest.Join(wasmtest.Header(), wasmtest.Join(parts...))
	}
	cases := map[string]struct {
		reason string
		wasm   []byte
		limits sandbox.Limits
		kind   sandbox.LoadErrorKind
		text   string
	}{
		"Empty":           {"no bytes are no module", nil, sandbox.Limits{}, sandbox.NotWasm, "not a Wasm module"},
		"Text":            {"any other file is no module", []byte("#!/bin/sh\nexit 0\n"), sandbox.Limits{}, sandbox.NotWasm, "-buildmode=c-shared"},
		"Component":       {"a component must be named as such", []byte("\x00asm\x0d\x00\x01\x00rest"), sandbox.Limits{}, sandbox.Component, "component model"},
		"Version":         {"a later version is no component", []byte("\x00asm\x02\x00\x00\x00"), sandbox.Limits{}, sandbox.NotWasm, "unknown version"},
		"Truncated":       {"a download that broke off", echo[:len(echo)-3], sandbox.Limits{}, sandbox.Malformed, "claims"},
		"HeaderOnly":      {"an empty module exports nothing", wasmtest.Header(), sandbox.Limits{}, sandbox.MissingExport, "describe"},
		"FileSize":        {"the file's own limit, with both numbers", echo, sandbox.Limits{ModuleBytes: 10}, sandbox.TooLarge, "the limit is 10"},
		"Command":         {"a Go program is no library", command("go:buildid"), sandbox.Limits{}, sandbox.NoInitializer, "-buildmode=c-shared"},
		"GoWithout":       {"a Go module needs its runtime", wasmtest.New().Custom("go:buildid", "x").Provisioner(wasmtest.I32Const(0)), sandbox.Limits{}, sandbox.NoInitializer, "_initialize"},
		"Initializer":     {"an initialiser has no result", initializer(), sandbox.Limits{}, sandbox.WrongSignature, "_initialize"},
		"UnknownUser":     {"a host function of another host", importing(wasmtest.User, "launch_missiles", i64, i64), sandbox.Limits{}, sandbox.UnknownImport, "app_ensure"},
		"UnknownEnv":      {"a PDK that is newer", importing(wasmtest.Env, "teleport", nil, nil), sandbox.Limits{}, sandbox.UnknownImport, "newer than this host"},
		"UnknownWASI":     {"a WASI function of another version", importing(wasmtest.WASI, "sock_open", i32, i32), sandbox.Limits{}, sandbox.UnknownImport, "preview 1"},
		"UnknownModule":   {"any other namespace", importing("wasi:http", "x", i32, i32), sandbox.Limits{}, sandbox.UnknownImport, "imports are possible"},
		"AssemblyScript":  {"AssemblyScript's abort needs a hint", importing("env", "abort", []byte{0x7f, 0x7f, 0x7f, 0x7f}, nil), sandbox.Limits{}, sandbox.UnknownImport, "--use abort="},
		"UserSignature":   {"a host function of another type", importing(wasmtest.User, "event", i32, i64), sandbox.Limits{}, sandbox.WrongSignature, "(i64) -> (i64)"},
		"EnvSignature":    {"an Extism function of another type", importing(wasmtest.Env, "alloc", i64, i32), sandbox.Limits{}, sandbox.WrongSignature, "(i64) -> (i64)"},
		"WASISignature":   {"a WASI function of another type", importing(wasmtest.WASI, "fd_write", i32, i32), sandbox.Limits{}, sandbox.WrongSignature, "fd_write"},
		"FloatSignature":  {"a float is no integer", importing(wasmtest.Env, "alloc", []byte{0x7c}, i64), sandbox.Limits{}, sandbox.WrongSignature, "alloc"},
		"Memory":          {"a host's memory cannot be imported", memory(), sandbox.Limits{}, sandbox.UnknownImport, "not a function"},
		"MissingExport":   {"all three exports are needed", export("provision", i32), sandbox.Limits{}, sandbox.MissingExport, "deprovision"},
		"ExportSignature": {"an export must return an i32", export("provision", i64), sandbox.Limits{}, sandbox.WrongSignature, "describe"},
		"MemoryLimit":     {"the first memory is over the limit", wasmtest.New().Memory(4, 0).Provisioner(), sandbox.Limits{MemoryBytes: 2 << 16}, sandbox.TooLarge, "262144, the limit is 131072"},
		"StartImport":     {"an import cannot be the start function", wasmtest.StartsImport(), sandbox.Limits{}, sandbox.Malformed, "start function"},
		"SectionOrder":    {"sections come in order", section([]byte{7, 1, 0, 6, 1, 0}), sandbox.Limits{}, sandbox.Malformed, "out of order"},
		"SectionTwice":    {"sections come once", section([]byte{6, 1, 0, 6, 1, 0}), sandbox.Limits{}, sandbox.Malformed, "repeated"},
		"SectionUnknown":  {"there is no such section", section([]byte{14, 1, 0}), sandbox.Limits{}, sandbox.Malformed, "section 14 is unknown"},
		"SectionTag":      {"exception handling is not supported", section([]byte{13, 1, 0}), sandbox.Limits{}, sandbox.Unsupported, "exception handling"},
		"DataCount":       {"a count that is not that of the data", section([]byte{12, 1, 1}), sandbox.Limits{}, sandbox.Malformed, "1 data segments are announced and 0"},
		"TypeForm":        {"types of garbage collection are not supported", section([]byte{1, 2, 1, 0x4e}), sandbox.Limits{}, sandbox.Unsupported, "type form 0x4e"},
		"ValueType":       {"a type that does not exist", section([]byte{1, 5, 1, 0x60, 1, 0x01, 0}), sandbox.Limits{}, sandbox.Malformed, "value type 0x1"},
		"MemoryOrder":     {"the largest size is below the first", section([]byte{5, 4, 1, 1, 2, 1}), sandbox.Limits{}, sandbox.Malformed, "a first size of 2 and a largest of 1"},
		"MemoryMaximum":   {"more pages than 32 bits can address", section([]byte{5, 6, 1, 1, 1, 0x81, 0x80, 0x04}), sandbox.Limits{}, sandbox.Malformed, "65537 pages"},
		"MemoryFlags":     {"flags of no proposal", section([]byte{5, 3, 1, 8, 1}), sandbox.Limits{}, sandbox.Malformed, "unknown flags 0x8"},
		"TableInit":       {"a table with an initial value", section([]byte{4, 3, 1, 0x40, 0}), sandbox.Limits{}, sandbox.Unsupported, "first value"},
		"TableType":       {"a table of numbers", section([]byte{4, 4, 1, 0x7f, 0, 1}), sandbox.Limits{}, sandbox.Malformed, "no type of references"},
		"ExportTwice":     {"which of them would be called", section([]byte{1, 4, 1, 0x60, 0, 0}, []byte{3, 2, 1, 0}, []byte{7, 9, 2, 1, 'x', 0, 0, 1, 'x', 0, 0}), sandbox.Limits{}, sandbox.Malformed, "two exports are called"},
		"ExportMemory":    {"a memory that is not there", section([]byte{7, 5, 1, 1, 'x', 2, 0}), sandbox.Limits{}, sandbox.Malformed, "does not exist"},
		"ExportKind":      {"a kind that is not there", section([]byte{7, 5, 1, 1, 'x', 4, 0}), sandbox.Limits{}, sandbox.Malformed, "does not exist"},
		"StartMissing":    {"a start function that is not there", section([]byte{8, 1, 0}), sandbox.Limits{}, sandbox.Malformed, "the start function does not exist"},
		"StartType":       {"a start function has no parameters", section([]byte{1, 5, 1, 0x60, 1, 0x7f, 0}, []byte{3, 2, 1, 0}, []byte{8, 1, 0}), sandbox.Limits{}, sandbox.Malformed, "parameters or results"},
		"NameUTF8":        {"names are UTF-8", section([]byte{0, 2, 1, 0xff}), sandbox.Limits{}, sandbox.Malformed, "not UTF-8"},
		"NamesTwice":      {"the compiler wants one list of names", wasmtest.New().Custom("name", "").Custom("name", "").Provisioner(wasmtest.I32Const(0)), sandbox.Limits{}, sandbox.Malformed, "repeated"},
		// The compiler ignores how long a list claims to be, and would read on behind it: here
		// the second list, of a quarter of a billion names.
		"NamesHidden":      {"what a list does not fill is read as another one", wasmtest.New().Custom("name", "\x01\x08\x00\x01\x00\xff\xff\xff\x7f\x00").Provisioner(wasmtest.I32Const(0)), sandbox.Limits{}, sandbox.Malformed, "follow a list of names"},
		"SectionRest":      {"bytes after a section's content", section([]byte{6, 2, 0, 0}), sandbox.Limits{}, sandbox.Malformed, "follow"},
		"NoCode":           {"functions without code", section([]byte{1, 4, 1, 0x60, 0, 0}, []byte{3, 2, 1, 0}), sandbox.Limits{}, sandbox.Malformed, "1 functions are declared and 0 have code"},
		"TypeIndex":        {"a function of a type that is not there", section([]byte{3, 2, 1, 5}), sandbox.Limits{}, sandbox.Malformed, "type 5"},
		"ExportIndex":      {"an export of a function that is not there", section([]byte{7, 5, 1, 1, 'x', 0, 9}), sandbox.Limits{}, sandbox.Malformed, "does not exist"},
		"SharedMemory":     {"threads are not supported", section([]byte{5, 4, 1, 3, 1, 1}), sandbox.Limits{}, sandbox.Unsupported, "shared"},
		"TwoMemories":      {"one memory is all", section([]byte{5, 5, 2, 0, 1, 0, 1}), sandbox.Limits{}, sandbox.TooLarge, "memories"},
		"TwoManifests":     {"which manifest would count", wasmtest.New().Custom(abi.ManifestSection, "{}").Custom(abi.ManifestSection, "{}").Provisioner(wasmtest.I32Const(0)), sandbox.Limits{}, sandbox.Malformed, "repeated"},
		"ManifestSize":     {"a manifest is small", wasmtest.New().Custom(abi.ManifestSection, string(make([]byte, 1<<20+1))).Provisioner(wasmtest.I32Const(0)), sandbox.Limits{}, sandbox.TooLarge, "manifest"},
		"Instruction":      {"threads' instructions are not supported", wasmtest.New().Provisioner([]byte{0xfe, 0}), sandbox.Limits{}, sandbox.Unsupported, "0xfe"},
		"BulkInstruction":  {"an unknown bulk instruction", wasmtest.New().Provisioner([]byte{0xfc, 99}), sandbox.Limits{}, sandbox.Unsupported, "0xfc 99"},
		"SIMDInstruction":  {"an unknown vector instruction", wasmtest.New().Provisioner([]byte{0xfd, 0x80, 0x04}), sandbox.Limits{}, sandbox.Unsupported, "0xfd 512"},
		"BodyRest":         {"code after the end", wasmtest.New().Provisioner([]byte{0x0b}), sandbox.Limits{}, sandbox.Malformed, "follow the end of a function"},
		"NameThatControls": {"names are shown without control characters", importing(wasmtest.User, "a\x1b[31m\nb", i64, i64), sandbox.Limits{}, sandbox.UnknownImport, `"a.[31m b"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := sandbox.Preflight(c.wasm, c.limits)
			var refused *sandbox.LoadError
			require.ErrorAs(t, err, &refused, c.reason)
			require.Equal(t, c.kind, refused.Kind, "%s: %v", c.reason, err)
			require.ErrorContains(t, err, c.text, c.reason)
		})
	}
}

func TestPreflightAccepts(t *testing.T) {
	// Every encoding of segments and every family of instructions that the walk has to
	// step over without running.
	rich := func() []byte {
		b := wasmtest.New()
		f := b.Func(nil, []byte{wasmtest.I32}, 2,
			[]byte{0x02, 0x40, 0x0c, 0, 0x0b},                            // block, br
			[]byte{0x41, 0, 0x04, 0x40, 0x01, 0x05, 0x01, 0x0b},          // if, else
			[]byte{0x43, 0, 0, 0, 0, 0x1a, 0x44, 0, 0, 0, 0, 0, 0, 0, 0}, // floats
			[]byte{0x1a, 0xfd, 12}, make([]byte, 16), []byte{0xfd, 21, 3, 0x1a},
			[]byte{0x41, 0, 0x28, 2, 0, 0x1a, 0x3f, 0, 0x1a},
			[]byte{0x42, 0x7f, 0x1a, 0x41, 1, 0x41, 2, 0x41, 0, 0x1c, 1, 0x7f},
		)
		return b.Memory(1, 2).Table(0x70, 3).Export("describe", f).Export("provision", f).Export("deprovision", f).Bytes()
	}
	cases := map[string]struct {
		reason  string
		wasm    []byte
		imports []abi.Function
		memory  int64
	}{
		"Plain":    {"a module without an initialiser is complete", wasmtest.Returns(0), nil, 0},
		"Imports":  {"host functions are reported", wasmtest.Asks("kube_get", 1), []abi.Function{abi.KubeGet}, 0},
		"MemoryOf": {"memory is reported", wasmtest.Allocates(), nil, 1 << 16},
		"Hijack":   {"a name is only a name", wasmtest.Hijacks(wasmtest.WASI), nil, 0},
		"Command":  {"Mono's programs start their runtime in each export", command("producers"), nil, 0},
		"Rich":     {"the walk knows the instructions", rich(), nil, 1 << 16},
		"Go":       {"what the Go compiler writes", goGuest(t), []abi.Function{abi.KubeGet}, 2883584},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := sandbox.Preflight(c.wasm, sandbox.Limits{})
			require.NoError(t, err, c.reason)
			require.Equal(t, c.imports, got.Imports, c.reason)
			if name != "Go" { // the linker of another version lays memory out differently
				require.Equal(t, c.memory, got.MemoryBytes, c.reason)
			}
		})
	}
}

// TestPreflightKeepsNothing proves that what is known of a module does not keep it in
// memory.
func TestPreflightKeepsNothing(t *testing.T) {
	wasm := wasmtest.New().Custom(abi.ManifestSection, `{"abi":1}`).Custom("ballast", string(make([]byte, 1<<20))).Provisioner(wasmtest.I32Const(0))
	var gone atomic.Bool
	runtime.SetFinalizer(&wasm[0], func(*byte) { gone.Store(true) })
	inspected, err := sandbox.Preflight(wasm, sandbox.Limits{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		runtime.GC()
		return gone.Load()
	}, 20*time.Second, 10*time.Millisecond)
	runtime.KeepAlive(inspected)
}

func TestPreflightManifest(t *testing.T) {
	wasm := wasmtest.New().Custom("producers", "x").Custom(abi.ManifestSection, `{"abi":1}`).Provisioner(wasmtest.I32Const(0))
	got, err := sandbox.Preflight(wasm, sandbox.Limits{})
	require.NoError(t, err)
	require.Equal(t, `{"abi":1}`, string(got.Manifest))
	clear(wasm)
	require.Equal(t, `{"abi":1}`, string(got.Manifest), "the manifest must not alias the module")
}

// TestPreflightBombs proves that no number in a module decides about memory or time.
func TestPreflightBombs(t *testing.T) {
	for name, wasm := range wasmtest.Bombs() {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := sandbox.Preflight(wasm, sandbox.Limits{})
			runtime.ReadMemStats(&after)
			var refused *sandbox.LoadError
			require.ErrorAs(t, err, &refused)
			require.Contains(t, []sandbox.LoadErrorKind{sandbox.Malformed, sandbox.TooLarge}, refused.Kind)
			// A megabyte and twice the file is what bookkeeping may take; the claims are gigabytes.
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20+2*len(wasm)))
		})
	}
}

// TestPreflightEveryPrefix proves that a download that breaks off anywhere is an error
// and never a panic.
func TestPreflightEveryPrefix(t *testing.T) {
	for _, wasm := range [][]byte{wasmtest.Echo(), wasmtest.Says("log_info", "x"), wasmtest.GrowsTable()} {
		for n := range wasm {
			_, err := sandbox.Preflight(wasm[:n], sandbox.Limits{})
			require.Error(t, err, "the first %d of %d bytes", n, len(wasm))
		}
	}
}

func FuzzPreflight(f *testing.F) {
	for _, wasm := range wasmtest.Bombs() {
		if len(wasm) < 1<<12 { // the engine mutates small inputs best
			f.Add(wasm)
		}
	}
	for _, wasm := range [][]byte{wasmtest.Echo(), wasmtest.Counts(), wasmtest.Asks("event", 1), wasmtest.Allocates(), wasmtest.GrowsTable(), wasmtest.Writes(1, "x"), wasmtest.Hijacks("env")} {
		f.Add(wasm)
	}
	f.Fuzz(func(t *testing.T, wasm []byte) {
		original := bytes.Clone(wasm)
		began := time.Now()
		got, err := sandbox.Preflight(wasm, sandbox.Limits{})
		require.Equal(t, original, wasm, "the module must not be changed")
		require.Less(t, time.Since(began), 10*time.Second)
		if err == nil {
			require.NotNil(t, got)
			return
		}
		var refused *sandbox.LoadError
		require.ErrorAs(t, err, &refused)
		require.LessOrEqual(t, refused.Offset, int64(len(wasm)))
		require.NotEmpty(t, refused.Detail)
	})
}
