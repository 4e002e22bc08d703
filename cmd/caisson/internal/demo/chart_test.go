package demo

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// write makes files below a directory.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
}

// unpack reads an archive back.
func unpack(t *testing.T, archive []byte) (names []string, files map[string]string) {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(archive))
	require.NoError(t, err)
	files = map[string]string{}
	for reader := tar.NewReader(compressed); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return names, files
		}
		require.NoError(t, err)
		require.EqualValues(t, 0o644, header.Mode)
		content, err := io.ReadAll(reader)
		require.NoError(t, err)
		names = append(names, header.Name)
		files[header.Name] = string(content)
	}
}

func TestPackChart(t *testing.T) {
	source := map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: thing\nversion: 1.2.3\nappVersion: \"4\"\n", "values.yaml": "a: 1\n",
		"templates/b.yaml": "b", "templates/deep/a.yaml": "",
	}
	dir := filepath.Join(t.TempDir(), "a-directory-of-another-name")
	write(t, dir, source)
	archive, meta, err := packChart(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"thing", "1.2.3", "4"}, []string{meta.Name, meta.Version, meta.AppVersion})
	names, files := unpack(t, archive)
	require.Equal(t, []string{"thing/Chart.yaml", "thing/templates/b.yaml", "thing/templates/deep/a.yaml", "thing/values.yaml"}, names,
		"everything is below a directory of the chart's name, as Helm wants it")
	for name, content := range source {
		require.Equal(t, content, files["thing/"+name])
	}

	require.NoError(t, os.Chmod(filepath.Join(dir, "values.yaml"), 0o640))
	again, _, err := packChart(dir)
	require.NoError(t, err)
	require.Equal(t, archive, again, "the digest says what is in it, not who packed it and when")
}

func TestPackChartFails(t *testing.T) {
	_, _, err := packChart(t.TempDir())
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "read chart: ")
	dir := t.TempDir()
	write(t, dir, map[string]string{"Chart.yaml": "name: [\n"})
	_, _, err = packChart(dir)
	require.ErrorContains(t, err, "read chart "+dir)
	write(t, dir, map[string]string{"Chart.yaml": "name: x\n"})
	require.NoError(t, os.Symlink("/does/not/exist", filepath.Join(dir, "link")))
	_, _, err = packChart(dir)
	require.ErrorContains(t, err, "pack chart "+dir)
}

// The charts of the example are what the demo pushes.
func TestPackExamples(t *testing.T) {
	charts, err := filepath.Glob("../../../../examples/platform/charts/*")
	require.NoError(t, err)
	require.NotEmpty(t, charts)
	for _, dir := range charts {
		archive, meta, err := packChart(dir)
		require.NoError(t, err)
		names, files := unpack(t, archive)
		require.Equal(t, meta.Name+"/Chart.yaml", names[0])
		require.NotEmpty(t, files[meta.Name+"/values.yaml"], dir)
		require.NotEmpty(t, meta.Version, dir)
	}
}
