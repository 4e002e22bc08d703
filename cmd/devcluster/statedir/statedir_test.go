package statedir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTemporary(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())

	first, err := Open("")
	require.NoError(t, err)
	second, err := Open("")
	require.NoError(t, err)
	require.NotEqual(t, first.Path(), second.Path(), "each has its own")
	info, err := os.Stat(first.Path())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm(), "it will hold secrets")

	require.NoError(t, os.WriteFile(filepath.Join(first.Path(), "state"), nil, 0o600))
	require.NoError(t, first.Close())
	require.NoDirExists(t, first.Path())
	require.DirExists(t, second.Path())
	require.NoError(t, second.Close())
}

func TestGiven(t *testing.T) {
	t.Parallel()

	path := filepath.Join(t.TempDir(), "a", "b")
	dir, err := Open(path)
	require.NoError(t, err)
	require.Equal(t, path, dir.Path())

	_, err = Open(path)
	require.ErrorIs(t, err, ErrInUse)

	require.NoError(t, os.WriteFile(filepath.Join(path, "state"), []byte("kept"), 0o600))
	require.NoError(t, dir.Close())
	again, err := Open(path)
	require.NoError(t, err, "it is free again")
	data, err := os.ReadFile(filepath.Join(again.Path(), "state"))
	require.NoError(t, err)
	require.Equal(t, "kept", string(data))
	require.NoError(t, again.Close())
}

func TestRelative(t *testing.T) {
	t.Chdir(t.TempDir())

	dir, err := Open("state")
	require.NoError(t, err)
	require.True(t, filepath.IsAbs(dir.Path()), "kube-apiserver wants absolute paths")
	require.NoError(t, dir.Close())
}

func TestOpenFails(t *testing.T) {
	t.Parallel()

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := Open(file)
	require.ErrorContains(t, err, "create state directory")

	blocked := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(blocked, "lock"), 0o700))
	_, err = Open(blocked)
	require.ErrorContains(t, err, "open lock of state directory")
}
