package testenv

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const mainSource = "package main\n\nfunc main() { println(\"hello\") }\n"

func TestBuildIn(t *testing.T) {
	t.Parallel()

	root := t.TempDir()
	writeFile(t, filepath.Join(root, "go.mod"), "module example.com/x\n\ngo 1.26\n")
	writeFile(t, filepath.Join(root, "hello", "main.go"), mainSource)
	writeFile(t, filepath.Join(root, "broken", "main.go"), "package main\n\nfunc main() { undefined() }\n")
	env := []string{"GOWORK=off"}

	path, err := buildIn(root, root, "./hello", "hello", env)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(root, ".build", "hello"), path)
	output, err := exec.CommandContext(t.Context(), path).CombinedOutput()
	require.NoError(t, err)
	require.Equal(t, "hello\n", string(output))

	before, err := os.Stat(path)
	require.NoError(t, err)
	_, err = buildIn(root, root, "./hello", "hello", env)
	require.NoError(t, err)
	after, err := os.Stat(path)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after), "what is up to date is left in place")

	guest, err := buildIn(root, root, "./hello", "hello.wasm", append(env, "GOOS=wasip1", "GOARCH=wasm"))
	require.NoError(t, err)
	wasm, err := os.ReadFile(guest)
	require.NoError(t, err)
	require.Equal(t, "\x00asm", string(wasm[:4]), "the environment reaches the compiler")

	_, err = buildIn(root, root, "./broken", "broken", env)
	require.ErrorContains(t, err, "undefined: undefined", "the compiler's words are in the error")
}

// TestWithLock hammers one lock: at no time do two hold it. Each attempt opens the file anew, as separate processes do.
func TestWithLock(t *testing.T) {
	t.Parallel()

	path := filepath.Join(t.TempDir(), "sub", "lock")
	var inside, most, runs atomic.Int32
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				err := withLock(path, func() error {
					most.Store(max(most.Load(), inside.Add(1)))
					runs.Add(1)
					inside.Add(-1)

					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	require.Equal(t, int32(1), most.Load())
	require.Equal(t, int32(400), runs.Load())

	failure := errors.New("no")
	require.ErrorIs(t, withLock(path, func() error { return failure }), failure)
	require.NoError(t, withLock(path, func() error { return nil }), "a failure gives the lock back")
}

func TestNewerThanSource(t *testing.T) {
	t.Parallel()

	built := time.Now().Add(-time.Hour)
	cases := map[string]struct {
		reason  string
		touched string
		want    bool
	}{
		"NothingChanged":   {"the binary is good", "", true},
		"SourceChanged":    {"a newer source needs a build", "a/a.go", false},
		"GoModChanged":     {"so does another version", "go.mod", false},
		"GoSumChanged":     {"and another sum", "go.sum", false},
		"TestChanged":      {"tests are not linked in", "a/a_test.go", true},
		"DocumentsChanged": {"nor are documents", "README.md", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			dir, binary := t.TempDir(), filepath.Join(t.TempDir(), "binary")
			for _, path := range []string{"a/a.go", "a/a_test.go", "go.mod", "go.sum", "README.md"} {
				writeFile(t, filepath.Join(dir, path), "")
				require.NoError(t, os.Chtimes(filepath.Join(dir, path), built, built.Add(-time.Hour)))
			}
			fresh, err := newerThanSource(binary, dir)
			require.NoError(t, err)
			require.False(t, fresh, "there is none yet")

			writeFile(t, binary, "")
			require.NoError(t, os.Chtimes(binary, built, built))
			if c.touched != "" {
				require.NoError(t, os.Chtimes(filepath.Join(dir, c.touched), time.Time{}, built.Add(time.Minute)))
			}
			fresh, err = newerThanSource(binary, dir)
			require.NoError(t, err)
			require.Equal(t, c.want, fresh, c.reason)
		})
	}
}

func TestNamedBinary(t *testing.T) {
	t.Setenv(BinaryVariable, filepath.Join(t.TempDir(), "absent"))
	_, err := StartMain()
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, BinaryVariable, "the reader learns where the path comes from")

	named := filepath.Join(t.TempDir(), "named")
	writeFile(t, named, "")
	t.Setenv(BinaryVariable, named)
	found, err := devclusterBinary()
	require.NoError(t, err)
	require.Equal(t, named, found, "what is named is not built")
}
