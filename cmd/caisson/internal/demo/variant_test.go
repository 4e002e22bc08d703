package demo

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/registry/registrytest"
)

func TestVariant(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "a", "b")
	require.NoError(t, os.MkdirAll(filepath.Join(from, "sub"), 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(from, "x"), []byte("one two two"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(from, "sub", "y"), []byte("y"), 0o600))
	for range 2 {
		require.NoError(t, variant(from, to, edit{"x", "two", "three"}), "again, over what is there")
	}
	edited, err := os.ReadFile(filepath.Join(to, "x"))
	require.NoError(t, err)
	require.Equal(t, "one three two", string(edited))
	original, err := os.ReadFile(filepath.Join(from, "x"))
	require.NoError(t, err)
	require.Equal(t, "one two two", string(original))
	require.FileExists(t, filepath.Join(to, "sub", "y"))

	require.ErrorContains(t, variant(from, to, edit{"x", "four", "five"}), `does not say "four"`)
	require.ErrorIs(t, variant(from, to, edit{"z", "", ""}), os.ErrNotExist)
	require.ErrorIs(t, variant(filepath.Join(from, "none"), to), os.ErrNotExist)
}

// What the demo edits has to be there, or it would fail at the end of a long show.
func TestSourcesOfTheVariants(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, "modules", "cilium", "cilium.go"))
	require.NoError(t, err)
	for _, e := range ciliumEdits() {
		require.Equal(t, 1, strings.Count(string(raw), e.old), e.old)
	}
	for _, e := range metricsEdits() {
		raw, err := os.ReadFile(filepath.Join(root, "examples", "platform", "charts", metricsApplication, e.file))
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(raw), e.old), e.old)
	}
}

func TestPushModule(t *testing.T) {
	server := httptest.NewServer(registrytest.NewHandler(""))
	t.Cleanup(server.Close)
	d, _ := staged(t)
	d.registry = strings.TrimPrefix(server.URL, "http://")
	first, err := d.pushPulse(t.Context(), "0.1.0", nil)
	require.NoError(t, err)
	second, err := d.pushPulse(t.Context(), "0.2.0", growTable())
	require.NoError(t, err)
	require.NotEqual(t, first, second, "the tag moves on, the digest stays")
	require.True(t, strings.HasPrefix(first, "sha256:"))
	d.registry = "127.0.0.1:1"
	_, err = d.pushPulse(t.Context(), "0.1.0", nil)
	require.Error(t, err)
}
