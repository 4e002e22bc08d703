package registry

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/stretchr/testify/require"
)

func testReference(t *testing.T) Reference {
	t.Helper()
	ref, err := ParseReference("ghcr.io/acme/cilium:1")
	require.NoError(t, err)
	return ref
}

func TestErrorText(t *testing.T) {
	err := &Error{Kind: TooLarge, Op: "pull", Object: "ghcr.io/a:1", Detail: "the module has 2 bytes and 1 are allowed", Remedy: "make it smaller", Size: 2, Limit: 1}
	require.EqualError(t, err, "pull ghcr.io/a:1: the module has 2 bytes and 1 are allowed; make it smaller")
}

func TestErrorKinds(t *testing.T) {
	cause := errors.New("cause")
	for _, kind := range []Kind{Unavailable, NotFound, Unauthorized, DigestMismatch, TooLarge, NotAModule, InvalidReference} {
		err := fmt.Errorf("load the module: %w", &Error{Kind: kind, Err: cause})
		require.ErrorIs(t, err, kind, "a kind is found through wrapping")
		require.ErrorIs(t, err, cause, "and so is the cause")
		require.NotErrorIs(t, err, Kind("other"))
		require.NotEmpty(t, kind.Error())
	}
	require.NotErrorIs(t, &Error{Kind: NotFound}, Unavailable, "one kind is not another")
}

func TestClassify(t *testing.T) {
	signed := "https://bucket.example.com/blob?X-Signature=s3cr3t"
	quoted := func(err error) error { return &url.Error{Op: "Get", URL: signed, Err: err} }
	answer := func(code int, diagnostics ...transport.Diagnostic) error {
		return &transport.Error{StatusCode: code, Errors: diagnostics, Request: &http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "https", Host: "ghcr.io", RawQuery: "token=s3cr3t"}}}
	}
	address := func(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }
	cases := map[string]struct {
		reason string
		err    error
		kind   Kind
		want   string
	}{
		"Refused":     {reason: "the real cause is named", err: quoted(errors.New("dial tcp: connection refused")), kind: Unavailable, want: "does not answer (dial tcp: connection refused)"},
		"Reset":       {reason: "neither our own port nor the moment matters", err: quoted(&net.OpError{Op: "read", Net: "tcp", Source: address(40000), Addr: address(443), Err: os.NewSyscallError("read", syscall.ECONNRESET)}), kind: Unavailable, want: "does not answer (connection reset by peer)"},
		"Stalled":     {reason: "the other end is named", err: quoted(&net.OpError{Op: "read", Net: "tcp", Source: address(40000), Addr: address(443), Err: os.ErrDeadlineExceeded}), kind: Unavailable, want: "does not answer (read tcp 127.0.0.1:443: i/o timeout)"},
		"Nobody":      {reason: "who does not listen is named", err: quoted(&net.OpError{Op: "dial", Net: "tcp", Addr: address(443), Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}), kind: Unavailable, want: "does not answer (dial tcp 127.0.0.1:443: connect: connection refused)"},
		"Resolver":    {reason: "our own port is left out also where it is in a text", err: quoted(&net.DNSError{Name: "ghcr.io", Server: "10.0.0.1:53", Err: "read udp [fd00::1]:40001->[fd00::2]:53: i/o timeout"}), kind: Unavailable, want: "(lookup ghcr.io on 10.0.0.1:53: read udp [fd00::2]:53: i/o timeout)"},
		"Nested":      {reason: "however deep it is", err: fmt.Errorf("get: %w", quoted(fmt.Errorf("again: %w", quoted(errors.New("no such host"))))), kind: Unavailable, want: "(no such host)"},
		"Certificate": {reason: "a bad certificate is not an outage in disguise", err: quoted(x509.UnknownAuthorityError{}), kind: Unavailable, want: "certificate signed by unknown authority"},
		"Plain":       {reason: "a registry without TLS is explained", err: quoted(http.ErrSchemeMismatch), kind: Unavailable, want: "speaks plain HTTP; give it a certificate, or list the host"},
		"CutOff":      {reason: "half an answer is none", err: io.ErrUnexpectedEOF, kind: Unavailable, want: "unexpected EOF"},
		"Body":        {reason: "what a token service answers stays secret", err: errors.New("no token in bearer response:\n{\"refresh_token\":\"s3cr3t\"}"), kind: Unavailable, want: "(no token in bearer response:)"},
		"Missing":     {reason: "404 is missing", err: answer(404, transport.Diagnostic{Code: "MANIFEST_UNKNOWN", Message: "Unknown manifest"}), kind: NotFound, want: "404 Not Found: MANIFEST_UNKNOWN Unknown manifest"},
		"Login":       {reason: "401 wants a login", err: answer(401), kind: Unauthorized, want: "401 Unauthorized"},
		"Rights":      {reason: "403 wants rights", err: answer(403, transport.Diagnostic{Code: "DENIED", Message: "no\nway\x1b[2J"}), kind: Unauthorized, want: "DENIED no way [2J"},
		"Limit":       {reason: "429 passes", err: answer(429), kind: Unavailable, want: "429 Too Many Requests"},
		"Broken":      {reason: "500 passes, one hopes", err: answer(500), kind: Unavailable, want: "500 Internal Server Error"},
		"Teapot":      {reason: "whatever else it is, it was no usable answer", err: answer(418), kind: Unavailable, want: "418"},
		"Long":        {reason: "a long text is cut", err: answer(500, transport.Diagnostic{Message: strings.Repeat("x", 10_000)}), kind: Unavailable, want: "xxx…"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := classify(t.Context(), "pull", testReference(t), tc.err)
			require.ErrorIs(t, err, tc.kind, tc.reason)
			require.ErrorContains(t, err, tc.want, tc.reason)
			require.ErrorContains(t, err, "pull ghcr.io/acme/cilium:1: ", "the object is named")
			require.NotContains(t, err.Error(), "s3cr3t", "no secret is shown")
			require.NotContains(t, err.Error(), "\n")
			require.NotContains(t, err.Error(), "\x1b")
			require.Less(t, len(err.Error()), 500)
		})
	}
}

func TestClassifyKeepsWhatIsTyped(t *testing.T) {
	typed := &Error{Kind: TooLarge}
	wrapped := fmt.Errorf("wrapped: %w", typed)
	require.Equal(t, wrapped, classify(t.Context(), "pull", testReference(t), wrapped))
}

func TestClassifyContexts(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	check := func(ctx context.Context, is error, want string) {
		t.Helper()
		err := classify(ctx, "pull", testReference(t), errors.New("some consequence of it"))
		require.ErrorIs(t, err, is, "the context's own error is found")
		require.ErrorIs(t, err, Unavailable)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "consequence")
	}
	check(cancelled, context.Canceled, "was cancelled")
	check(late, context.DeadlineExceeded, "did not answer in time")
	err := classify(cancelled, "pull", testReference(t), &transport.Error{StatusCode: 404})
	require.ErrorIs(t, err, NotFound, "an answer that came in time counts, also when the caller has left")
}

func TestHosts(t *testing.T) {
	loopback := map[string]bool{
		"localhost": true, "localhost:5000": true, "LOCALHOST": true, "a.localhost": true, "127.0.0.1:5000": true, "127.8.9.10": true, "[::1]:5000": true, "[::1]": true,
		"localhost.example.com": false, "notlocalhost": false, "10.0.0.1:5000": false, "192.168.1.1": false, "0.0.0.0": false, "[::]:80": false,
		"127.0.0.1.example.com": false, "ghcr.io": false, "169.254.169.254": false, "": false,
	}
	for host, want := range loopback {
		require.Equal(t, want, isLoopback(host), "%q", host)
	}
	client, err := New(Options{PlainHTTPHosts: []string{"Registry.Example.com:5000"}})
	require.NoError(t, err)
	plain := map[string]bool{
		"registry.example.com:5000": true, "REGISTRY.example.com:5000": true, "127.0.0.1": true,
		"registry.example.com": false, "registry.example.com:5001": false, "x.registry.example.com:5000": false,
	}
	for host, want := range plain {
		require.Equal(t, want, client.plain(host), "%q", host)
	}
}

func TestCachePathsAreDigestsOnly(t *testing.T) {
	c := &cache{dir: "/cache"}
	for _, digest := range []string{
		"", "sha256:", "sha256:..", "sha256:../../etc/passwd", "sha256:" + strings.Repeat("a", 63), "sha256:" + strings.Repeat("a", 65),
		"sha256:" + strings.Repeat("A", 64), "sha512:" + strings.Repeat("a", 64), "sha256:" + strings.Repeat("a", 63) + "/", strings.Repeat("a", 64),
		"sha256:" + strings.Repeat("a", 64) + "\n",
	} {
		_, ok := c.path(digest)
		require.False(t, ok, "%q", digest)
		_, hit := c.get(digest, 1)
		require.False(t, hit)
		c.put(digest, nil)
	}
	path, ok := c.path("sha256:" + strings.Repeat("a", 64))
	require.True(t, ok)
	require.Equal(t, "/cache/"+strings.Repeat("a", 64), path)
}

func FuzzJudge(f *testing.F) {
	layer := `{"mediaType":"application/wasm","size":9,"digest":"sha256:` + strings.Repeat("a", 64) + `"}`
	f.Add([]byte(`{"config":{"mediaType":"application/vnd.wasm.config.v0+json"},"layers":[` + layer + `]}`))
	f.Add([]byte(`{"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[` + layer + `]}`))
	f.Add([]byte(`{"manifests":[{"platform":{"architecture":"wasm","os":"wasip1"}}]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, why := judge(raw)
		if why != "" {
			require.NotContains(t, why, "\n", "a message is one line")
			require.Less(t, len(why), 1000)
			return
		}
		// What is accepted leads to exactly one thing, and by a digest.
		if got.child != "" {
			require.Regexp(t, digestPattern, got.child)
			require.Empty(t, got.layer.Digest)
			return
		}
		require.Regexp(t, digestPattern, got.layer.Digest)
		require.Positive(t, got.layer.Size)
		require.Contains(t, layerTypes(), got.layer.MediaType)
	})
}
