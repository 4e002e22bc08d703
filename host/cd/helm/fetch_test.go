package helm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/registry"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd/cdtest"
	"github.com/caisson-dev/caisson/host/provisioner"
)

func newTestCharts(t *testing.T, plainHTTP ...string) *charts {
	t.Helper()
	c, err := newCharts(Options{CacheDir: t.TempDir(), PlainHTTP: plainHTTP, Timeouts: Timeouts{}.withDefaults()})
	require.NoError(t, err)
	return c
}

// site answers requests by their path, and counts them.
type site struct {
	*httptest.Server
	mu    sync.Mutex
	pages map[string]http.HandlerFunc
	seen  map[string]int
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{pages: map[string]http.HandlerFunc{}, seen: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		page, ok := s.pages[r.URL.Path]
		s.seen[r.URL.Path]++
		s.mu.Unlock()
		if !ok {
			http.NotFound(w, r)
			return
		}
		page(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *site) serve(path string, handler http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[path] = handler
}

func (s *site) text(path, content string) {
	s.serve(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(content)) })
}

func (s *site) count(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[path]
}

func sum(content []byte) string {
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:])
}

// layer is one layer of an OCI manifest.
type layer struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
}

// putOCI publishes an artifact the way Helm pushes charts.
func (s *site) putOCI(t *testing.T, repo, tag string, archive []byte, l layer) {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"schemaVersion": 2, "layers": []layer{{MediaType: "text/plain", Digest: "sha256:0", Size: 1}, l}})
	require.NoError(t, err)
	s.serve("/v2/"+repo+"/manifests/"+tag, func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept"), mediaTypeOCIManifest) {
			http.Error(w, "an OCI client says what it accepts", http.StatusNotAcceptable)
			return
		}
		_, _ = w.Write(raw)
	})
	s.text("/v2/"+repo+"/blobs/"+l.Digest, string(archive))
}

func chartLayer(archive []byte) layer {
	return layer{MediaType: registry.ChartLayerMediaType, Digest: "sha256:" + sum(archive), Size: int64(len(archive))}
}

func (s *site) oci(path string) string { return "oci://" + strings.TrimPrefix(s.URL, "http://") + path }

func requireOutcome(t *testing.T, err error, class abi.Disposition, reason string) {
	t.Helper()
	outcome := provisioner.OutcomeOf(err)
	require.Equal(t, class, outcome.Class, "%v", err)
	require.Equal(t, reason, outcome.Headline.Reason, "%v", err)
}

func TestLoadHTTP(t *testing.T) {
	repo := cdtest.NewRepository(t)
	repo.Publish(t, cdtest.DemoChart("1.0.0"))
	repo.Publish(t, cdtest.DemoChart("v2.0.0"))
	c := newTestCharts(t)
	loaded, err := c.load(t.Context(), repo.URL, "demo", "1.0.0")
	require.NoError(t, err)
	require.Equal(t, "demo", loaded.Name())
	require.Equal(t, "1.0.0", loaded.Metadata.Version)
	loaded, err = c.load(t.Context(), repo.URL+"/", "demo", "2.0.0")
	require.NoError(t, err, "v2.0.0 and 2.0.0 are one version")
	require.Equal(t, "v2.0.0", loaded.Metadata.Version)
	_, err = c.load(t.Context(), repo.URL, "demo", "1.0")
	requireOutcome(t, err, abi.Terminal, abi.ReasonChartNotFound)
	_, err = c.load(t.Context(), repo.URL, "nothing", "1.0.0")
	requireOutcome(t, err, abi.Terminal, abi.ReasonChartNotFound)
	_, err = c.load(t.Context(), repo.URL+"/nowhere", "demo", "1.0.0")
	requireOutcome(t, err, abi.Terminal, abi.ReasonChartNotFound)
	repo.Down()
	_, err = c.load(t.Context(), repo.URL, "demo", "9.9.9")
	requireOutcome(t, err, abi.Yield, abi.ReasonChartUnavailable)
}

func TestLoadOCI(t *testing.T) {
	s := newSite(t)
	archive := cdtest.DemoChart("1.0.0+build").Archive(t)
	s.putOCI(t, "charts/demo", "1.0.0_build", archive, chartLayer(archive))
	c := newTestCharts(t)
	for range 3 {
		loaded, err := c.load(t.Context(), s.oci("/charts"), "demo", "1.0.0+build")
		require.NoError(t, err)
		require.Equal(t, "1.0.0+build", loaded.Metadata.Version)
	}
	require.Equal(t, 3, s.count("/v2/charts/demo/manifests/1.0.0_build"), "a tag may move")
	require.Equal(t, 1, s.count("/v2/charts/demo/blobs/sha256:"+sum(archive)), "a digest does not")
	_, err := c.load(t.Context(), s.oci("/charts"), "demo", "9.9.9")
	requireOutcome(t, err, abi.Terminal, abi.ReasonChartNotFound)
}

func TestLoadOCIRefuses(t *testing.T) {
	archive := cdtest.DemoChart("1.0.0").Archive(t)
	with := func(change func(*layer)) layer {
		l := chartLayer(archive)
		change(&l)
		return l
	}
	cases := map[string]struct {
		reason  string
		content []byte
		layer   layer
	}{
		"WrongDigest":  {"the registry serves something else", []byte("something else"), chartLayer(archive)},
		"HugeSize":     {"nothing is allocated that is only announced", archive, with(func(l *layer) { l.Size = 1 << 40 })},
		"NegativeSize": {"nor is a size trusted", archive, with(func(l *layer) { l.Size = -1 })},
		"NoChart":      {"an image is no chart", archive, with(func(l *layer) { l.MediaType = "application/vnd.oci.image.layer.v1.tar+gzip" })},
		"OddDigest":    {"only sha256", archive, with(func(l *layer) { l.Digest = "md5:00" })},
		"NotAnArchive": {"it has to be a chart", []byte("no gzip"), chartLayer([]byte("no gzip"))},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.putOCI(t, "demo", "1.0.0", tc.content, tc.layer)
			_, err := newTestCharts(t).load(t.Context(), s.oci(""), "demo", "1.0.0")
			requireOutcome(t, err, abi.Terminal, abi.ReasonChartInvalid)
		})
	}
	s := newSite(t)
	s.text("/v2/demo/manifests/1.0.0", "{")
	_, err := newTestCharts(t).load(t.Context(), s.oci(""), "demo", "1.0.0")
	requireOutcome(t, err, abi.Terminal, abi.ReasonChartInvalid)
}

func TestAnonymousToken(t *testing.T) {
	archive := cdtest.DemoChart("1.0.0").Archive(t)
	s := newSite(t)
	s.putOCI(t, "demo", "1.0.0", archive, chartLayer(archive))
	inner := s.pages["/v2/demo/manifests/1.0.0"]
	s.serve("/v2/demo/manifests/1.0.0", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer anonymous" {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="reg",scope="repository:demo:pull"`, s.URL))
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner(w, r)
	})
	s.serve("/token", func(w http.ResponseWriter, r *http.Request) {
		require.Empty(t, r.Header.Get("Authorization"), "nobody's credentials")
		require.Equal(t, "repository:demo:pull", r.URL.Query().Get("scope"))
		_, _ = w.Write([]byte(`{"access_token":"anonymous"}`))
	})
	_, err := newTestCharts(t).load(t.Context(), s.oci(""), "demo", "1.0.0")
	require.NoError(t, err)
}

func TestAnswersOfRepositories(t *testing.T) {
	status := func(code int, challenge string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if challenge != "" {
				w.Header().Set("WWW-Authenticate", challenge)
			}
			w.WriteHeader(code)
		}
	}
	cases := map[string]struct {
		reason string
		page   http.HandlerFunc
		class  abi.Disposition
		code   string
	}{
		"NotFound":    {"no such repository", status(http.StatusNotFound, ""), abi.Terminal, abi.ReasonChartNotFound},
		"Forbidden":   {"not for us", status(http.StatusForbidden, ""), abi.UserActionRequired, abi.ReasonForbidden},
		"Basic":       {"there are no credentials to give", status(http.StatusUnauthorized, `Basic realm="x"`), abi.UserActionRequired, abi.ReasonForbidden},
		"BadRealm":    {"a realm is hostile input", status(http.StatusUnauthorized, `Bearer realm="http://192.0.2.1/token"`), abi.UserActionRequired, abi.ReasonChartUnavailable},
		"NoRealm":     {"or missing", status(http.StatusUnauthorized, `Bearer`), abi.UserActionRequired, abi.ReasonForbidden},
		"ServerError": {"it will come back", status(http.StatusBadGateway, ""), abi.Yield, abi.ReasonChartUnavailable},
		"TooMany":     {"it will come back", status(http.StatusTooManyRequests, ""), abi.Yield, abi.ReasonChartUnavailable},
		"NotYAML":     {"not an index", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("a: [")) }, abi.Terminal, abi.ReasonChartInvalid},
		"NullEntries": {"holes in an index are skipped", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"entries":{"demo":[null,{},{"version":"1.0.0"}]}}`))
		}, abi.Terminal, abi.ReasonChartNotFound},
		"Elsewhere": {"the archive may be anywhere, but not in the clear", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"entries":{"demo":[{"name":"demo","version":"1.0.0","urls":["http://192.0.2.1/demo.tgz"]}]}}`))
		}, abi.UserActionRequired, abi.ReasonChartUnavailable},
		"Redirect": {"a redirect cannot get around that", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/index.yaml", http.StatusFound)
		}, abi.UserActionRequired, abi.ReasonChartUnavailable},
		"Loop": {"nor go on for ever", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/index.yaml", http.StatusFound)
		}, abi.Yield, abi.ReasonChartUnavailable},
		"FileURL": {"no local files", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"entries":{"demo":[{"name":"demo","version":"1.0.0","urls":["file:///etc/passwd"]}]}}`))
		}, abi.UserActionRequired, abi.ReasonChartUnavailable},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.serve("/index.yaml", tc.page)
			_, err := newTestCharts(t).load(t.Context(), s.URL, "demo", "1.0.0")
			requireOutcome(t, err, tc.class, tc.code)
		})
	}
}

func TestPlainHTTPPolicy(t *testing.T) {
	f := newFetcher([]string{"charts.internal", "registry.internal:5000"})
	for text, allowed := range map[string]bool{
		"https://charts.example":        true,
		"http://127.0.0.1:5000":         true,
		"http://localhost:1":            true,
		"http://[::1]:5000":             true,
		"http://charts.internal":        true,
		"http://charts.internal:81":     true,
		"http://registry.internal:5000": true,
		"http://registry.internal:5001": false,
		"http://charts.example":         false,
		"http://127.0.0.1.example":      false,
		"http://localhost.example":      false,
		"file:///etc/passwd":            false,
		"gopher://127.0.0.1":            false,
	} {
		u, err := url.Parse(text)
		require.NoError(t, err)
		require.Equal(t, allowed, f.allowed(u) == nil, text)
		if u.Scheme == "https" {
			require.Equal(t, "https", f.scheme(u))
		}
	}
	for _, repo := range []string{"ftp://x", "x", "oci", "%", "git+https://x"} {
		_, err := newTestCharts(t).load(t.Context(), repo, "demo", "1.0.0")
		requireOutcome(t, err, abi.Terminal, abi.ReasonChartInvalid)
	}
}

func TestDownloadsAreBounded(t *testing.T) {
	s := newSite(t)
	s.text("/big", strings.Repeat("x", 100))
	f := newFetcher(nil)
	u, err := url.Parse(s.URL + "/big")
	require.NoError(t, err)
	body, err := f.get(t.Context(), u, nil, 100)
	require.NoError(t, err)
	require.Len(t, body, 100)
	_, err = f.get(t.Context(), u, nil, 99)
	requireOutcome(t, err, abi.Terminal, abi.ReasonChartInvalid)
	require.ErrorContains(t, err, "99")

	never := make(chan struct{})
	s.serve("/never", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-never:
		case <-r.Context().Done():
		}
	})
	defer close(never)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = f.get(ctx, u.JoinPath("../never"), nil, 99)
	requireOutcome(t, err, abi.Yield, abi.ReasonChartUnavailable)
}

func TestInstallable(t *testing.T) {
	repo := cdtest.NewRepository(t)
	library := cdtest.DemoChart("1.0.0")
	library.Name, library.Type = "library", "library"
	repo.Publish(t, library)
	c := newTestCharts(t)
	_, err := c.load(t.Context(), repo.URL, "library", "1.0.0")
	requireOutcome(t, err, abi.Terminal, abi.ReasonChartInvalid)
	wanting := cdtest.DemoChart("1.0.0")
	wanting.Name = "wanting"
	wanting.Files["Chart.yaml"] = "apiVersion: v2\nname: wanting\nversion: 1.0.0\ndependencies: [{name: absent, version: 1.0.0, repository: https://x.example}]\n"
	repo.Publish(t, wanting)
	_, err = c.load(t.Context(), repo.URL, "wanting", "1.0.0")
	requireOutcome(t, err, abi.Terminal, abi.ReasonChartInvalid)
	require.ErrorContains(t, err, "absent")
}

func TestCacheDistrustsItself(t *testing.T) {
	repo := cdtest.NewRepository(t)
	repo.Publish(t, cdtest.DemoChart("1.0.0"))
	c := newTestCharts(t)
	_, err := c.load(t.Context(), repo.URL, "demo", "1.0.0")
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(c.archives.dir, "*"))
	require.NoError(t, err)
	require.Len(t, files, 1, "and no temporary files")
	require.NoError(t, os.WriteFile(files[0], []byte("tampered"), 0o600))
	loaded, err := c.load(t.Context(), repo.URL, "demo", "1.0.0")
	require.NoError(t, err)
	require.Equal(t, "demo", loaded.Name())
	for _, digest := range []string{"", "../../etc/passwd", strings.Repeat("z", 64), strings.Repeat("0", 63)} {
		_, ok := c.archives.cached(digest)
		require.False(t, ok, digest)
	}
	require.NoError(t, os.RemoveAll(c.archives.dir))
	_, err = c.load(t.Context(), repo.URL, "demo", "1.0.0")
	require.NoError(t, err, "a cache that cannot be written costs a download")
}

func TestCacheIsBounded(t *testing.T) {
	c := newTestCharts(t)
	old := time.Now().Add(-time.Hour)
	for n := range maxCached + 3 {
		content := []byte(fmt.Sprint(n))
		c.archives.keep(content)
		if n < 3 {
			require.NoError(t, os.Chtimes(filepath.Join(c.archives.dir, sum(content)+".tgz"), old, old))
		}
	}
	files, err := filepath.Glob(filepath.Join(c.archives.dir, "*.tgz"))
	require.NoError(t, err)
	require.Len(t, files, maxCached)
	_, ok := c.archives.cached(sum([]byte("0")))
	require.False(t, ok, "the one used longest ago went")
	_, ok = c.archives.cached(sum([]byte("100")))
	require.True(t, ok)
}

func TestErrorsDoNotQuoteSignedURLs(t *testing.T) {
	err := withoutURL(&url.Error{Op: "Get", URL: "https://x?signature=very-secret", Err: errors.New("refused")})
	require.EqualError(t, err, "refused")
	plain := errors.New("plain")
	require.Equal(t, plain, withoutURL(plain))
}
