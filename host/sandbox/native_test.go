package sandbox_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/sandbox"
	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// nativeFiles lists the native code in the cache of a module.
func nativeFiles(t *testing.T, cache string, m *sandbox.Module) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(moduleDir(cache, m), "wazero-*", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	return names
}

func moduleDir(cache string, m *sandbox.Module) string {
	return filepath.Join(cache, "sandbox-v1", strings.TrimPrefix(m.Digest(), "sha256:"))
}

// largest is the native code of the module rather than of the kernel, or the reverse; the
// tests do not care.
func largest(t *testing.T, names []string) string {
	t.Helper()
	return slices.MaxFunc(names, func(a, b string) int {
		first, err := os.Stat(a)
		require.NoError(t, err)
		second, err := os.Stat(b)
		require.NoError(t, err)
		return int(first.Size() - second.Size())
	})
}

// TestNativeCodeIsSealed proves that native code which is not what this installation has
// compiled is compiled again instead of being run, both when a module is loaded and when
// a worker is started for a call.
func TestNativeCodeIsSealed(t *testing.T) {
	edit := func(change func(content []byte) []byte) func(*testing.T, string, *sandbox.Module) {
		return func(t *testing.T, cache string, m *sandbox.Module) {
			name := largest(t, nativeFiles(t, cache, m))
			content, err := os.ReadFile(name)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(name, change(content), 0o600))
		}
	}
	cases := map[string]struct {
		reason string
		tamper func(*testing.T, string, *sandbox.Module)
		// missing says that there is nothing left to throw away.
		missing bool
	}{
		"Flipped": {"a disk that rots", edit(func(b []byte) []byte { b[len(b)/2] ^= 1; return b }), false},
		"Cut":     {"a disk that was full", edit(func(b []byte) []byte { return b[:len(b)/2] }), false},
		"Longer":  {"something was appended", edit(func(b []byte) []byte { return append(b, 0) }), false},
		"Added": {"a file that nobody has compiled", func(t *testing.T, cache string, m *sandbox.Module) {
			name := nativeFiles(t, cache, m)[0]
			require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(name), strings.Repeat("0", 64)), []byte("code"), 0o600))
		}, false},
		"Link": {"code that lies elsewhere", func(t *testing.T, cache string, m *sandbox.Module) {
			name, elsewhere := nativeFiles(t, cache, m)[0], filepath.Join(t.TempDir(), "code")
			require.NoError(t, os.Rename(name, elsewhere))
			require.NoError(t, os.Symlink(elsewhere, name))
		}, false},
		"Swapped": {"the files of two names", func(t *testing.T, cache string, m *sandbox.Module) {
			names := nativeFiles(t, cache, m)
			require.Len(t, names, 2)
			require.NoError(t, os.Rename(names[0], names[0]+".x"))
			require.NoError(t, os.Rename(names[1], names[0]))
			require.NoError(t, os.Rename(names[0]+".x", names[1]))
		}, false},
		"Unsealed": {"code without a seal", func(t *testing.T, cache string, m *sandbox.Module) {
			require.NoError(t, os.Remove(filepath.Join(moduleDir(cache, m), "native.json")))
		}, false},
		"Forged": {"a seal of somebody without the key", func(t *testing.T, cache string, m *sandbox.Module) {
			name := filepath.Join(moduleDir(cache, m), "native.json")
			content, err := os.ReadFile(name)
			require.NoError(t, err)
			forged := strings.Replace(string(content), `"size":`, `"size":1`, 1)
			require.NotEqual(t, string(content), forged)
			require.NoError(t, os.WriteFile(name, []byte(forged), 0o600))
		}, false},
		"Tidied": {"somebody needed the space", func(t *testing.T, cache string, m *sandbox.Module) {
			require.NoError(t, os.RemoveAll(filepath.Dir(nativeFiles(t, cache, m)[0])))
		}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cache := t.TempDir()
			s := open(t, sandbox.Options{CacheDir: cache})
			m := load(t, s, wasmtest.Echo(), sandbox.Limits{})
			check := func(compilations uint64) {
				t.Helper()
				stats := s.Stats()
				require.Equal(t, compilations, stats.Compilations, c.reason)
				want := compilations - 1
				if c.missing {
					want = 0
				}
				require.Equal(t, want, stats.Discarded, c.reason)
			}
			call := func() {
				t.Helper()
				_, out, err := provision(t, m, []byte("input"))
				require.NoError(t, err)
				require.Equal(t, "input", string(out))
			}
			call()
			check(1)
			c.tamper(t, cache, m)
			call() // the worker has its code in memory
			check(1)
			sandbox.KillWorkers(t, s)
			call()
			check(2)
			c.tamper(t, cache, m)
			again := load(t, s, wasmtest.Echo(), sandbox.Limits{})
			require.True(t, sandbox.Compiled(again))
			check(3)
		})
	}
}

// TestSealsBelongToTheirInstallation proves that a cache which is copied to another
// installation, or restored under another key, is not trusted.
func TestSealsBelongToTheirInstallation(t *testing.T) {
	cache := t.TempDir()
	first := open(t, sandbox.Options{CacheDir: cache})
	m := load(t, first, wasmtest.Echo(), sandbox.Limits{})
	second := open(t, sandbox.Options{CacheDir: cache})
	load(t, second, wasmtest.Echo(), sandbox.Limits{})
	require.Zero(t, second.Stats().Compilations, "a restart compiles nothing")

	key := filepath.Join(cache, "sandbox-v1", "seal.key")
	info, err := os.Stat(key)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, os.Remove(key))
	third := open(t, sandbox.Options{CacheDir: cache})
	load(t, third, wasmtest.Echo(), sandbox.Limits{})
	require.Equal(t, uint64(1), third.Stats().Compilations)
	require.Equal(t, uint64(1), third.Stats().Discarded)
	require.NoError(t, os.Chmod(key, 0))
	if _, err := os.ReadFile(key); errors.Is(err, os.ErrPermission) { // root may read everything
		_, err := sandbox.New(sandbox.Options{Worker: workerCommand(t), CacheDir: cache})
		require.ErrorContains(t, err, "key of the cache")
	}
	require.NotEmpty(t, nativeFiles(t, cache, m))
}

// TestLimitsDoNotRecompile proves that no limit is part of the native code.
func TestLimitsDoNotRecompile(t *testing.T) {
	cache := t.TempDir()
	s := open(t, sandbox.Options{CacheDir: cache})
	m := load(t, s, wasmtest.Echo(), sandbox.Limits{})
	before := nativeFiles(t, cache, m)
	for name, limits := range map[string]sandbox.Limits{
		"Memory": {MemoryBytes: 1 << 20}, "Arena": {ArenaBytes: 1 << 10}, "Native": {NativeBytes: 1 << 28},
		"Output": {OutputBytes: 10}, "Logs": {LogLines: 1, LogBytes: 1},
	} {
		other := load(t, s, wasmtest.Echo(), limits)
		_, _, err := provision(t, other, []byte("input"))
		require.NoError(t, err, name)
		require.Equal(t, before, nativeFiles(t, cache, other), name)
	}
	sandbox.ServeFresh(m)
	_, _, err := provision(t, m, []byte("input"))
	require.NoError(t, err)
	require.Equal(t, before, nativeFiles(t, cache, m), "nor is how its state is made")
	require.Equal(t, uint64(1), s.Stats().Compilations)
}
