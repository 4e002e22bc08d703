package sandbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// servingSetup is what a worker that serves is told of its limits.
func servingSetup(t *testing.T) setup {
	return setup{CacheDir: t.TempDir(), MemoryBytes: mib, ArenaBytes: mib, OutputBytes: kib, HostCallBytes: kib, LogLines: 9, LogBytes: kib, LogLevel: levelOff, ImageBytes: mib}
}

func TestSkeleton(t *testing.T) {
	wasm := wasmtest.Echo()
	skeleton, err := skeletonOf(wasm)
	require.NoError(t, err)
	full, err := reread(wasm, nil)
	require.NoError(t, err)
	bare, err := reread(skeleton, &notes{bodies: []int{}})
	require.NoError(t, err)
	require.Equal(t, full.bodies, bare.bodies, "each function is still there")
	for _, at := range bare.notes.bodies {
		require.Equal(t, []byte{0x00, opEnd}, skeleton[at:at+2], "and traps")
	}
	again, err := skeletonOf(skeleton)
	require.NoError(t, err)
	require.Equal(t, skeleton, again)
	_, err = skeletonOf(append(bytes.Clone(wasmtest.Header()), sectionCode, 5, 9))
	require.Error(t, err, "a section that is cut off")
	none, err := skeletonOf(wasmtest.Header())
	require.NoError(t, err)
	require.Equal(t, wasmtest.Header(), none, "a module without code is its own skeleton")
}

// TestSkeletonIsNeverServed proves that a worker without native code does not take what
// can be made of the skeleton for the module.
func TestSkeletonIsNeverServed(t *testing.T) {
	wasm := wasmtest.Echo()
	cases := map[string]struct {
		reason string
		spoil  func(t *testing.T, dir string)
	}{
		"Nothing": {"it was never compiled", func(t *testing.T, dir string) {
			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.Mkdir(dir, 0o700))
		}},
		"Removed": {"its code is gone and that of the kernel is not", func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(moduleFirst(t, dir)[0]))
		}},
		"Stale": {"the compiler wants it no more", func(t *testing.T, dir string) {
			for _, name := range moduleFirst(t, dir) {
				content, err := os.ReadFile(name)
				require.NoError(t, err)
				content[len(cacheMagic)+1] ^= 1 // of the version
				require.NoError(t, os.WriteFile(name, content, 0o600))
			}
		}},
		"Damaged": {"it is not what was written", func(t *testing.T, dir string) {
			for _, name := range moduleFirst(t, dir) {
				content, err := os.ReadFile(name)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(name, content[:len(content)/2], 0o600))
			}
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := servingSetup(t)
			s.CacheDir = filepath.Join(s.CacheDir, "module")
			require.NoError(t, os.Mkdir(s.CacheDir, 0o700))
			skeleton := compileTo(t, wasm, &s)
			g, err := loadGuest(t.Context(), skeleton, s, nil, nil)
			require.NoError(t, err, "as it should be")
			g.close(t.Context())
			c.spoil(t, s.CacheDir)
			g, err = loadGuest(t.Context(), skeleton, s, nil, nil)
			if err == nil {
				r := g.serve(t.Context(), 1, abi.ExportProvision, []byte("x"), newLogSink(io.Discard, 1, 1, kib))
				require.Nil(t, r.fault, "%s, and the skeleton is served: %+v", c.reason, r.fault)
			}
			require.Error(t, err, c.reason)
		})
	}
}

// moduleFirst lists the native code in a directory: that of the module, and of the kernel.
func moduleFirst(t *testing.T, dir string) []string {
	t.Helper()
	code, err := os.ReadFile(filepath.Join(dir, codeFile))
	require.NoError(t, err)
	names, err := nativeFiles(dir)
	require.NoError(t, err)
	require.Len(t, names, 2)
	content, err := os.ReadFile(names[1])
	require.NoError(t, err)
	if own, ok := codeOf(content); ok && bytes.Equal(code, own) {
		slices.Reverse(names)
	}
	return names
}

// TestModuleThatIsItsSkeleton: every function traps, so that there is no code to keep.
func TestModuleThatIsItsSkeleton(t *testing.T) {
	s := servingSetup(t)
	wasm, err := skeletonOf(wasmtest.Echo())
	require.NoError(t, err)
	skeleton := compileTo(t, wasm, &s)
	require.Equal(t, wasm, skeleton)
	g, err := loadGuest(t.Context(), skeleton, s, nil, nil)
	require.NoError(t, err)
	defer g.close(t.Context())
	r := g.serve(t.Context(), 1, abi.ExportProvision, nil, newLogSink(io.Discard, 1, 1, kib))
	require.NotNil(t, r.fault)
	require.Contains(t, r.fault.Text, "unreachable", "it does what it says")
}

// TestCodeOfTheCompiler proves that the code that is written to be mapped is that of the
// compiler: the layout of its files is its own affair, and may change with its version.
func TestCodeOfTheCompiler(t *testing.T) {
	s := servingSetup(t)
	compileTo(t, wasmtest.Echo(), &s)
	code, err := os.ReadFile(filepath.Join(s.CacheDir, codeFile))
	require.NoError(t, err)
	found := false
	names, err := nativeFiles(s.CacheDir)
	require.NoError(t, err)
	for _, name := range names {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		own, ok := codeOf(content)
		require.True(t, ok)
		found = found || bytes.Equal(code, own)
	}
	require.True(t, found)
	require.Greater(t, len(code), 100)
}

func TestCodeOf(t *testing.T) {
	file := func(version string, functions int, length uint64, code string) []byte {
		b := append([]byte(cacheMagic), byte(len(version)))
		b = binary.LittleEndian.AppendUint32(append(b, version...), uint32(functions))
		b = append(b, make([]byte, 8*min(functions, 100))...)
		return append(binary.LittleEndian.AppendUint64(b, length), code...)
	}
	cases := map[string]struct {
		reason string
		file   []byte
		want   string
	}{
		"Code":      {"the code and no more", file("1.12.0", 2, 4, "codechecksum"), "code"},
		"Empty":     {"no file", nil, ""},
		"Magic":     {"another file", []byte("ELF"), ""},
		"Version":   {"it ends in the version", []byte(cacheMagic + "\x09"), ""},
		"Functions": {"it ends before the offsets do", file("1", 1<<31-1, 4, "code"), ""},
		"Length":    {"it ends before the code does", file("1", 1, 5, "code"), ""},
		"Huge":      {"nor is a length believed", file("1", 1, 1<<63, "code"), ""},
		"None":      {"there is no code", file("1", 0, 0, "sum"), ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			code, ok := codeOf(c.file)
			require.Equal(t, c.want != "", ok, c.reason)
			require.Equal(t, c.want, string(code), c.reason)
			for cut := range c.file {
				_, _ = codeOf(c.file[:cut])
			}
		})
	}
}

// FuzzSkeleton proves that whatever preflight and the compiler accept has a skeleton that
// the compiler accepts.
func FuzzSkeleton(f *testing.F) {
	for _, wasm := range wasmtest.Leavers() {
		f.Add(wasm)
	}
	for _, wasm := range growers() {
		f.Add(wasm)
	}
	f.Fuzz(func(t *testing.T, wasm []byte) {
		skeleton, err := skeletonOf(bytes.Clone(wasm))
		inspected, refused := Preflight(wasm, Limits{ModuleBytes: mib})
		if refused != nil {
			return
		}
		ctx := context.Background()
		r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(coreFeatures))
		defer func() { require.NoError(t, r.Close(ctx)) }()
		if _, refused := r.CompileModule(ctx, wasm); refused != nil {
			return
		}
		require.NoError(t, err)
		_, err = r.CompileModule(ctx, skeleton)
		require.NoError(t, err)
		served, err := source{wasm, inspected.GrowsTables}.rewrite()
		require.NoError(t, err)
		for _, where := range []placement{inWorker, inProcess} {
			whole, err := source{wasm, inspected.GrowsTables}.rewriteWhole(where)
			require.NoError(t, err)
			bare, err := skeletonOf(whole)
			require.NoError(t, err)
			require.Equal(t, served.skeleton, bare, "what is served belongs to what is compiled")
		}
	})
}
