package registry_test

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/registry"
	"github.com/caisson-dev/caisson/host/registry/registrytest"
)

func testAnnotations(t *testing.T) map[string]string {
	t.Helper()
	annotations, err := registry.ManifestAnnotations(abi.Manifest{
		ABI: 1, Name: "cilium", Version: "1.2.3", Description: "Installs Cilium.", Capabilities: []abi.Function{abi.AppEnsure, abi.KubeGet},
	})
	require.NoError(t, err)
	return annotations
}

// served is what the registry holds under a path below /v2/.
func served(t *testing.T, r *registrytest.Registry, path string) []byte {
	t.Helper()
	resp, err := http.Get(r.URL + "/v2/" + path)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", body)
	return body
}

// goldenManifest is the artifact of the CNCF's Wasm working group with our artifact
// type and annotations; its digest is part of what users record, so it must not drift.
const goldenManifest = `{
  "schemaVersion": 2,
  "mediaType": "application/vnd.oci.image.manifest.v1+json",
  "artifactType": "application/vnd.caisson.provisioner.v1",
  "config": {
    "mediaType": "application/vnd.wasm.config.v0+json",
    "size": 161,
    "digest": "CONFIG"
  },
  "layers": [
    {
      "mediaType": "application/wasm",
      "size": 1000,
      "digest": "LAYER",
      "annotations": {"org.opencontainers.image.title": "module.wasm"}
    }
  ],
  "annotations": {
    "caisson.dev/abi": "1",
    "caisson.dev/capabilities": "[\"app_ensure\",\"kube_get\"]",
    "org.opencontainers.image.description": "Installs Cilium.",
    "org.opencontainers.image.title": "cilium",
    "org.opencontainers.image.version": "1.2.3"
  }
}`

func TestPushAndPull(t *testing.T) {
	wasm := wasmOf(1000)
	var digests []string
	for range 2 {
		r := registrytest.New(t)
		client := newClient(t)
		ref := parse(t, r.Ref("acme/cilium:1.2.3"))
		digest, err := client.Push(t.Context(), ref, wasm, testAnnotations(t))
		require.NoError(t, err)
		digests = append(digests, digest)

		resolved, err := client.Resolve(t.Context(), ref)
		require.NoError(t, err)
		require.Equal(t, digest, resolved)
		artifact, err := client.Pull(t.Context(), ref, digest)
		require.NoError(t, err)
		require.Equal(t, wasm, artifact.Wasm)
		require.Equal(t, testAnnotations(t), artifact.Annotations)

		again, err := client.Push(t.Context(), ref, wasm, testAnnotations(t))
		require.NoError(t, err)
		require.Equal(t, digest, again, "pushing again changes nothing")

		raw := served(t, r, "acme/cilium/manifests/"+digest)
		var manifest struct{ Config struct{ Digest string } }
		require.NoError(t, json.Unmarshal(raw, &manifest))
		config := served(t, r, "acme/cilium/blobs/"+manifest.Config.Digest)
		require.JSONEq(t, `{"created":"1970-01-01T00:00:00Z","architecture":"wasm","os":"wasip1","layerDigests":["`+registrytest.Digest(wasm)+`"]}`, string(config))
		want := jsonReplace(goldenManifest, "CONFIG", manifest.Config.Digest, "LAYER", registrytest.Digest(wasm))
		require.JSONEq(t, want, string(raw))
	}
	require.Equal(t, digests[0], digests[1], "equal bytes have an equal digest, whenever and wherever they are pushed")
	require.Equal(t, "sha256:90df52bc4e00376ab03cc23dbb5db2509b19da498a8afde2b65ebbff74f523b8", digests[0], "the digest is stable across versions of this package")
}

func TestPushRefuses(t *testing.T) {
	r := registrytest.New(t)
	client := newClient(t, func(o *registry.Options) { o.MaxModuleBytes = 1000 })
	cases := map[string]struct {
		reason string
		ref    string
		wasm   []byte
		kind   registry.Kind
		text   string
	}{
		"Text":      {reason: "the wrong file is the usual mistake", ref: "a/b:1", wasm: []byte("# README"), kind: registry.NotAModule, text: "not a Wasm file"},
		"Component": {reason: "the other Wasm is explained", ref: "a/b:1", wasm: []byte("\x00asm\x0d\x00\x01\x00"), kind: registry.NotAModule, text: "component"},
		"Empty":     {reason: "nothing cannot be pushed", ref: "a/b:1", kind: registry.NotAModule, text: "not a Wasm file"},
		"Large":     {reason: "what could not be pulled is not pushed", ref: "a/b:1", wasm: wasmOf(1001), kind: registry.TooLarge, text: "1001 bytes and 1000 are allowed"},
		"Digest":    {reason: "a digest is the result", ref: "a/b@" + zeroDigest, wasm: wasmOf(10), kind: registry.InvalidReference, text: "needs a tag"},
		"TagDigest": {reason: "also beside a tag", ref: "a/b:1@" + zeroDigest, wasm: wasmOf(10), kind: registry.InvalidReference, text: "needs a tag"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := client.Push(t.Context(), parse(t, r.Ref(tc.ref)), tc.wasm, nil)
			requireKind(t, err, tc.kind, "a/b")
			require.ErrorContains(t, err, tc.text, tc.reason)
		})
	}
	require.Zero(t, r.Requests(), "nothing was sent")
}

func TestPushToAMisbehavingRegistry(t *testing.T) {
	cases := map[string]struct {
		reason string
		fault  func(r *registrytest.Registry)
		kind   registry.Kind
	}{
		"Down":     {reason: "a registry that is down is said to be", fault: func(r *registrytest.Registry) { r.Down() }, kind: registry.Unavailable},
		"Error":    {reason: "three failures are enough", fault: func(r *registrytest.Registry) { r.Inject(registrytest.Status(registrytest.Everything, 500, 0)) }, kind: registry.Unavailable},
		"ReadOnly": {reason: "a registry that takes nothing", fault: func(r *registrytest.Registry) { r.Inject(registrytest.Status(registrytest.Blobs, 403, 0)) }, kind: registry.Unauthorized},
		"Login":    {reason: "a login is needed to push", fault: func(r *registrytest.Registry) { r.Inject(registrytest.Login("u", "p")) }, kind: registry.Unauthorized},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := registrytest.New(t)
			tc.fault(r)
			_, err := newClient(t).Push(t.Context(), parse(t, r.Ref("a/b:1")), wasmOf(10), nil)
			requireKind(t, err, tc.kind, "a/b:1")
			require.ErrorContains(t, err, "push ", tc.reason)
			r.Up()
			r.Heal()
			_, err = newClient(t).Resolve(t.Context(), parse(t, r.Ref("a/b:1")))
			require.ErrorIs(t, err, registry.NotFound, "a failed push leaves no tag")
		})
	}
}

func TestPushRidesOutServerErrors(t *testing.T) {
	r := registrytest.New(t)
	r.Inject(registrytest.Status(registrytest.Blobs, 503, 1))
	_, err := newClient(t).Push(t.Context(), parse(t, r.Ref("a/b:1")), wasmOf(10), nil)
	require.NoError(t, err)
}

func TestPushChart(t *testing.T) {
	r := registrytest.New(t)
	client := newClient(t)
	chart := []byte("\x1f\x8b not really gzip, and nobody here unpacks it")
	meta := registry.ChartMeta{Name: "metrics", Version: "3.1.0+build.7", AppVersion: "0.7", Description: "Metrics."}
	ref := parse(t, r.Ref("charts/metrics:3.1.0_build.7"))
	digest, err := client.PushChart(t.Context(), ref, chart, meta)
	require.NoError(t, err)

	var manifest struct {
		ArtifactType string
		Config       struct{ MediaType, Digest string }
		Layers       []struct{ MediaType, Digest string }
		Annotations  map[string]string
	}
	require.NoError(t, json.Unmarshal(served(t, r, "charts/metrics/manifests/3.1.0_build.7"), &manifest))
	require.Equal(t, "application/vnd.cncf.helm.config.v1+json", manifest.Config.MediaType)
	require.Len(t, manifest.Layers, 1)
	require.Equal(t, "application/vnd.cncf.helm.chart.content.v1.tar+gzip", manifest.Layers[0].MediaType)
	require.Equal(t, chart, served(t, r, "charts/metrics/blobs/"+manifest.Layers[0].Digest))
	require.JSONEq(t, `{"apiVersion":"v2","name":"metrics","version":"3.1.0+build.7","appVersion":"0.7","description":"Metrics."}`,
		string(served(t, r, "charts/metrics/blobs/"+manifest.Config.Digest)))
	require.Equal(t, "3.1.0+build.7", manifest.Annotations["org.opencontainers.image.version"])

	again, err := client.PushChart(t.Context(), ref, chart, meta)
	require.NoError(t, err)
	require.Equal(t, digest, again)

	_, err = client.Pull(t.Context(), ref, digest)
	requireKind(t, err, registry.NotAModule, "charts/metrics")
	require.ErrorContains(t, err, "or a chart", "a chart is no module, and is named as what it is")
}

func TestPushChartRefuses(t *testing.T) {
	gzip := []byte("\x1f\x8b")
	cases := map[string]struct {
		reason string
		ref    string
		chart  []byte
		kind   registry.Kind
		text   string
	}{
		"Name":    {reason: "Helm looks a chart up by its name", ref: "charts/other:1.0.0", chart: gzip, kind: registry.InvalidReference, text: `the chart is named "metrics"`},
		"Version": {reason: "and by its version", ref: "charts/metrics:latest", chart: gzip, kind: registry.InvalidReference, text: `the chart's version is "1.0.0"`},
		"File":    {reason: "a chart is packed", ref: "charts/metrics:1.0.0", chart: []byte("apiVersion: v2"), kind: registry.NotAModule, text: "not a packed chart"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := registrytest.New(t)
			_, err := newClient(t).PushChart(t.Context(), parse(t, r.Ref(tc.ref)), tc.chart, registry.ChartMeta{Name: "metrics", Version: "1.0.0"})
			requireKind(t, err, tc.kind, "charts/")
			require.ErrorContains(t, err, tc.text, tc.reason)
			require.Zero(t, r.Requests(), "nothing was sent")
		})
	}
}

func TestManifestAnnotationsOfAMinimalModule(t *testing.T) {
	annotations, err := registry.ManifestAnnotations(abi.Manifest{ABI: 1, Name: "a", Version: "0.1.0"})
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"caisson.dev/abi": "1", "caisson.dev/capabilities": "[]",
		"org.opencontainers.image.title": "a", "org.opencontainers.image.version": "0.1.0",
	}, annotations)
}
