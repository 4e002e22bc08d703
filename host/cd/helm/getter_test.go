package helm

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/caisson-dev/caisson/host/scope"
)

func TestGetterUsesNothingButTheConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, []byte(`{apiVersion: v1, kind: Config, current-context: x,
contexts: [{name: x, context: {cluster: c, namespace: from-the-environment}}], clusters: [{name: c, cluster: {server: "https://wrong.example"}}]}`), 0o600))
	t.Setenv("KUBECONFIG", path)
	t.Setenv("HELM_NAMESPACE", "from-the-environment")
	config := &rest.Config{Host: "https://right.example", BearerToken: "t", Impersonate: rest.ImpersonationConfig{UserName: "tenant"}}
	c, err := newCluster("id", config, time.Minute)
	require.NoError(t, err)
	g := getter{cluster: c, namespace: "mine"}
	got, err := g.ToRESTConfig()
	require.NoError(t, err)
	require.Equal(t, "https://right.example", got.Host)
	require.Equal(t, "tenant", got.Impersonate.UserName)
	require.Equal(t, time.Minute, got.Timeout)
	got.Host = "changed"
	again, err := g.ToRESTConfig()
	require.NoError(t, err)
	require.Equal(t, "https://right.example", again.Host, "a copy each time")
	namespace, _, err := g.ToRawKubeConfigLoader().Namespace()
	require.NoError(t, err)
	require.Equal(t, "mine", namespace)
	require.Zero(t, config.QPS, "the caller's config is left alone")
}

func TestClusterCache(t *testing.T) {
	cache := newClusterCache(time.Minute, time.Now)
	at := func(change func(*rest.Config)) *cluster {
		config := &rest.Config{Host: "https://a.example", BearerToken: "one"}
		change(config)
		c, err := cache.at(scope.NewHome(scope.Owner{UID: "u"}, config, nil))
		require.NoError(t, err)
		return c
	}
	first := at(func(*rest.Config) {})
	require.Same(t, first, at(func(*rest.Config) {}), "clients and discovery are kept from pass to pass")
	for name, change := range map[string]func(*rest.Config){
		"Token":    func(c *rest.Config) { c.BearerToken = "rotated" },
		"Identity": func(c *rest.Config) { c.Impersonate.UserName = "another" },
		"Host":     func(c *rest.Config) { c.Host = "https://b.example" },
	} {
		require.NotSame(t, first, at(change), name)
	}
	plain, err := fingerprint("home", &rest.Config{Host: "h", BearerToken: "very-secret"})
	require.NoError(t, err)
	require.NotContains(t, plain, "very-secret")
	other, err := fingerprint("remote", &rest.Config{Host: "h", BearerToken: "very-secret"})
	require.NoError(t, err)
	require.NotEqual(t, plain, other)
}

func TestClusterCacheIsBounded(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	cache := newClusterCache(time.Minute, func() time.Time { now = now.Add(time.Second); return now })
	at := func(n int) *cluster {
		config := &rest.Config{Host: fmt.Sprintf("https://h%d.example", n)}
		c, err := cache.at(scope.NewHome(scope.Owner{}, config, nil))
		require.NoError(t, err)
		return c
	}
	first, second := at(0), at(1)
	for n := 2; n < maxClusters+1; n++ {
		require.Same(t, first, at(0), "what is used stays")
		at(n)
	}
	require.Len(t, cache.entries, maxClusters)
	require.Same(t, first, at(0))
	require.NotSame(t, second, at(1), "what was used longest ago went")
}

func TestClusterCacheDropsIdle(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	cache := newClusterCache(time.Minute, func() time.Time { return now })
	at := func(host string) *cluster {
		c, err := cache.at(scope.NewHome(scope.Owner{}, &rest.Config{Host: host}, nil))
		require.NoError(t, err)
		return c
	}
	used, idle := at("https://used.example"), at("https://idle.example")
	now = now.Add(clusterIdle / 2)
	require.Same(t, used, at("https://used.example"))
	now = now.Add(clusterIdle / 2)
	cache.dropIdle()
	require.Len(t, cache.entries, 1)
	require.Same(t, used, at("https://used.example"))
	require.NotSame(t, idle, at("https://idle.example"))
}

func TestOptions(t *testing.T) {
	_, err := New(Options{})
	require.ErrorContains(t, err, "needs a namespace")
	o, err := Options{Namespace: "n", Client: refusing{}, CacheDir: "d"}.withDefaults()
	require.NoError(t, err)
	require.Equal(t, defaultWorkers, o.Workers)
	require.Equal(t, "caisson", o.FieldManager)
	require.Equal(t, 10*time.Minute, o.Timeouts.Progress)
	require.Equal(t, 5*time.Minute, o.Timeouts.Action)
	require.NotNil(t, o.Now)
	o.Logger.Info("goes nowhere")
	_, err = New(Options{Namespace: "n", Client: refusing{}, CacheDir: t.TempDir(), FieldManager: "caisson"})
	require.NoError(t, err)
	_, err = New(Options{Namespace: "n", Client: refusing{}, CacheDir: t.TempDir(), FieldManager: "another"})
	require.ErrorContains(t, err, "caisson", "Helm has one for the whole process")
}
