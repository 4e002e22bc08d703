package demo

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/caisson-dev/caisson/host/registry"
)

// packChart makes the archive of a chart directory that `helm package` would make.
func packChart(dir string) ([]byte, registry.ChartMeta, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "Chart.yaml"))
	if err != nil {
		return nil, registry.ChartMeta{}, fmt.Errorf("read chart: %w", err)
	}
	var meta registry.ChartMeta
	if err := yaml.Unmarshal(raw, &meta); err != nil {
		return nil, meta, fmt.Errorf("read chart %s: %w", dir, err)
	}
	var buffer bytes.Buffer
	compressed := gzip.NewWriter(&buffer)
	archive := tar.NewWriter(compressed)
	err = filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return addFile(archive, dir, file, meta.Name)
	})
	if err != nil {
		return nil, meta, fmt.Errorf("pack chart %s: %w", dir, err)
	}
	if err := archive.Close(); err != nil {
		return nil, meta, fmt.Errorf("pack chart %s: %w", dir, err)
	}
	if err := compressed.Close(); err != nil {
		return nil, meta, fmt.Errorf("pack chart %s: %w", dir, err)
	}
	return buffer.Bytes(), meta, nil
}

// addFile adds one file below a directory of the chart's name, as Helm wants it.
func addFile(archive *tar.Writer, dir, file, chart string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	relative, err := filepath.Rel(dir, file)
	if err != nil {
		return err
	}
	header := &tar.Header{Name: path.Join(chart, filepath.ToSlash(relative)), Mode: 0o644, Size: int64(len(content)), Format: tar.FormatPAX}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = archive.Write(content)
	return err
}
