package registry_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/registry"
	"github.com/caisson-dev/caisson/host/registry/registrytest"
)

func TestResolveAndPull(t *testing.T) {
	p := publish(t)
	client := newClient(t)

	digest, err := client.Resolve(t.Context(), p.ref)
	require.NoError(t, err)
	require.Equal(t, p.digest, digest)
	require.Equal(t, 1, p.Requests("/manifests/")-1, "resolving is one request for the manifest, after the one that put it there")

	artifact, err := client.Pull(t.Context(), p.ref, digest)
	require.NoError(t, err)
	require.Equal(t, &registry.Artifact{
		Digest: p.digest, Wasm: p.wasm, WasmDigest: registrytest.Digest(p.wasm),
		Annotations: map[string]string{"caisson.dev/abi": "1"},
	}, artifact)
}

func TestResolvePinnedAsksNobody(t *testing.T) {
	ref := parse(t, "registry.invalid/a:1@"+zeroDigest)
	digest, err := newClient(t).Resolve(t.Context(), ref)
	require.NoError(t, err)
	require.Equal(t, zeroDigest, digest)
}

func TestResolveWithoutDigestHeader(t *testing.T) {
	p := publish(t)
	p.Inject(registrytest.NoDigest())
	digest, err := newClient(t).Resolve(t.Context(), p.ref)
	require.NoError(t, err)
	require.Equal(t, p.digest, digest, "a registry that names no digest is read instead")
}

// failing is a registry that misbehaves, and what must come of resolving and pulling.
type failing struct {
	reason  string
	fault   func(p *published)
	resolve registry.Kind
	pull    registry.Kind
	text    string
}

func TestMisbehavingRegistry(t *testing.T) {
	cases := map[string]failing{
		"Down": {reason: "a registry that is down is retried later", fault: func(p *published) { p.Down() },
			resolve: registry.Unavailable, pull: registry.Unavailable, text: "does not answer"},
		"ServerError": {reason: "a broken registry is not a missing tag", fault: func(p *published) { p.Inject(registrytest.Status(registrytest.Everything, 503, 0)) },
			resolve: registry.Unavailable, pull: registry.Unavailable, text: "503 Service Unavailable"},
		"ManifestError": {reason: "the handshake may work and the rest not", fault: func(p *published) { p.Inject(registrytest.Status(registrytest.Manifests, 500, 0)) },
			resolve: registry.Unavailable, pull: registry.Unavailable, text: "500 Internal Server Error"},
		"RateLimit": {reason: "a rate limit passes", fault: func(p *published) { p.Inject(registrytest.Status(registrytest.Manifests, 429, 0)) },
			resolve: registry.Unavailable, pull: registry.Unavailable, text: "429 Too Many Requests"},
		"NoSuchTag": {reason: "a missing tag is said to be missing", fault: func(p *published) { p.Inject(registrytest.Status(registrytest.Manifests, 404, 0)) },
			resolve: registry.NotFound, pull: registry.NotFound, text: "no such thing"},
		"NoSuchBlob": {reason: "a registry can lose a layer", fault: func(p *published) { p.Inject(registrytest.Status(registrytest.Blobs, 404, 0)) },
			pull: registry.NotFound, text: "no such thing"},
		"Forbidden": {reason: "a login without rights is refused", fault: func(p *published) { p.Inject(registrytest.Status(registrytest.Manifests, 403, 0)) },
			resolve: registry.Unauthorized, pull: registry.Unauthorized, text: "refused access"},
		"LoginDemanded": {reason: "anonymous is not enough", fault: func(p *published) { p.Inject(registrytest.Login("u", "p")) },
			resolve: registry.Unauthorized, pull: registry.Unauthorized, text: "refused access"},
		"WrongManifest": {reason: "a manifest that is not the one named is refused", fault: func(p *published) { p.Inject(registrytest.WrongBytes(registrytest.Manifests)) },
			pull: registry.DigestMismatch, text: "was asked for"},
		"WrongBlob": {reason: "a layer that is not the one named is refused", fault: func(p *published) { p.Inject(registrytest.WrongBytes(registrytest.Blobs)) },
			pull: registry.DigestMismatch, text: "was asked for"},
		"LongManifest": {reason: "a manifest does not go on for ever", fault: func(p *published) { p.Inject(registrytest.Oversized(registrytest.Manifests, 5<<20)) },
			pull: registry.TooLarge, text: "4194304 bytes"},
		"LongBlob": {reason: "a layer ends where its manifest says", fault: func(p *published) { p.Inject(registrytest.Oversized(registrytest.Blobs, 10<<20)) },
			pull: registry.TooLarge, text: "1000 bytes"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := publish(t)
			client := newClient(t)
			tc.fault(&p)

			_, err := client.Resolve(t.Context(), p.ref)
			if tc.resolve == "" {
				require.NoError(t, err, tc.reason)
			} else {
				requireKind(t, err, tc.resolve, p.ref.String())
				require.ErrorContains(t, err, tc.text, tc.reason)
			}
			_, err = client.Pull(t.Context(), p.ref, p.digest)
			requireKind(t, err, tc.pull, p.ref.String())
			require.ErrorContains(t, err, tc.text, tc.reason)

			p.Up()
			p.Heal()
			artifact, err := client.Pull(t.Context(), p.ref, p.digest)
			require.NoError(t, err, "nothing bad was cached, and a healed registry works at once")
			require.Equal(t, p.wasm, artifact.Wasm)
		})
	}
}

func TestNoSuchTag(t *testing.T) {
	p := publish(t)
	_, err := newClient(t).Resolve(t.Context(), parse(t, p.Ref("acme/cilium:9.9.9")))
	requireKind(t, err, registry.NotFound, "acme/cilium:9.9.9")
	_, err = newClient(t).Resolve(t.Context(), parse(t, p.Ref("acme/nothing:1.0.0")))
	requireKind(t, err, registry.NotFound, "acme/nothing:1.0.0")
}

func TestNobodyListens(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	host := listener.Addr().String()
	require.NoError(t, listener.Close())
	_, err = newClient(t).Resolve(t.Context(), parse(t, host+"/a:1"))
	requireKind(t, err, registry.Unavailable, host)
	require.ErrorContains(t, err, "connection refused", "the real cause is named")
}

func TestRetriesServerErrorsOnly(t *testing.T) {
	cases := map[string]struct {
		reason string
		code   int
		times  int
		asked  int
		ok     bool
	}{
		"Passing":   {reason: "two failures are ridden out", code: 502, times: 2, asked: 3, ok: true},
		"Lasting":   {reason: "three are not", code: 502, times: 0, asked: 3},
		"RateLimit": {reason: "a client that is told to slow down does not repeat", code: 429, times: 1, asked: 1},
		"Missing":   {reason: "what is missing stays missing", code: 404, times: 1, asked: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := publish(t)
			p.Inject(registrytest.Status(registrytest.Manifests, tc.code, tc.times))
			_, err := newClient(t).Resolve(t.Context(), p.ref)
			require.Equal(t, tc.ok, err == nil, tc.reason)
			require.Equal(t, tc.asked, p.Requests("HEAD", "/manifests/"), tc.reason)
		})
	}
}

func TestContextIsRespected(t *testing.T) {
	p := publish(t)
	release := make(chan struct{})
	p.Inject(registrytest.Hang(registrytest.Manifests, release))
	client := newClient(t)

	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 2)
	go func() { _, err := client.Resolve(ctx, p.ref); failed <- err }()
	go func() { _, err := client.Pull(ctx, p.ref, p.digest); failed <- err }()
	require.Eventually(t, func() bool { return p.Requests("HEAD", "/manifests/") > 0 && p.Requests("GET", "/manifests/") > 0 }, 10*time.Second, time.Millisecond)
	cancel()
	for range 2 {
		err := <-failed
		require.ErrorIs(t, err, context.Canceled, "a caller that leaves is let go at once")
		requireKind(t, err, registry.Unavailable, p.ref.String())
	}
	close(release)
	artifact, err := client.Pull(t.Context(), p.ref, p.digest)
	require.NoError(t, err, "the caller that left took nothing with it")
	require.Equal(t, p.wasm, artifact.Wasm)
}

func TestTimeout(t *testing.T) {
	p := publish(t)
	p.Inject(registrytest.Hang(registrytest.Blobs, make(chan struct{})))
	client := newClient(t, func(o *registry.Options) { o.Timeout = 50 * time.Millisecond })
	_, err := client.Pull(t.Context(), p.ref, p.digest)
	requireKind(t, err, registry.Unavailable, p.ref.String())
	require.ErrorContains(t, err, "did not answer in time")
}

func TestSizeCaps(t *testing.T) {
	r := registrytest.New(t)
	layer := func(size int64) registrytest.Artifact {
		return registrytest.Artifact{ConfigType: configType, Layers: []registrytest.Layer{{MediaType: layerType, Content: wasmOf(1000), Size: size}}}
	}
	ref := parse(t, r.Ref("acme/big:1"))
	client := newClient(t, func(o *registry.Options) { o.MaxModuleBytes = 999 })

	_, err := client.Pull(t.Context(), ref, r.Put(t, "acme/big", "1", layer(0)))
	typed := requireKind(t, err, registry.TooLarge, "acme/big")
	require.Equal(t, [2]int64{1000, 999}, [2]int64{typed.Size, typed.Limit})
	require.ErrorContains(t, err, "1000 bytes and 999 are allowed", "both numbers are said")
	require.Zero(t, r.Requests("GET", "/blobs/"), "what is announced as too large is not asked for")

	_, err = client.Pull(t.Context(), ref, r.Put(t, "acme/big", "2", layer(500)))
	typed = requireKind(t, err, registry.TooLarge, "acme/big")
	require.Equal(t, int64(500), typed.Limit, "a layer that is longer than announced is cut off")

	_, err = newClient(t).Pull(t.Context(), ref, r.Put(t, "acme/big", "3", layer(2000)))
	requireKind(t, err, registry.NotAModule, "acme/big")
	require.ErrorContains(t, err, "has 1000 bytes and its manifest says 2000")

	exact := newClient(t, func(o *registry.Options) { o.MaxModuleBytes = 1000 })
	artifact, err := exact.Pull(t.Context(), ref, r.Put(t, "acme/big", "4", layer(0)))
	require.NoError(t, err, "a limit includes itself")
	require.Len(t, artifact.Wasm, 1000)
}

func TestAcceptList(t *testing.T) {
	good := registrytest.Layer{MediaType: layerType, Content: wasmOf(100)}
	cases := map[string]struct {
		reason   string
		artifact registrytest.Artifact
		why      string
	}{
		"CNCF":        {reason: "the CNCF artifact", artifact: registrytest.Artifact{ConfigType: configType, Layers: []registrytest.Layer{good}}},
		"EmptyConfig": {reason: "an artifact by oras", artifact: registrytest.Artifact{ConfigType: "application/vnd.oci.empty.v1+json", Layers: []registrytest.Layer{good}}},
		"Kubewarden": {reason: "an artifact by kubewarden or wasm-to-oci", artifact: registrytest.Artifact{
			ConfigType: "application/vnd.wasm.config.v1+json", Layers: []registrytest.Layer{{MediaType: "application/vnd.wasm.content.layer.v1+wasm", Content: wasmOf(100)}}}},
		"Image": {reason: "a container image is the usual mistake", why: "as of a container image", artifact: registrytest.Artifact{
			ConfigType: "application/vnd.oci.image.config.v1+json", Layers: []registrytest.Layer{good}}},
		"Chart": {reason: "a chart is the other", why: "or a chart", artifact: registrytest.Artifact{
			ConfigType: "application/vnd.cncf.helm.config.v1+json", Layers: []registrytest.Layer{good}}},
		"Tar": {reason: "nothing packed is unpacked", why: "is packed", artifact: registrytest.Artifact{
			ConfigType: configType, Layers: []registrytest.Layer{{MediaType: "application/vnd.oci.image.layer.v1.tar", Content: wasmOf(100)}}}},
		"Gzip": {reason: "nothing compressed is inflated", why: "is packed", artifact: registrytest.Artifact{
			ConfigType: configType, Layers: []registrytest.Layer{{MediaType: "application/vnd.yoke.wasm.gzip", Content: wasmOf(100)}}}},
		"OtherLayer": {reason: "text is not Wasm", why: "not Wasm", artifact: registrytest.Artifact{
			ConfigType: configType, Layers: []registrytest.Layer{{MediaType: "text/plain", Content: wasmOf(100)}}}},
		"TwoLayers":    {reason: "which one would run?", why: "2 layers", artifact: registrytest.Artifact{ConfigType: configType, Layers: []registrytest.Layer{good, good}}},
		"NoLayer":      {reason: "nothing cannot run", why: "0 layers", artifact: registrytest.Artifact{ConfigType: configType}},
		"NegativeSize": {reason: "a size is positive", why: "no size", artifact: registrytest.Artifact{ConfigType: configType, Layers: []registrytest.Layer{{MediaType: layerType, Content: wasmOf(100), Size: -1}}}},
		"DockerManifest": {reason: "the older format cannot carry a module", why: "of type application/vnd.docker", artifact: registrytest.Artifact{
			MediaType: "application/vnd.docker.distribution.manifest.v2+json", ConfigType: configType, Layers: []registrytest.Layer{good}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := registrytest.New(t)
			digest := r.Put(t, "acme/x", "1", tc.artifact)
			_, err := newClient(t).Pull(t.Context(), parse(t, r.Ref("acme/x:1")), digest)
			if tc.why == "" {
				require.NoError(t, err, tc.reason)
				return
			}
			requireKind(t, err, registry.NotAModule, "acme/x")
			require.ErrorContains(t, err, tc.why, tc.reason)
		})
	}
}

func TestIndexes(t *testing.T) {
	entry := func(digest, platform string) string {
		if platform == "" {
			return `{"digest":"` + digest + `"}`
		}
		architecture, system, _ := strings.Cut(platform, "/")
		return `{"digest":"` + digest + `","platform":{"architecture":"` + architecture + `","os":"` + system + `"}}`
	}
	cases := map[string]struct {
		reason  string
		entries func(module string) []string
		why     string
	}{
		"One": {reason: "one manifest without a platform is meant", entries: func(m string) []string { return []string{entry(m, "")} }},
		"Platform": {reason: "others beside the Wasm one are left alone", entries: func(m string) []string {
			return []string{entry(m, "wasm/wasip1"), entry(zeroDigest, "amd64/linux")}
		}},
		"Two": {reason: "which one would run?", why: "2 manifests for wasm", entries: func(m string) []string {
			return []string{entry(m, "wasm/wasip1"), entry(m, "wasm/wasip1")}
		}},
		"None": {reason: "an image for machines is no module", why: "0 manifests for wasm", entries: func(m string) []string {
			return []string{entry(m, "amd64/linux")}
		}},
		"BadDigest": {reason: "a digest is never taken as a path", why: "not a sha256 digest", entries: func(string) []string {
			return []string{entry("sha256:../../../../etc/passwd", "")}
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := publish(t)
			digest := serveRaw(t, p, []byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[`+strings.Join(tc.entries(p.digest), ",")+`]}`))
			artifact, err := newClient(t).Pull(t.Context(), p.ref, digest)
			if tc.why != "" {
				requireKind(t, err, registry.NotAModule, "acme/cilium")
				require.ErrorContains(t, err, tc.why, tc.reason)
				return
			}
			require.NoError(t, err, tc.reason)
			require.Equal(t, p.wasm, artifact.Wasm)
			require.Equal(t, digest, artifact.Digest, "the digest is the one that was recorded")
		})
	}
}

// serveRaw serves raw as a manifest by its digest, without the registry's own checks.
func serveRaw(t *testing.T, p published, raw []byte) string {
	t.Helper()
	digest := registrytest.Digest(raw)
	p.Inject(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if strings.HasSuffix(req.URL.Path, "/manifests/"+digest) {
				_, _ = w.Write(raw)
				return
			}
			next.ServeHTTP(w, req)
		})
	})
	return digest
}

func TestHostileManifests(t *testing.T) {
	cases := map[string]struct{ reason, raw, why string }{
		"NotJSON":  {reason: "a manifest is JSON", raw: "hello", why: "not JSON"},
		"Shape":    {reason: "of a known shape", raw: `{"layers":"x"}`, why: "not JSON of the expected shape"},
		"Both":     {reason: "a scanner must not read it differently", raw: `{"layers":[{}],"manifests":[{}]}`, why: "claims to be an index as well"},
		"BadLayer": {reason: "a digest is never taken as a path", raw: `{"config":{"mediaType":"` + configType + `"},"layers":[{"mediaType":"application/wasm","size":1,"digest":"sha256:../x"}]}`, why: "no sha256 digest"},
		"Message":  {reason: "its text does not break ours", raw: `{"mediaType":"a\nb\u001b[31m"}`, why: "of type a b"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := publish(t)
			_, err := newClient(t).Pull(t.Context(), p.ref, serveRaw(t, p, []byte(tc.raw)))
			requireKind(t, err, registry.NotAModule, "acme/cilium")
			require.ErrorContains(t, err, tc.why, tc.reason)
		})
	}

	p := publish(t)
	inner := serveRaw(t, p, []byte(`{"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"digest":"`+p.digest+`"}]}`))
	outer := serveRaw(t, p, []byte(`{"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"digest":"`+inner+`"}]}`))
	_, err := newClient(t).Pull(t.Context(), p.ref, outer)
	requireKind(t, err, registry.NotAModule, "acme/cilium")
	require.ErrorContains(t, err, "another index", "indexes do not nest")
}

func TestPullNeedsADigest(t *testing.T) {
	_, err := newClient(t).Pull(t.Context(), parse(t, "ghcr.io/a:1"), "latest")
	requireKind(t, err, registry.InvalidReference, "ghcr.io/a:1")
}

func TestPlainHTTP(t *testing.T) {
	// A registry on a host that is not loopback, reached through a transport that
	// connects every name to the test's server.
	p := publish(t)
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, p.Host)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	for name, host := range map[string]string{"Name": "registry.example.com:5000", "PrivateAddress": "10.1.2.3:5000"} {
		t.Run(name, func(t *testing.T) {
			ref := parse(t, host+"/acme/cilium:1.0.0")
			_, err := newClient(t, func(o *registry.Options) { o.Transport = transport }).Resolve(t.Context(), ref)
			requireKind(t, err, registry.Unavailable, ref.String())
			require.ErrorContains(t, err, "speaks plain HTTP", "the real cause is named")
			require.ErrorContains(t, err, "plain-HTTP hosts", "and what to do about it")

			listed := newClient(t, func(o *registry.Options) { o.Transport, o.PlainHTTPHosts = transport, []string{host} })
			digest, err := listed.Resolve(t.Context(), ref)
			require.NoError(t, err, "a listed host may speak plain HTTP")
			require.Equal(t, p.digest, digest)
		})
	}
}

func TestRedirects(t *testing.T) {
	p := publish(t)
	other := publish(t)
	p.Inject(registrytest.Redirect(registrytest.Blobs, other.URL))
	artifact, err := newClient(t).Pull(t.Context(), p.ref, p.digest)
	require.NoError(t, err, "registries keep their blobs elsewhere")
	require.Equal(t, p.wasm, artifact.Wasm)

	p.Heal()
	p.Inject(registrytest.Redirect(registrytest.Blobs, "http://metadata.example.com"))
	_, err = newClient(t).Pull(t.Context(), p.ref, p.digest)
	requireKind(t, err, registry.Unavailable, p.ref.String())
	require.ErrorContains(t, err, "plain HTTP to metadata.example.com is not allowed")
	require.NotContains(t, err.Error(), "s3cr3t", "a signed address is not shown")

	// A registry with a certificate cannot send us to a service on this machine.
	secure := httptest.NewTLSServer(registrytest.Redirect(registrytest.Blobs, other.URL)(p.Registry))
	t.Cleanup(secure.Close)
	p.Heal()
	transport, ok := secure.Client().Transport.(*http.Transport)
	require.True(t, ok)
	transport = transport.Clone()
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, secure.Listener.Addr().String())
	}
	before := other.Requests("/blobs/")
	client := newClient(t, func(o *registry.Options) { o.Transport = transport })
	_, err = client.Pull(t.Context(), parse(t, "example.com/acme/cilium:1.0.0"), p.digest)
	requireKind(t, err, registry.Unavailable, "example.com/acme/cilium")
	require.ErrorContains(t, err, "is not allowed")
	require.Equal(t, before, other.Requests("/blobs/"))
}

func TestConcurrentPullsShareOneDownload(t *testing.T) {
	p := publish(t)
	release := make(chan struct{})
	p.Inject(registrytest.Hang(registrytest.Blobs, release))
	client := newClient(t)

	const callers = 16
	var wg sync.WaitGroup
	started := make(chan struct{}, callers)
	got := make([]*registry.Artifact, callers)
	errs := make([]error, callers)
	for i := range callers {
		wg.Go(func() {
			started <- struct{}{}
			got[i], errs[i] = client.Pull(t.Context(), p.ref, p.digest)
		})
	}
	for range callers {
		<-started
	}
	require.Eventually(t, func() bool { return p.Requests("GET", "/blobs/") == 1 }, 10*time.Second, time.Millisecond)
	close(release)
	wg.Wait()
	for i := range callers {
		require.NoError(t, errs[i])
		require.Equal(t, p.wasm, got[i].Wasm)
	}
	require.Equal(t, 1, p.Requests("GET", "/blobs/"), "one download serves everybody")
}

func TestHammer(t *testing.T) {
	// Readers, evictions and a flapping registry at once; meaningful under -race.
	p := publish(t)
	digests := []string{p.digest}
	for _, tag := range []string{"2", "3", "4"} {
		digests = append(digests, p.Put(t, "acme/cilium", tag, registrytest.Artifact{
			ConfigType: configType, Layers: []registrytest.Layer{{MediaType: layerType, Content: wasmOf(1000 + len(tag)*len(digests))}}}))
	}
	client := newClient(t, func(o *registry.Options) { o.CacheBytes = 3000 })
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 20 {
				digest := digests[(worker+i)%len(digests)]
				artifact, err := client.WithCredentials(registry.Anonymous()).Pull(t.Context(), p.ref, digest)
				if err != nil {
					assert.ErrorIs(t, err, registry.Unavailable)
					continue
				}
				assert.Equal(t, digest, artifact.Digest)
				assert.Equal(t, registrytest.Digest(artifact.Wasm), artifact.WasmDigest)
			}
		})
	}
	wg.Go(func() {
		for range 5 {
			p.Down()
			p.Up()
		}
	})
	wg.Wait()
}
