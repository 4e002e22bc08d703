package faults

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/caisson-dev/caisson/abi/wasmfile"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/internal/testenv"
	"github.com/caisson-dev/caisson/host/registry"
	"github.com/caisson-dev/caisson/host/registry/registrytest"
	"github.com/caisson-dev/caisson/host/sandbox"
)

// bench is what all lanes share.
type bench struct {
	root     string
	scheme   *runtime.Scheme
	workload *testenv.Cluster
	admin    client.Client
	registry *registrytest.Registry
	operator string
	worker   string
	cleanups []func()
}

func newBench() (*bench, error) {
	b := &bench{scheme: runtime.NewScheme()}
	var wasm string
	var group errgroup.Group
	group.Go(func() (err error) { b.workload, err = testenv.StartMain(); return err })
	group.Go(func() (err error) {
		b.operator, err = testenv.Build("./cmd/caisson-operator", "caisson-operator")
		return err
	})
	group.Go(func() (err error) {
		if b.worker, err = testenv.Build("./cmd/caisson-worker", "caisson-worker", "CGO_ENABLED=0"); err != nil {
			return err
		}
		wasm, err = testenv.Build("./host/faults/testdata/keeper", "faults-keeper.wasm", "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=-buildmode=c-shared -trimpath -ldflags=-s")
		return err
	})
	err := group.Wait()
	if b.workload != nil {
		b.cleanups = append(b.cleanups, b.workload.Stop)
	}
	if err != nil {
		return b, err
	}
	if b.root, err = testenv.ModuleRoot(); err != nil {
		return b, err
	}
	if err := clientgoscheme.AddToScheme(b.scheme); err != nil {
		return b, err
	}
	if err := v1alpha1.AddToScheme(b.scheme); err != nil {
		return b, err
	}
	if b.admin, err = b.workload.Client(b.scheme); err != nil {
		return b, err
	}
	b.registry = registrytest.New(b)
	return b, b.publish(wasm)
}

func (b *bench) close() {
	for i := len(b.cleanups) - 1; i >= 0; i-- {
		b.cleanups[i]()
	}
}

// Helper, Cleanup and Fatalf make the bench a registrytest.TB, for what outlives one test.
func (b *bench) Helper() {}

// Cleanup implements registrytest.TB.
func (b *bench) Cleanup(f func()) { b.cleanups = append(b.cleanups, f) }

// Fatalf implements registrytest.TB.
func (b *bench) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// publish pushes the module, and the charts: web in two versions.
func (b *bench) publish(file string) error {
	ctx := context.Background()
	push, err := registry.New(registry.Options{})
	if err != nil {
		return err
	}
	wasm, err := b.finish(ctx, file)
	if err != nil {
		return err
	}
	ref, err := registry.ParseReference(b.registry.Ref("modules/keeper:1"))
	if err != nil {
		return err
	}
	if _, err := push.Push(ctx, ref, wasm, nil); err != nil {
		return err
	}
	for _, chart := range [][2]string{{"web", "1.0.0"}, {"web", "2.0.0"}, {"note", "1.0.0"}} {
		archive, meta, err := pack(filepath.Join("testdata", "charts", chart[0]), chart[1])
		if err != nil {
			return err
		}
		ref, err := registry.ParseReference(b.registry.Ref("charts/" + chart[0] + ":" + chart[1]))
		if err != nil {
			return err
		}
		if _, err := push.PushChart(ctx, ref, archive, meta); err != nil {
			return err
		}
	}
	return nil
}

// finish writes the manifest into the module, as `caisson module build` does.
func (b *bench) finish(ctx context.Context, file string) ([]byte, error) {
	wasm, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	box, err := sandbox.New(sandbox.Options{Worker: []string{b.worker}})
	if err != nil {
		return nil, err
	}
	defer func() { _ = box.Close() }()
	loaded, err := box.Load(ctx, wasm, sandbox.Limits{})
	if err != nil {
		return nil, err
	}
	defer loaded.Close()
	return wasmfile.Embed(wasm, loaded.Described())
}

// pack makes the archive that `helm package --version` would make.
func pack(dir, version string) ([]byte, registry.ChartMeta, error) {
	var meta registry.ChartMeta
	var buffer bytes.Buffer
	compressed := gzip.NewWriter(&buffer)
	archive := tar.NewWriter(compressed)
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, meta, err
	}
	templates, err := filepath.Glob(filepath.Join(dir, "templates", "*.yaml"))
	if err != nil {
		return nil, meta, err
	}
	for _, file := range append(files, templates...) {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, meta, err
		}
		if filepath.Base(file) == "Chart.yaml" {
			content = bytes.ReplaceAll(content, []byte("version: 1.0.0"), []byte("version: "+version))
			if err := yaml.Unmarshal(content, &meta); err != nil {
				return nil, meta, err
			}
		}
		relative, err := filepath.Rel(dir, file)
		if err != nil {
			return nil, meta, err
		}
		header := &tar.Header{Name: path.Join(filepath.Base(dir), filepath.ToSlash(relative)), Mode: 0o644, Size: int64(len(content))}
		if err := archive.WriteHeader(header); err != nil {
			return nil, meta, err
		}
		if _, err := archive.Write(content); err != nil {
			return nil, meta, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, meta, err
	}
	if err := compressed.Close(); err != nil {
		return nil, meta, err
	}
	return buffer.Bytes(), meta, nil
}

// fill replaces what differs from lane to lane in a manifest.
func (b *bench) fill(manifest string, l *lane) string {
	return strings.NewReplacer("TENANT", l.tenant(), "PLACE", l.place(), "REGISTRY", b.registry.Host).Replace(manifest)
}

// modulesYAML is what an admin allows and offers.
const modulesYAML = `
apiVersion: caisson.dev/v1alpha1
kind: Module
metadata: {name: keeper}
spec:
  reference: REGISTRY/modules/keeper:1
  pollInterval: 1h
  allowedNamespaces: ["*"]
  limits: {timeout: 10s}
  grant:
    capabilities: [app_ensure, app_remove, secret_read]
    secrets:
      - {namespace: $(owner), names: [cloud]}
---
apiVersion: caisson.dev/v1alpha1
kind: Application
metadata: {name: web}
spec:
  versions:
    - {version: 1.0.0, repo: "oci://REGISTRY/charts", chart: web}
    - {version: 2.0.0, repo: "oci://REGISTRY/charts", chart: web}
---
apiVersion: caisson.dev/v1alpha1
kind: Application
metadata: {name: note}
spec:
  versions:
    - {version: 1.0.0, repo: "oci://REGISTRY/charts", chart: note}
`

// tenantYAML is the namespace of the Stack, and the identity that it acts as.
const tenantYAML = `
apiVersion: v1
kind: Namespace
metadata: {name: TENANT}
---
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: TENANT, name: builder}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {namespace: TENANT, name: builder}
rules:
  - {apiGroups: [""], resources: [secrets], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: TENANT, name: builder}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: builder}
subjects:
  - {kind: ServiceAccount, namespace: TENANT, name: builder}
`

// stackYAML is the reference platform: every kind of node, on a remote cluster.
const stackYAML = `
serviceAccountName: builder
parameters: {extra: true, value: first}
remotes:
  - {name: workload, owned: true, teardown: Drain, kubeconfigSecret: {name: workload-kubeconfig, key: key}}
root: all
provisioners:
  - {name: all, remotecluster: {remote: workload, child: platform}}
  - {name: platform, serial: {children: [keeper, addons]}}
  - {name: addons, concurrent: {children: [web, cloud, extra]}}
  - {name: extra, conditional: {when: "parameters.extra && facts.remembers", child: note}}
  - {name: keeper, module: {ref: keeper, config: {repo: "oci://REGISTRY/charts", namespace: PLACE, value: "${parameters.value}", remember: true}}}
  - {name: cloud, module: {ref: keeper, config: {repo: "oci://REGISTRY/charts", namespace: PLACE, value: constant, secret: cloud}}}
  - {name: web, application: {ref: web, version: 1.0.0, namespace: PLACE}}
  - {name: note, application: {ref: note, namespace: PLACE}}
`

// changes are what the second phase does to the Stack: a module gets another value, an
// application another version with other objects, and a part is switched off.
func changes() [][2]string {
	return [][2]string{{"extra: true", "extra: false"}, {"value: first", "value: second"}, {"{ref: web, version: 1.0.0", "{ref: web, version: 2.0.0"}}
}
