package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/caisson-dev/caisson/abi/wasmfile"
	"github.com/caisson-dev/caisson/host/internal/testenv"
	"github.com/caisson-dev/caisson/host/registry"
	"github.com/caisson-dev/caisson/host/registry/registrytest"
	"github.com/caisson-dev/caisson/host/sandbox"
)

const (
	// moduleCount is how many Modules the Stacks share: the number of the target.
	moduleCount = 20
	// goModule is the one of them that is written in Go, with Go's runtime in it.
	goModule = 0

	chartName, chartVersion = "scale", "1.0.0"
	// The modules that misbehave.
	moduleHangs, moduleCrashes, moduleWaits = "scale-hangs", "scale-crashes", "scale-waits"
)

func moduleName(i int) string { return fmt.Sprintf("scale-%02d", i) }

// shelf is a registry with everything that the Stacks need.
type shelf struct{ host string }

// openShelf serves a registry until the context ends, and fills it.
func openShelf(ctx context.Context, worker string) (*shelf, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the registry: %w", err)
	}
	s := &shelf{host: listener.Addr().String()}
	go func() { _ = registrytest.Serve(ctx, listener, "") }()
	push, err := registry.New(registry.Options{})
	if err != nil {
		return nil, err
	}
	if err := s.pushModules(ctx, push, worker); err != nil {
		return nil, err
	}
	archive, err := chart()
	if err != nil {
		return nil, err
	}
	ref, err := registry.ParseReference(s.host + "/charts/" + chartName + ":" + chartVersion)
	if err != nil {
		return nil, err
	}
	_, err = push.PushChart(ctx, ref, archive, registry.ChartMeta{Name: chartName, Version: chartVersion})
	return s, err
}

func (s *shelf) pushModules(ctx context.Context, push *registry.Client, worker string) error {
	modules := []small{
		{name: moduleHangs, body: loops()},
		{name: moduleCrashes, body: growsTable()},
		{name: moduleWaits, answer: `{"reason":"waiting","retryAfterSeconds":1}`, code: 1},
	}
	for i := 1; i < moduleCount; i++ {
		modules = append(modules, small{name: moduleName(i), answer: `{}`})
	}
	for _, m := range modules {
		wasm, err := m.wasm()
		if err != nil {
			return fmt.Errorf("make module %s: %w", m.name, err)
		}
		if err := s.push(ctx, push, m.name, wasm); err != nil {
			return err
		}
	}
	wasm, err := goGuest(ctx, worker)
	if err != nil {
		return fmt.Errorf("make module %s: %w", moduleName(goModule), err)
	}
	return s.push(ctx, push, moduleName(goModule), wasm)
}

func (s *shelf) push(ctx context.Context, push *registry.Client, name string, wasm []byte) error {
	ref, err := registry.ParseReference(s.reference(name))
	if err != nil {
		return err
	}
	_, err = push.Push(ctx, ref, wasm, nil)
	return err
}

func (s *shelf) reference(module string) string { return s.host + "/modules/" + module + ":1" }

// goGuest builds the Go guest of the host's own tests, with the manifest that it gives.
func goGuest(ctx context.Context, worker string) (wasm []byte, err error) {
	file, err := testenv.Build("./host/testdata/hostile", "host-test-hostile.wasm", "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=-buildmode=c-shared -trimpath -ldflags=-s")
	if err != nil {
		return nil, err
	}
	if wasm, err = os.ReadFile(file); err != nil {
		return nil, fmt.Errorf("read what was built: %w", err)
	}
	box, err := sandbox.New(sandbox.Options{Worker: []string{worker}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	loaded, err := box.Load(ctx, wasm, sandbox.Limits{})
	if err != nil {
		return nil, err
	}
	defer loaded.Close()
	return wasmfile.Embed(wasm, loaded.Described())
}

// chart is the archive of a chart with one object, which is ready as soon as it exists.
func chart() ([]byte, error) {
	files := []struct{ name, content string }{
		{"Chart.yaml", "apiVersion: v2\nname: " + chartName + "\nversion: " + chartVersion + "\n"},
		{"templates/object.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  revision: {{ .Values.revision | default \"0\" | quote }}\n"},
	}
	var buffer bytes.Buffer
	compressed := gzip.NewWriter(&buffer)
	archive := tar.NewWriter(compressed)
	for _, f := range files {
		header := &tar.Header{Name: chartName + "/" + f.name, Mode: 0o644, Size: int64(len(f.content))}
		if err := archive.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("pack the chart: %w", err)
		}
		if _, err := archive.Write([]byte(f.content)); err != nil {
			return nil, fmt.Errorf("pack the chart: %w", err)
		}
	}
	if err := errors.Join(archive.Close(), compressed.Close()); err != nil {
		return nil, fmt.Errorf("pack the chart: %w", err)
	}
	return buffer.Bytes(), nil
}
