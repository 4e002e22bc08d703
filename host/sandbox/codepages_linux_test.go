package sandbox

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// mapsOf returns the mappings of this process that are of a file.
func mapsOf(t *testing.T, name string) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return strings.Count(string(maps), name+"\n")
}

// TestCodeIsMapped proves that the code that runs is that of the file, and runs.
func TestCodeIsMapped(t *testing.T) {
	s := servingSetup(t)
	skeleton := compileTo(t, wasmtest.Echo(), &s)
	g, err := loadGuest(t.Context(), skeleton, s, nil, nil)
	require.NoError(t, err)
	code := newCodePages(newFaultAround())
	require.NotNil(t, code)
	require.NoError(t, code.share(s.CacheDir))
	name := filepath.Join(s.CacheDir, codeFile)
	require.Equal(t, 1, mapsOf(t, name))
	for range 3 {
		r := g.serve(t.Context(), 1, abi.ExportProvision, []byte("hello"), newLogSink(io.Discard, 1, 1, kib))
		require.Nil(t, r.fault)
		require.Equal(t, "hello", string(r.output))
		g.settle(t.Context())
		code.drop()
	}
	g.close(t.Context())
	g = nil
	require.Eventually(t, func() bool {
		runtime.GC()
		return mapsOf(t, name) == 0
	}, 20*time.Second, 10*time.Millisecond, "it goes with the module, as the copy would have")
}

// TestCodeIsNotMapped proves that a file with anything but the code is left alone.
func TestCodeIsNotMapped(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(code []byte) []byte
	}{
		"Changed": {"one bit is another", func(code []byte) []byte { code[len(code)-1] ^= 1; return code }},
		"Cut":     {"a disk that was full: the rest of the last page is code as well", func(code []byte) []byte { return code[:len(code)/2] }},
		"Longer":  {"there is more of it", func(code []byte) []byte { return append(code, make([]byte, 1<<20)...) }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := servingSetup(t)
			skeleton := compileTo(t, wasmtest.Echo(), &s)
			file := filepath.Join(s.CacheDir, codeFile)
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file, c.change(content), 0o600))
			g, err := loadGuest(t.Context(), skeleton, s, nil, nil)
			require.NoError(t, err)
			defer g.close(t.Context())
			require.ErrorIs(t, newCodePages(newFaultAround()).share(s.CacheDir), errNoCopy, c.reason)
			require.Zero(t, mapsOf(t, file))
			r := g.serve(t.Context(), 1, abi.ExportProvision, []byte("hello"), newLogSink(io.Discard, 1, 1, kib))
			require.Nil(t, r.fault, "the copy serves")
		})
	}
	require.ErrorIs(t, newCodePages(newFaultAround()).share(t.TempDir()), os.ErrNotExist)
}
