package sandbox

import (
	"bytes"
	"context"
	"encoding/hex"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// testGuest compiles a module in this process, for modules of the test's own that
// behave.
func testGuest(tb testing.TB, wasm []byte, s setup) *guest {
	tb.Helper()
	if s.CacheDir == "" {
		s.CacheDir = tb.TempDir()
	}
	s.MemoryBytes = max(s.MemoryBytes, mib)
	s.ImageBytes = s.MemoryBytes
	skeleton := compileTo(tb, wasm, &s)
	g, err := loadGuest(context.Background(), skeleton, s, newPageTracker(), func(_ *call, name string, request []byte) []byte {
		return append([]byte(name+": "), request...)
	})
	require.NoError(tb, err)
	tb.Cleanup(func() {
		g.discard(context.Background())
		require.NoError(tb, g.runtime.Close(context.Background()))
	})
	return g
}

// compileTo rewrites and compiles a module as a sandbox does, and returns its skeleton.
func compileTo(tb testing.TB, wasm []byte, s *setup) []byte {
	tb.Helper()
	where := inWorker
	if s.Interruptible {
		where = inProcess
	}
	r, err := source{wasm, s.GrowsTables}.rewrite()
	require.NoError(tb, err)
	whole, err := source{wasm, s.GrowsTables}.rewriteWhole(where)
	require.NoError(tb, err)
	bare, err := skeletonOf(whole)
	require.NoError(tb, err)
	require.Equal(tb, r.skeleton, bare, "what is served belongs to what is compiled")
	require.NoError(tb, compileNative(context.Background(), whole, *s))
	s.Globals, s.Start = r.globals, r.start
	return r.skeleton
}

// runGuest compiles and runs a module in this process.
func runGuest(t *testing.T, wasm []byte, input string) (int32, string, *guestFault) {
	t.Helper()
	g := testGuest(t, wasm, setup{ArenaBytes: mib, OutputBytes: kib, HostCallBytes: kib, LogLevel: levelInfo})
	r := g.serve(t.Context(), 1, abi.ExportProvision, []byte(input), newLogSink(&bytes.Buffer{}, 1, 10, kib))
	return r.code, string(r.output), r.fault
}

// TestInitializers proves that each language's initialiser runs once, before the call,
// and in order: every one appends a digit to a global that provision returns.
func TestInitializers(t *testing.T) {
	cases := map[string]struct {
		reason  string
		exports []string
		want    int32
	}{
		"None":        {"C and AssemblyScript have none", nil, 0},
		"Reactor":     {"Go, Rust and WASI reactors", []string{"_initialize"}, 1},
		"Constructor": {"Rust without WASI", []string{"__wasm_call_ctors"}, 2},
		"Both":        {"a reactor calls its constructors itself", []string{"_initialize", "__wasm_call_ctors"}, 1},
		"Haskell":     {"Haskell's comes after the reactor's", []string{"_initialize", "hs_init"}, 13},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := wasmtest.New()
			g := b.Global(0)
			for _, export := range c.exports {
				var params []byte
				if export == "hs_init" {
					params = []byte{wasmtest.I32, wasmtest.I32}
				}
				digit := map[string]int32{"_initialize": 1, "__wasm_call_ctors": 2, "hs_init": 3}[export]
				b.Export(export, b.Func(params, nil, 0,
					wasmtest.GetGlobal(g), wasmtest.I32Const(10), []byte{0x6c}, wasmtest.I32Const(digit), wasmtest.AddI32(), wasmtest.SetGlobal(g)))
			}
			code, _, fault := runGuest(t, b.Provisioner(wasmtest.GetGlobal(g)), "")
			require.Nil(t, fault)
			require.Equal(t, c.want, code, c.reason)
		})
	}
}

// envNames lists all functions of extism:host/env.
func envNames() []string {
	names := slices.Collect(maps.Keys(envFunctions(nil, levelInfo)))
	for _, f := range kernelFunctions() {
		names = append(names, f.name)
	}
	return names
}

// TestEverythingLinks imports every function that preflight lets through, so that no
// module passes preflight and fails for want of an import.
func TestEverythingLinks(t *testing.T) {
	types := map[rune]byte{'i': wasmtest.I32, 'I': wasmtest.I64}
	b := wasmtest.New()
	add := func(module, name string, s signature) {
		var params, results []byte
		into := &params
		for _, l := range s {
			if l == ':' {
				into = &results
				continue
			}
			*into = append(*into, types[l])
		}
		b.Import(module, name, params, results)
	}
	for _, name := range envNames() {
		s, _ := envSignature(name)
		add(abi.ImportEnv, name, s)
	}
	for _, f := range abi.Functions() {
		add(abi.ImportUser, string(f), userSignature)
	}
	wasi := []string{"args_get", "args_sizes_get", "clock_res_get", "clock_time_get", "environ_get", "environ_sizes_get", "fd_advise", "fd_allocate",
		"fd_close", "fd_datasync", "fd_fdstat_get", "fd_fdstat_set_flags", "fd_fdstat_set_rights", "fd_filestat_get", "fd_filestat_set_size",
		"fd_filestat_set_times", "fd_pread", "fd_prestat_dir_name", "fd_prestat_get", "fd_pwrite", "fd_read", "fd_readdir", "fd_renumber", "fd_seek",
		"fd_sync", "fd_tell", "fd_write", "path_create_directory", "path_filestat_get", "path_filestat_set_times", "path_link", "path_open",
		"path_readlink", "path_remove_directory", "path_rename", "path_symlink", "path_unlink_file", "poll_oneoff", "proc_exit", "proc_raise",
		"random_get", "sched_yield", "sock_accept", "sock_recv", "sock_send", "sock_shutdown"}
	for _, name := range wasi {
		s, known := wasiSignature(name)
		require.True(t, known, name)
		add(abi.ImportWASI, name, s)
	}
	wasm := b.Memory(1, 0).Provisioner(wasmtest.I32Const(3))
	_, err := Preflight(wasm, Limits{})
	require.NoError(t, err)
	code, _, fault := runGuest(t, wasm, "")
	require.Nil(t, fault)
	require.Equal(t, int32(3), code)
}

// TestRandomness proves that no two instances see the same random numbers, which
// wazero's default would give them.
func TestRandomness(t *testing.T) {
	i32, i64 := []byte{wasmtest.I32}, []byte{wasmtest.I64}
	b := wasmtest.New()
	random := b.Import(abi.ImportWASI, "random_get", []byte{wasmtest.I32, wasmtest.I32}, i32)
	alloc := b.Import(abi.ImportEnv, "alloc", i64, i64)
	store := b.Import(abi.ImportEnv, "store_u64", []byte{wasmtest.I64, wasmtest.I64}, nil)
	set := b.Import(abi.ImportEnv, "output_set", []byte{wasmtest.I64, wasmtest.I64}, nil)
	wasm := b.Memory(1, 0).Provisioner(
		wasmtest.I32Const(0), wasmtest.I32Const(8), wasmtest.Call(random), wasmtest.Drop(),
		wasmtest.I64Const(8), wasmtest.Call(alloc), wasmtest.Set(0),
		wasmtest.Get(0), wasmtest.I32Const(0), []byte{0x29, 3, 0}, wasmtest.Call(store),
		wasmtest.Get(0), wasmtest.I64Const(8), wasmtest.Call(set), wasmtest.I32Const(0))
	seen := map[string]bool{}
	for range 5 {
		_, out, fault := runGuest(t, wasm, "")
		require.Nil(t, fault)
		require.Len(t, out, 8)
		seen[hex.EncodeToString([]byte(out))] = true
	}
	require.Len(t, seen, 5)
}

func TestGuestAsksTheParent(t *testing.T) {
	_, out, fault := runGuest(t, wasmtest.Asks("kube_list", 1), "which?")
	require.Nil(t, fault)
	require.Equal(t, "kube_list: which?", out)
}

// TestTailCalls proves that the features that current compilers rely on are on.
func TestTailCalls(t *testing.T) {
	b := wasmtest.New()
	f := b.Func(nil, []byte{wasmtest.I32}, 0, wasmtest.I32Const(5))
	code, _, fault := runGuest(t, b.Provisioner([]byte{0x12}, wasmtest.Leb(uint64(f))), "")
	require.Nil(t, fault)
	require.Equal(t, int32(5), code)
}

func TestCompileRefuses(t *testing.T) {
	s := setup{CacheDir: t.TempDir(), MemoryBytes: mib}
	err := compileNative(t.Context(), wasmtest.New().Provisioner(wasmtest.I64Const(1)), s)
	require.ErrorContains(t, err, "cannot use i64")
	s.CacheDir = "/dev/null/nowhere"
	err = compileNative(t.Context(), wasmtest.Returns(0), s)
	require.ErrorContains(t, err, "open the compilation cache")
}
