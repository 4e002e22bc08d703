package registry_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/registry"
	"github.com/caisson-dev/caisson/host/registry/registrytest"
)

// cacheFiles returns the files of a cache by name.
func cacheFiles(t *testing.T, dir string) map[string]os.FileInfo {
	t.Helper()
	files := map[string]os.FileInfo{}
	require.NoError(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		require.NoError(t, err)
		if !info.IsDir() {
			rel, err := filepath.Rel(dir, path)
			require.NoError(t, err)
			files[rel] = info
		}
		return nil
	}))
	return files
}

func inDir(dir string) func(*registry.Options) {
	return func(o *registry.Options) { o.CacheDir = dir }
}

func TestCacheHitNeedsNoRegistry(t *testing.T) {
	p := publish(t)
	dir := filepath.Join(t.TempDir(), "new", "cache")
	_, err := newClient(t, inDir(dir)).Pull(t.Context(), p.ref, p.digest)
	require.NoError(t, err)

	p.Down()
	before := p.Requests()
	artifact, err := newClient(t, inDir(dir)).Pull(t.Context(), p.ref, p.digest)
	require.NoError(t, err, "what is cached outlives the registry and the process")
	require.Equal(t, p.wasm, artifact.Wasm)
	require.Equal(t, map[string]string{"caisson.dev/abi": "1"}, artifact.Annotations)
	require.Equal(t, before, p.Requests(), "nobody is asked")
}

func TestCacheIsPrivate(t *testing.T) {
	p := publish(t)
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	_, err := newClient(t, inDir(dir)).Pull(t.Context(), p.ref, p.digest)
	require.NoError(t, err)

	for _, d := range []string{dir, filepath.Join(dir, "sha256")} {
		info, err := os.Stat(d)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), info.Mode().Perm(), "nobody else looks into %s", d)
	}
	name := regexp.MustCompile(`^sha256/[0-9a-f]{64}$`)
	files := cacheFiles(t, dir)
	require.Len(t, files, 2, "a manifest and a module, and no leftover")
	for path, info := range files {
		require.Regexp(t, name, filepath.ToSlash(path), "a file is named by its digest and nothing else")
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
}

func TestDamagedCacheIsFetchedAgain(t *testing.T) {
	damage := map[string]struct {
		reason string
		do     func(t *testing.T, path string)
	}{
		"Changed": {reason: "one changed bit is noticed", do: func(t *testing.T, path string) {
			t.Helper()
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			b[0] ^= 1
			require.NoError(t, os.WriteFile(path, b, 0o600))
		}},
		"Cut":   {reason: "half a file is noticed", do: func(t *testing.T, path string) { t.Helper(); require.NoError(t, os.Truncate(path, 5)) }},
		"Empty": {reason: "an empty file is noticed", do: func(t *testing.T, path string) { t.Helper(); require.NoError(t, os.Truncate(path, 0)) }},
		"Longer": {reason: "appended bytes are noticed", do: func(t *testing.T, path string) {
			t.Helper()
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteString(strings.Repeat("x", 10_000))
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}},
	}
	for name, tc := range damage {
		t.Run(name, func(t *testing.T) {
			p := publish(t)
			dir := t.TempDir()
			client := newClient(t, inDir(dir))
			_, err := client.Pull(t.Context(), p.ref, p.digest)
			require.NoError(t, err)
			for path := range cacheFiles(t, dir) {
				tc.do(t, filepath.Join(dir, path))
			}

			artifact, err := client.Pull(t.Context(), p.ref, p.digest)
			require.NoError(t, err, tc.reason)
			require.Equal(t, p.wasm, artifact.Wasm, tc.reason)
			require.Equal(t, 2, p.Requests("GET", "/blobs/"), tc.reason)

			_, err = client.Pull(t.Context(), p.ref, p.digest)
			require.NoError(t, err)
			require.Equal(t, 2, p.Requests("GET", "/blobs/"), "and the cache is whole again")
		})
	}
}

func TestCacheIsBounded(t *testing.T) {
	r := registrytest.New(t)
	dir := t.TempDir()
	client := newClient(t, inDir(dir), func(o *registry.Options) { o.CacheBytes = 5000 })
	ref := parse(t, r.Ref("acme/many:1"))
	pull := func(size int) string {
		t.Helper()
		wasm := wasmOf(size)
		digest := r.Put(t, "acme/many", "1", registrytest.Artifact{ConfigType: configType, Layers: []registrytest.Layer{{MediaType: layerType, Content: wasm}}})
		_, err := client.Pull(t.Context(), ref, digest)
		require.NoError(t, err)
		return strings.TrimPrefix(registrytest.Digest(wasm), "sha256:")
	}
	age := func(name string, by time.Duration) {
		t.Helper()
		then := time.Now().Add(-by)
		require.NoError(t, os.Chtimes(filepath.Join(dir, "sha256", name), then, then))
	}

	first, second := pull(1500), pull(1501)
	age(first, 3*time.Hour)
	age(second, 2*time.Hour)
	pull(1500)
	third := pull(2000)

	files := cacheFiles(t, dir)
	require.Contains(t, files, filepath.Join("sha256", first), "the one that was used again stays")
	require.NotContains(t, files, filepath.Join("sha256", second), "the one that was not used for longest goes")
	require.Contains(t, files, filepath.Join("sha256", third), "the new one is never its own victim")
	var total int64
	for _, info := range files {
		total += info.Size()
	}
	require.LessOrEqual(t, total, int64(5000))

	huge := pull(6000)
	require.NotContains(t, cacheFiles(t, dir), filepath.Join("sha256", huge), "what does not fit is not kept")
	require.Contains(t, cacheFiles(t, dir), filepath.Join("sha256", third), "and drives nothing out")
}

func TestLeftoversOfACrashAreRemoved(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sha256"), 0o700))
	old, fresh := filepath.Join(dir, "sha256", ".tmp-old"), filepath.Join(dir, "sha256", ".tmp-fresh")
	for _, path := range []string{old, fresh} {
		require.NoError(t, os.WriteFile(path, []byte("half"), 0o600))
	}
	then := time.Now().Add(-2 * time.Hour)
	require.NoError(t, os.Chtimes(old, then, then))
	newClient(t, inDir(dir))
	require.NoFileExists(t, old)
	require.FileExists(t, fresh, "another process may be writing it")
}

func TestCacheThatCannotBeWritten(t *testing.T) {
	p := publish(t)
	dir := t.TempDir()
	client := newClient(t, inDir(dir))
	require.NoError(t, os.RemoveAll(dir))
	artifact, err := client.Pull(t.Context(), p.ref, p.digest)
	require.NoError(t, err, "a cache that is gone costs speed and nothing else")
	require.Equal(t, p.wasm, artifact.Wasm)

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = registry.New(registry.Options{CacheDir: file})
	require.ErrorContains(t, err, "make the module cache")
}

func TestNoCache(t *testing.T) {
	p := publish(t)
	client := newClient(t, inDir(""))
	for range 2 {
		artifact, err := client.Pull(t.Context(), p.ref, p.digest)
		require.NoError(t, err)
		require.Equal(t, p.wasm, artifact.Wasm)
	}
	require.Equal(t, 2, p.Requests("GET", "/blobs/"))
}

func TestCacheDoesNotServeMoreThanAnnounced(t *testing.T) {
	// A second manifest may name a cached layer with a smaller size; the cache must not
	// be a way around the check.
	p := publish(t)
	client := newClient(t)
	_, err := client.Pull(t.Context(), p.ref, p.digest)
	require.NoError(t, err)
	lying := p.Put(t, "acme/cilium", "lie", registrytest.Artifact{ConfigType: configType, Layers: []registrytest.Layer{{MediaType: layerType, Content: p.wasm, Size: 10}}})
	_, err = client.Pull(t.Context(), p.ref, lying)
	requireKind(t, err, registry.TooLarge, "acme/cilium")
	_, err = client.Pull(t.Context(), p.ref, p.digest)
	require.NoError(t, err)
	require.Equal(t, 2, p.Requests("GET", "/blobs/"), "and the honest one is still cached")
}
