package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/caisson-dev/caisson/host/registry"
)

// edit is a change of a source, as an author makes it.
type edit struct{ file, old, new string }

// variant copies a directory and edits the copy. It fails if what is to be edited is not
// there.
func variant(from, to string, edits ...edit) error {
	if err := os.RemoveAll(to); err != nil {
		return fmt.Errorf("make a variant: %w", err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return fmt.Errorf("make a variant: %w", err)
	}
	for _, e := range edits {
		path := filepath.Join(to, e.file)
		raw, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("make a variant: %w", err)
		}
		if !strings.Contains(string(raw), e.old) {
			return fmt.Errorf("make a variant: %s does not say %q", path, e.old)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(raw), e.old, e.new, 1)), 0o600); err != nil {
			return fmt.Errorf("make a variant: %w", err)
		}
	}
	return nil
}

// nextCilium builds the next version of a module, unless it is built: of its source, with two lines changed. The
// copy is in the source tree because it is built as a part of it.
func (d *demo) nextCilium(ctx context.Context) error {
	if d.nextIsBuilt {
		return nil
	}
	dir := filepath.Join(d.bin, "_variants", "cilium")
	if err := variant(filepath.Join(d.Root, "modules", "cilium"), dir, ciliumEdits()...); err != nil {
		return err
	}
	err := d.show.timed("build module cilium 0.2.0", func() error {
		return d.command(ctx, d.Self, "module", "build", dir, "-o", d.wasm("cilium-next"))
	})
	d.nextIsBuilt = err == nil
	return err
}

// ciliumEdits make the next version, which puts an annotation on its pods.
func ciliumEdits() []edit {
	const values = "\t\tValues: guest.Values{"
	return []edit{
		{"cilium.go", `Version:      "0.1.0"`, `Version:      "0.2.0"`},
		{"cilium.go", values, values + `"podAnnotations": guest.Values{"` + nextAnnotation + `": "0.2.0"},`},
	}
}

// nextAnnotation is what the next version of the module puts on its pods.
const nextAnnotation = "example.com/module"

// pushChart publishes a chart of a directory.
func (d *demo) pushChart(ctx context.Context, client *registry.Client, dir string) error {
	archive, meta, err := packChart(dir)
	if err != nil {
		return err
	}
	ref, err := registry.ParseReference(fmt.Sprintf("%s/charts/%s:%s", d.registry, meta.Name, meta.Version))
	if err != nil {
		return err
	}
	_, err = client.PushChart(ctx, ref, archive, meta)
	return err
}

// pusher is a client that publishes.
func (d *demo) pusher() (*registry.Client, error) {
	return registry.New(registry.Options{CacheDir: filepath.Join(d.env.Dir(), "push-cache")})
}

// pushModule publishes Wasm under a tag, and returns its digest.
func (d *demo) pushModule(ctx context.Context, name string, wasm []byte) (string, error) {
	client, err := d.pusher()
	if err != nil {
		return "", err
	}
	ref, err := registry.ParseReference(d.registry + "/modules/" + name + ":1")
	if err != nil {
		return "", err
	}
	return client.Push(ctx, ref, wasm, nil)
}
