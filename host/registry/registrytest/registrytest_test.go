package registrytest_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/registry/registrytest"
)

func get(t *testing.T, url string) (int, []byte, error) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

func put(t *testing.T, r *registrytest.Registry) string {
	t.Helper()
	return r.Put(t, "a/b", "1", registrytest.Artifact{ConfigType: "x/y", Layers: []registrytest.Layer{{MediaType: "x/z", Content: []byte("content")}}})
}

func TestPutAndCount(t *testing.T) {
	r := registrytest.New(t)
	digest := put(t, r)
	code, body, err := get(t, r.URL+"/v2/a/b/manifests/1")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, digest, registrytest.Digest(body))
	require.Equal(t, 1, r.Requests("GET", "/manifests/1"))
	require.Equal(t, 0, r.Requests("GET", "/blobs/"))
	require.Equal(t, r.Host+"/a/b:1", r.Ref("a/b:1"))

	raw := []byte("anything")
	require.Equal(t, registrytest.Digest(raw), r.PutManifest(t, "a/b", "2", "text/plain", raw))
}

func TestFaults(t *testing.T) {
	blob := registrytest.Digest([]byte("content"))
	cases := map[string]struct {
		fault registrytest.Fault
		code  int
		body  string
	}{
		"Status":     {fault: registrytest.Status(registrytest.Blobs, 503, 0), code: 503, body: "<html><body>\nService Unavailable\n</body></html>\n"},
		"OtherPart":  {fault: registrytest.Status(registrytest.Manifests, 503, 0), code: 200, body: "content"},
		"WrongBytes": {fault: registrytest.WrongBytes(registrytest.Blobs), code: 200, body: "bontent"},
		"Oversized":  {fault: registrytest.Oversized(registrytest.Blobs, 5000), code: 200, body: "content" + string(make([]byte, 5000))},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := registrytest.New(t)
			put(t, r)
			r.Inject(tc.fault)
			for range 2 {
				code, body, err := get(t, r.URL+"/v2/a/b/blobs/"+blob)
				require.NoError(t, err)
				require.Equal(t, tc.code, code)
				require.Equal(t, tc.body, string(body))
			}
			r.Heal()
			_, body, err := get(t, r.URL+"/v2/a/b/blobs/"+blob)
			require.NoError(t, err)
			require.Equal(t, "content", string(body))
		})
	}
}

func TestFaultsLeaveHeadAlone(t *testing.T) {
	blob := registrytest.Digest([]byte("content"))
	for name, fault := range map[string]registrytest.Fault{"WrongBytes": registrytest.WrongBytes(registrytest.Blobs), "Oversized": registrytest.Oversized(registrytest.Blobs, 10)} {
		t.Run(name, func(t *testing.T) {
			r := registrytest.New(t)
			put(t, r)
			r.Inject(fault)
			resp, err := http.Head(r.URL + "/v2/a/b/blobs/" + blob)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, int64(len("content")), resp.ContentLength, "the lie is in the bytes only")
			require.Equal(t, blob, resp.Header.Get("Docker-Content-Digest"))
		})
	}
}

func TestLogin(t *testing.T) {
	r := registrytest.New(t)
	r.Inject(registrytest.Login("u", "p"))
	for url, want := range map[string]int{
		r.URL + "/v2/": http.StatusUnauthorized, "http://u:wrong@" + r.Host + "/v2/": http.StatusUnauthorized, "http://u:p@" + r.Host + "/v2/": http.StatusOK,
	} {
		code, _, err := get(t, url)
		require.NoError(t, err)
		require.Equal(t, want, code, url)
	}
}

func TestRedirect(t *testing.T) {
	from, to := registrytest.New(t), registrytest.New(t)
	put(t, to)
	from.Inject(registrytest.Redirect(registrytest.Blobs, to.URL))
	_, body, err := get(t, from.URL+"/v2/a/b/blobs/"+registrytest.Digest([]byte("content")))
	require.NoError(t, err)
	require.Equal(t, "content", string(body))
	require.Equal(t, 1, to.Requests("GET", "/blobs/"))
}

func TestNoDigest(t *testing.T) {
	r := registrytest.New(t)
	put(t, r)
	for _, want := range []bool{true, false} {
		resp, err := http.Head(r.URL + "/v2/a/b/manifests/1")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want, resp.Header.Get("Docker-Content-Digest") != "")
		r.Inject(registrytest.NoDigest())
	}
}

func TestLastFaultActsFirst(t *testing.T) {
	r := registrytest.New(t)
	r.Inject(registrytest.Status(registrytest.Everything, 500, 0))
	r.Inject(registrytest.Status(registrytest.Everything, 503, 1))
	for _, want := range []int{503, 500} {
		code, _, err := get(t, r.URL+"/v2/")
		require.NoError(t, err)
		require.Equal(t, want, code)
	}
}

func TestHammer(t *testing.T) {
	r := registrytest.New(t)
	put(t, r)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 25 {
				// Whatever comes back, the registry must neither race nor hang.
				_, _, _ = get(t, r.URL+"/v2/a/b/manifests/1")
				r.Inject(registrytest.Status(registrytest.Manifests, 500, 1))
				_ = r.Requests("GET")
				r.Down()
				r.Up()
				r.Heal()
			}
		})
	}
	wg.Wait()
	require.Eventually(t, func() bool {
		code, _, err := get(t, r.URL+"/v2/a/b/manifests/1")
		return err == nil && code == http.StatusOK
	}, 10*time.Second, time.Millisecond)
}

func TestStatusEnds(t *testing.T) {
	r := registrytest.New(t)
	r.Inject(registrytest.Status(registrytest.Everything, 500, 2))
	for _, want := range []int{500, 500, 200} {
		code, _, err := get(t, r.URL+"/v2/")
		require.NoError(t, err)
		require.Equal(t, want, code)
	}
}

func TestDownAndUp(t *testing.T) {
	r := registrytest.New(t)
	put(t, r)
	r.Down()
	_, _, err := get(t, r.URL+"/v2/")
	require.Error(t, err)
	r.Up()
	code, _, err := get(t, r.URL+"/v2/a/b/manifests/1")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code, "what was there is there again")
}

func TestHangEndsWithTheClient(t *testing.T) {
	r := registrytest.New(t)
	r.Inject(registrytest.Hang(registrytest.Everything, make(chan struct{})))
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL+"/v2/", http.NoBody)
	require.NoError(t, err)
	failed := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		failed <- err
	}()
	require.Eventually(t, func() bool { return r.Requests("GET") == 1 }, 10*time.Second, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
}

func TestServe(t *testing.T) {
	dir := t.TempDir()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	url := "http://" + listener.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- registrytest.Serve(ctx, listener, dir) }()

	content := []byte("content")
	resp, err := http.Post(url+"/v2/a/b/blobs/uploads/?digest="+registrytest.Digest(content), "application/octet-stream", bytes.NewReader(content))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusCreated, resp.StatusCode)
	_, body, err := get(t, url+"/v2/a/b/blobs/"+registrytest.Digest(content))
	require.NoError(t, err)
	require.Equal(t, content, body)
	require.NotEmpty(t, files(t, dir), "blobs are kept on disk, not in memory")

	cancel()
	require.NoError(t, <-served)
	_, _, err = get(t, url+"/v2/")
	require.Error(t, err, "the listener is closed")
}

func TestServeReportsAListenerThatFails(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	require.ErrorContains(t, registrytest.Serve(t.Context(), listener, ""), "serve the registry on 127.0.0.1:")
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	require.NoError(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			found = append(found, path)
		}
		return err
	}))
	return found
}
