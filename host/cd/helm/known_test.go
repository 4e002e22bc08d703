package helm

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd/cdtest"
)

// fickle is a chart repository of every kind, that can be taken ill.
type fickle struct {
	*site
	mu   sync.Mutex
	mood http.HandlerFunc
}

func newFickle(t *testing.T) *fickle {
	t.Helper()
	m := &fickle{site: newSite(t)}
	healthy := m.Config.Handler
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		mood := m.mood
		m.mu.Unlock()
		if mood != nil {
			mood(w, r)
			return
		}
		healthy.ServeHTTP(w, r)
	}))
	t.Cleanup(m.Server.Close)
	return m
}

func (m *fickle) set(mood http.HandlerFunc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mood = mood
}

// publish serves version 1.0.0 as an OCI chart, and in an index with and without digest.
func (m *fickle) publish(t *testing.T, c cdtest.Chart) {
	t.Helper()
	archive := c.Archive(t)
	m.putOCI(t, "demo", "1.0.0", archive, chartLayer(archive))
	for dir, digest := range map[string]string{"/indexed": sum(archive), "/bare": ""} {
		m.text(dir+"/index.yaml", fmt.Sprintf(`{"entries":{"demo":[{"name":"demo","version":"1.0.0","urls":["demo.tgz"],"digest":%q}]}}`, digest))
		m.text(dir+"/demo.tgz", string(archive))
	}
}

func (m *fickle) repositories() map[string]string {
	return map[string]string{"OCI": m.oci(""), "Indexed": m.URL + "/indexed", "Bare": m.URL + "/bare"}
}

// hang answers nothing until the client leaves.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func answers(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func cut(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	_, _ = w.Write([]byte("{"))
}

// newChartsIn returns what a process makes of a cache directory, and what it logs.
func newChartsIn(t *testing.T, dir string) (*charts, *[]string) {
	t.Helper()
	var logged []string
	c, err := newCharts(Options{
		CacheDir: dir, Timeouts: Timeouts{}.withDefaults(),
		Logger: funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{}),
	})
	require.NoError(t, err)
	return c, &logged
}

// impatient makes a repository that hangs a matter of milliseconds.
func (c *charts) impatient() {
	c.timeouts.Pull, c.timeouts.Resolve = 300*time.Millisecond, 50*time.Millisecond
}

func greeting(t *testing.T, c *charts, repo string) string {
	t.Helper()
	loaded, err := c.load(t.Context(), repo, "demo", "1.0.0")
	require.NoError(t, err)
	return fmt.Sprint(loaded.Values["greeting"])
}

func TestRepositoryAway(t *testing.T) {
	cases := map[string]struct {
		reason string
		mood   http.HandlerFunc
		class  abi.Disposition
		code   string
		away   bool
	}{
		"Hangs":        {"a process that is stopped takes connections", hang, abi.Yield, abi.ReasonChartUnavailable, true},
		"Failing":      {"it says nothing of the chart", answers(http.StatusInternalServerError), abi.Yield, abi.ReasonChartUnavailable, true},
		"NoBackend":    {"nor does a load balancer", answers(http.StatusBadGateway), abi.Yield, abi.ReasonChartUnavailable, true},
		"Busy":         {"nor does one that is asked too often", answers(http.StatusTooManyRequests), abi.Yield, abi.ReasonChartUnavailable, true},
		"Cut":          {"half an answer is none", cut, abi.Yield, abi.ReasonChartUnavailable, true},
		"NotFound":     {"a version can be withdrawn", answers(http.StatusNotFound), abi.Terminal, abi.ReasonChartNotFound, false},
		"Gone":         {"likewise", answers(http.StatusGone), abi.Terminal, abi.ReasonChartNotFound, false},
		"Forbidden":    {"and so can the right to it", answers(http.StatusForbidden), abi.UserActionRequired, abi.ReasonForbidden, false},
		"Unauthorized": {"likewise", answers(http.StatusUnauthorized), abi.UserActionRequired, abi.ReasonForbidden, false},
		"Policy": {"the operator's policy is no outage", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		}, abi.UserActionRequired, abi.ReasonChartUnavailable, false},
		"Nonsense": {"what answers is not away", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("a: [")) }, abi.Terminal, abi.ReasonChartInvalid, false},
	}
	for name, tc := range cases {
		for _, kind := range []string{"OCI", "Indexed", "Bare"} {
			t.Run(name+kind, func(t *testing.T) {
				m := newFickle(t)
				m.publish(t, cdtest.DemoChart("1.0.0"))
				repo, dir := m.repositories()[kind], t.TempDir()
				stranger, _ := newChartsIn(t, t.TempDir())
				c, _ := newChartsIn(t, dir)
				require.Equal(t, "hello", greeting(t, c, repo))

				m.set(tc.mood)
				restarted, _ := newChartsIn(t, dir)
				if name == "Hangs" {
					stranger.impatient()
					c.impatient()
					restarted.impatient()
				}
				_, err := stranger.load(t.Context(), repo, "demo", "1.0.0")
				requireOutcome(t, err, tc.class, tc.code)
				for _, process := range []*charts{c, restarted} {
					loaded, err := process.load(t.Context(), repo, "demo", "1.0.0")
					if !tc.away {
						requireOutcome(t, err, tc.class, tc.code)
						continue
					}
					require.NoError(t, err, tc.reason)
					require.Equal(t, "1.0.0", loaded.Metadata.Version)
					_, err = process.load(t.Context(), repo, "demo", "2.0.0")
					requireOutcome(t, err, tc.class, tc.code)
				}
			})
		}
	}
}

func TestRepositoryDown(t *testing.T) {
	m := newFickle(t)
	m.publish(t, cdtest.DemoChart("1.0.0"))
	dir := t.TempDir()
	c, _ := newChartsIn(t, dir)
	for _, repo := range m.repositories() {
		require.Equal(t, "hello", greeting(t, c, repo))
	}
	m.Close()
	restarted, _ := newChartsIn(t, dir)
	for kind, repo := range m.repositories() {
		require.Equal(t, "hello", greeting(t, c, repo), kind)
		require.Equal(t, "hello", greeting(t, restarted, repo+"/"), kind+": a slash at the end makes no difference")
		_, err := c.load(t.Context(), repo+"/other", "demo", "1.0.0")
		requireOutcome(t, err, abi.Yield, abi.ReasonChartUnavailable)
	}
}

func TestRepositoryThatAnswersDecides(t *testing.T) {
	for _, kind := range []string{"OCI", "Indexed", "Bare"} {
		t.Run(kind, func(t *testing.T) {
			m := newFickle(t)
			m.publish(t, cdtest.DemoChart("1.0.0"))
			c, _ := newChartsIn(t, t.TempDir())
			repo := m.repositories()[kind]
			require.Equal(t, "hello", greeting(t, c, repo))
			again := cdtest.DemoChart("1.0.0")
			again.Values = strings.ReplaceAll(again.Values, "hello", "moin")
			m.publish(t, again)
			require.Equal(t, "moin", greeting(t, c, repo), "a version that was pushed again")
			m.set(hang)
			c.impatient()
			require.Equal(t, "moin", greeting(t, c, repo), "and is remembered as it was last")
		})
	}
}

func TestArchiveHostAway(t *testing.T) {
	m := newFickle(t)
	m.publish(t, cdtest.DemoChart("1.0.0"))
	c, _ := newChartsIn(t, t.TempDir())
	for _, repo := range m.repositories() {
		require.Equal(t, "hello", greeting(t, c, repo))
	}
	again := cdtest.DemoChart("1.0.0")
	again.Values = strings.ReplaceAll(again.Values, "hello", "moin")
	m.publish(t, again)
	for _, path := range []string{"/indexed/demo.tgz", "/bare/demo.tgz", "/v2/demo/blobs/sha256:" + sum(again.Archive(t))} {
		m.serve(path, answers(http.StatusBadGateway))
	}
	for _, kind := range []string{"OCI", "Indexed"} {
		_, err := c.load(t.Context(), m.repositories()[kind], "demo", "1.0.0")
		requireOutcome(t, err, abi.Yield, abi.ReasonChartUnavailable)
	}
	require.Equal(t, "hello", greeting(t, c, m.repositories()["Bare"]), "an index that names no digest does not say that it is another")
}

func TestRememberedArchiveIsNotTrusted(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, archive, known string){
		"Corrupted":     func(t *testing.T, archive, _ string) { write(t, archive, "tampered") },
		"Swapped":       func(t *testing.T, archive, _ string) { write(t, archive, string(cdtest.DemoChart("9.9.9").Archive(t))) },
		"Truncated":     func(t *testing.T, archive, _ string) { require.NoError(t, os.Truncate(archive, 100)) },
		"Evicted":       func(t *testing.T, archive, _ string) { require.NoError(t, os.Remove(archive)) },
		"Forgotten":     func(t *testing.T, _, known string) { require.NoError(t, os.Remove(known)) },
		"EmptyMemory":   func(t *testing.T, _, known string) { write(t, known, "") },
		"HostileMemory": func(t *testing.T, _, known string) { write(t, known, "../../../../../../../../etc/passwd") },
		"OtherMemory":   func(t *testing.T, _, known string) { write(t, known, strings.Repeat("0", 64)) },
		"EndlessMemory": func(t *testing.T, _, known string) { write(t, known, strings.Repeat("0", 1<<16)) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newFickle(t)
			m.publish(t, cdtest.DemoChart("1.0.0"))
			c, logged := newChartsIn(t, t.TempDir())
			require.Equal(t, "hello", greeting(t, c, m.oci("")))
			damage(t, onlyFile(t, c.archives.dir), onlyFile(t, c.known.dir))
			m.set(answers(http.StatusInternalServerError))
			for range 2 {
				_, err := c.load(t.Context(), m.oci(""), "demo", "1.0.0")
				requireOutcome(t, err, abi.Yield, abi.ReasonChartUnavailable)
			}
			require.Empty(t, *logged)
			m.set(nil)
			require.Equal(t, "hello", greeting(t, c, m.oci("")), "and it comes right by itself")
			m.set(hang)
			c.impatient()
			require.Equal(t, "hello", greeting(t, c, m.oci("")))
		})
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

// onlyFile returns the only file of a directory.
func onlyFile(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "and no temporary files")
	return filepath.Join(dir, entries[0].Name())
}

func TestDamagedArchiveGivesTheRepositoryItsTime(t *testing.T) {
	m := newFickle(t)
	m.publish(t, cdtest.DemoChart("1.0.0"))
	c, _ := newChartsIn(t, t.TempDir())
	repo := m.oci("")
	require.Equal(t, "hello", greeting(t, c, repo))
	write(t, onlyFile(t, c.archives.dir), "tampered")
	m.set(hang)
	c.timeouts.Resolve = 50 * time.Millisecond
	_, err := c.load(t.Context(), repo, "demo", "1.0.0")
	requireOutcome(t, err, abi.Yield, abi.ReasonChartUnavailable)
	// It answers only after more time than a version with an archive would be given.
	m.set(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(4 * c.timeouts.Resolve):
			m.set(nil)
			m.Config.Handler.ServeHTTP(w, r)
		}
	})
	require.Equal(t, "hello", greeting(t, c, repo))
}

func TestOutageIsLoggedOnce(t *testing.T) {
	m := newFickle(t)
	m.publish(t, cdtest.DemoChart("1.0.0"))
	c, logged := newChartsIn(t, t.TempDir())
	for outage := range 2 {
		require.Equal(t, "hello", greeting(t, c, m.oci("")))
		m.set(answers(http.StatusServiceUnavailable))
		for range 3 {
			require.Equal(t, "hello", greeting(t, c, m.oci("")))
		}
		m.set(nil)
		require.Len(t, *logged, outage+1)
	}
	require.Contains(t, (*logged)[0], `"chart"="demo" "version"="1.0.0"`)
	require.Contains(t, (*logged)[0], "503", "with what it said")
}

func TestShutdownIsNoOutage(t *testing.T) {
	m := newFickle(t)
	m.publish(t, cdtest.DemoChart("1.0.0"))
	c, logged := newChartsIn(t, t.TempDir())
	require.Equal(t, "hello", greeting(t, c, m.oci("")))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.load(ctx, m.oci(""), "demo", "1.0.0")
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, *logged)
}

func TestMemoryHoldsNoNames(t *testing.T) {
	k := known{dir: t.TempDir()}
	secret := version{"https://user:s3cr3t@charts.example", "../../demo", "1.0.0"}
	k.remember(secret, sum([]byte("a")))
	file := onlyFile(t, k.dir)
	require.Regexp(t, "^[0-9a-f]{64}$", filepath.Base(file))
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, sum([]byte("a")), string(content))
	seen := map[string]version{}
	for _, v := range []version{
		{"a", "b", "c"}, {"ab", "", "c"}, {"a", "bc", ""}, {`a" "b`, "c", ""}, {"a", `b" "c`, ""}, {"a", "b", "vc"}, {"A", "b", "c"}, {"a//", "b", "c"},
	} {
		require.NotContains(t, seen, v.file(), "%v and %v", v, seen[v.file()])
		seen[v.file()] = v
	}
}

func TestMemoryIsBounded(t *testing.T) {
	k := known{dir: t.TempDir()}
	numbered := func(n int) version { return version{"oci://charts.example", "demo", fmt.Sprint(n)} }
	old := time.Now().Add(-time.Hour)
	for n := range maxKnown {
		k.remember(numbered(n), sum(nil))
		require.NoError(t, os.Chtimes(k.path(numbered(n)), old, old))
		old = old.Add(time.Second)
	}
	k.remember(numbered(0), sum(nil)) // It is in use.
	k.remember(numbered(maxKnown), sum(nil))
	files, err := os.ReadDir(k.dir)
	require.NoError(t, err)
	require.Len(t, files, maxKnown)
	_, ok := k.archive(numbered(1))
	require.False(t, ok, "the one used longest ago went")
	for _, n := range []int{0, 2, maxKnown} {
		_, ok = k.archive(numbered(n))
		require.True(t, ok, n)
	}
	require.NoError(t, os.RemoveAll(k.dir))
	k.remember(numbered(0), sum(nil))
	_, ok = k.archive(numbered(0))
	require.False(t, ok, "what cannot be written is not remembered, and no more")
}

func TestChartsAreSafeForConcurrentUse(t *testing.T) {
	m := newFickle(t)
	m.publish(t, cdtest.DemoChart("1.0.0"))
	c, err := newCharts(Options{CacheDir: t.TempDir(), Timeouts: Timeouts{}.withDefaults()})
	require.NoError(t, err)
	repositories := m.repositories()
	for _, repo := range repositories {
		require.Equal(t, "hello", greeting(t, c, repo))
	}
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for range 10 {
				if n == 0 {
					m.set(answers(http.StatusServiceUnavailable))
				}
				for _, repo := range repositories {
					if _, err := c.load(t.Context(), repo, "demo", "1.0.0"); err != nil {
						t.Errorf("%s: %v", repo, err)
					}
				}
				if n == 1 {
					m.set(nil)
				}
			}
		})
	}
	all.Wait()
	onlyFile(t, c.archives.dir)
}

func TestHangingRepositoryIsNotWaitedForLong(t *testing.T) {
	m := newFickle(t)
	m.publish(t, cdtest.DemoChart("1.0.0"))
	c, _ := newChartsIn(t, t.TempDir())
	for _, repo := range m.repositories() {
		require.Equal(t, "hello", greeting(t, c, repo))
	}
	m.set(hang)
	c.timeouts.Pull, c.timeouts.Resolve = time.Hour, 50*time.Millisecond
	// The deadline only ends the test if nothing else ends the request.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for kind, repo := range m.repositories() {
		_, err := c.load(ctx, repo, "demo", "1.0.0")
		require.NoError(t, err, kind)
	}
	require.Equal(t, 10*time.Second, Timeouts{}.withDefaults().Resolve)
}
