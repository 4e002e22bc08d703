package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/registry"
	"github.com/caisson-dev/caisson/host/registry/registrytest"
)

const (
	configType = "application/vnd.wasm.config.v0+json"
	layerType  = "application/wasm"
)

// wasmOf is a well-formed file of n bytes: a header and a custom section.
func wasmOf(n int) []byte {
	b := append([]byte("\x00asm\x01\x00\x00\x00"), make([]byte, n-8)...)
	return b
}

func newClient(t *testing.T, change ...func(*registry.Options)) *registry.Client {
	t.Helper()
	o := registry.Options{CacheDir: t.TempDir(), RetryBackoff: time.Millisecond}
	for _, f := range change {
		f(&o)
	}
	client, err := registry.New(o)
	require.NoError(t, err)
	return client
}

func parse(t *testing.T, s string) registry.Reference {
	t.Helper()
	ref, err := registry.ParseReference(s)
	require.NoError(t, err)
	return ref
}

// published is a registry that holds one module.
type published struct {
	*registrytest.Registry
	ref    registry.Reference
	digest string
	wasm   []byte
}

func publish(t *testing.T) published {
	t.Helper()
	r := registrytest.New(t)
	wasm := wasmOf(1000)
	digest := r.Put(t, "acme/cilium", "1.0.0", registrytest.Artifact{
		ConfigType:  configType,
		Layers:      []registrytest.Layer{{MediaType: layerType, Content: wasm}},
		Annotations: map[string]string{"caisson.dev/abi": "1"},
	})
	return published{Registry: r, ref: parse(t, r.Ref("acme/cilium:1.0.0")), digest: digest, wasm: wasm}
}

// requireKind checks what every error of the package promises.
func requireKind(t *testing.T, err error, kind registry.Kind, object string) *registry.Error {
	t.Helper()
	require.ErrorIs(t, err, kind)
	var typed *registry.Error
	require.ErrorAs(t, err, &typed)
	require.Contains(t, err.Error(), object, "an error names its object")
	require.Contains(t, err.Error(), typed.Remedy, "an error says what to do")
	require.NotEmpty(t, typed.Remedy)
	require.NotContains(t, err.Error(), "\n", "an error is one line")
	require.NotContains(t, err.Error(), "<html>", "an error quotes no page")
	return typed
}
