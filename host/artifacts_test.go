package host_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"

	"github.com/caisson-dev/caisson/abi/wasmfile"
	"github.com/caisson-dev/caisson/host/internal/testenv"
	"github.com/caisson-dev/caisson/host/registry"
	"github.com/caisson-dev/caisson/host/sandbox"
)

// guests are the modules of the tests: the first-party ones, and one that means harm.
func guests() map[string]string {
	return map[string]string{
		"cilium": "./modules/cilium", "storage": "./modules/storage", "ingress": "./modules/ingress", "hostile": "./host/testdata/hostile", "prober": "./host/testdata/prober",
	}
}

// publish builds and pushes the modules and the charts.
func (r *rig) publish() error {
	ctx := context.Background()
	push, err := registry.New(registry.Options{})
	if err != nil {
		return err
	}
	box, err := sandbox.New(sandbox.Options{Worker: []string{r.worker}})
	if err != nil {
		return err
	}
	defer func() { _ = box.Close() }()
	r.wasm = map[string][]byte{}
	built := make(chan [2]string, len(guests()))
	var group errgroup.Group
	for name, pkg := range guests() {
		group.Go(func() error {
			file, err := testenv.Build(pkg, "host-test-"+name+".wasm", "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=-buildmode=c-shared -trimpath -ldflags=-s")
			built <- [2]string{name, file}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	close(built)
	for b := range built {
		name := b[0]
		if r.wasm[name], err = finish(ctx, box, b[1]); err != nil {
			return fmt.Errorf("module %s: %w", name, err)
		}
		if err := r.pushModule(ctx, push, name, r.wasm[name]); err != nil {
			return err
		}
	}
	return r.pushCharts(ctx, push)
}

// finish writes the manifest into a module, as `caisson module build` does.
func finish(ctx context.Context, box *sandbox.Sandbox, file string) ([]byte, error) {
	wasm, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	loaded, err := box.Load(ctx, wasm, sandbox.Limits{})
	if err != nil {
		return nil, err
	}
	defer loaded.Close()
	return wasmfile.Embed(wasm, loaded.Described())
}

func (r *rig) pushModule(ctx context.Context, push *registry.Client, name string, wasm []byte) error {
	ref, err := registry.ParseReference(r.registry.Ref("modules/" + name + ":1"))
	if err != nil {
		return err
	}
	_, err = push.Push(ctx, ref, wasm, nil)
	return err
}

func (r *rig) pushCharts(ctx context.Context, push *registry.Client) error {
	dirs, err := filepath.Glob(examplePath("charts", "*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		archive, meta, err := pack(dir)
		if err != nil {
			return fmt.Errorf("chart %s: %w", dir, err)
		}
		ref, err := registry.ParseReference(r.registry.Ref("charts/" + meta.Name + ":" + meta.Version))
		if err != nil {
			return err
		}
		if _, err := push.PushChart(ctx, ref, archive, meta); err != nil {
			return err
		}
	}
	return nil
}

// examplePath is a path of the example, seen from this package.
func examplePath(parts ...string) string {
	return filepath.Join(append([]string{"..", "examples", "platform"}, parts...)...)
}

// pack makes the archive that `helm package` would make.
func pack(dir string) ([]byte, registry.ChartMeta, error) {
	var meta registry.ChartMeta
	raw, err := os.ReadFile(filepath.Join(dir, "Chart.yaml"))
	if err != nil {
		return nil, meta, err
	}
	if err := yaml.Unmarshal(raw, &meta); err != nil {
		return nil, meta, err
	}
	var buffer bytes.Buffer
	compressed := gzip.NewWriter(&buffer)
	archive := tar.NewWriter(compressed)
	err = filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: path.Join(meta.Name, filepath.ToSlash(relative)), Mode: 0o644, Size: int64(len(content))}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	})
	if err != nil {
		return nil, meta, err
	}
	if err := archive.Close(); err != nil {
		return nil, meta, err
	}
	if err := compressed.Close(); err != nil {
		return nil, meta, err
	}
	return buffer.Bytes(), meta, nil
}

// rawModule builds a Wasm module byte by byte: functions of type () -> i32 that return
// 0, under the names, and at most one import of the given type () -> ().
func rawModule(importModule, importName string, exports ...string) []byte {
	section := func(id byte, content []byte) []byte { return append([]byte{id, byte(len(content))}, content...) }
	text := func(s string) []byte { return append([]byte{byte(len(s))}, s...) }
	wasm := []byte("\x00asm\x01\x00\x00\x00")
	wasm = append(wasm, section(1, []byte{2, 0x60, 0, 1, 0x7f, 0x60, 1, 0x7e, 1, 0x7e})...) // () -> i32, (i64) -> i64
	function := byte(0)
	if importName != "" {
		content := append([]byte{1}, text(importModule)...)
		content = append(content, text(importName)...)
		wasm = append(wasm, section(2, append(content, 0, 1))...)
		function = 1
	}
	wasm = append(wasm, section(3, []byte{1, 0})...)
	content := []byte{byte(len(exports))}
	for _, name := range exports {
		content = append(append(content, text(name)...), 0, function)
	}
	wasm = append(wasm, section(7, content)...)
	return append(wasm, section(10, []byte{1, 4, 0, 0x41, 0, 0x0b})...)
}
