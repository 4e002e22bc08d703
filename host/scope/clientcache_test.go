package scope_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/scope"
)

// clock is a clock that stands still until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Unix(1_700_000_000, 0)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func TestClientCacheSharesByContent(t *testing.T) {
	cache := scope.NewClientCache(scope.ClientCacheOptions{})
	first, err := cache.Remote(kubeconfig("https://a.example:6443"))
	require.NoError(t, err)
	renamed := kubeconfig("https://a.example:6443")
	renamed.Contexts["other"], renamed.CurrentContext = renamed.Contexts["their-context"], "other"
	second, err := cache.Remote(renamed)
	require.NoError(t, err)
	require.Same(t, first, second, "names do not make another connection")
	require.Equal(t, 1, cache.Len())

	host, port := first.Address()
	require.Equal(t, "a.example", host)
	require.Equal(t, 6443, port)
	require.NotNil(t, first.Client())
	require.Equal(t, "s3cr3t", first.Config().BearerToken)
	require.Equal(t, "s3cr3t", first.Kubeconfig().AuthInfos["remote"].Token)

	first.Config().BearerToken = "changed"
	first.Kubeconfig().CurrentContext = "changed"
	require.Equal(t, "s3cr3t", first.Config().BearerToken, "callers get copies")
	require.Equal(t, "remote", first.Kubeconfig().CurrentContext)
}

func TestCase080RotationIsAnotherConnection(t *testing.T) {
	cache := scope.NewClientCache(scope.ClientCacheOptions{})
	before, err := cache.Remote(kubeconfig("https://a.example"))
	require.NoError(t, err)
	rotated := kubeconfig("https://a.example")
	rotated.AuthInfos["their-user"].Token = "n3w"
	after, err := cache.Remote(rotated)
	require.NoError(t, err)
	require.NotSame(t, before, after)
	require.Equal(t, "n3w", after.Config().BearerToken)
	_, port := after.Address()
	require.Equal(t, 443, port, "the port follows from the scheme")
}

func TestClientCacheDropsTheLongestUnused(t *testing.T) {
	cache := scope.NewClientCache(scope.ClientCacheOptions{MaxEntries: 2})
	get := func(name string) *scope.Connection {
		connection, err := cache.Remote(kubeconfig("https://" + name + ".example"))
		require.NoError(t, err)
		return connection
	}
	a, b := get("a"), get("b")
	require.Same(t, a, get("a"))
	get("c")
	require.Equal(t, 2, cache.Len())
	require.Same(t, a, get("a"), "it was used last")
	require.NotSame(t, b, get("b"), "it had to go")
}

func TestClientCacheDropsIdle(t *testing.T) {
	clock := newClock()
	cache := scope.NewClientCache(scope.ClientCacheOptions{IdleTimeout: time.Minute, Now: clock.Now})
	get := func(name string) *scope.Connection {
		connection, err := cache.Remote(kubeconfig("https://" + name + ".example"))
		require.NoError(t, err)
		return connection
	}
	a := get("a")
	clock.advance(40 * time.Second)
	b := get("b")
	require.Same(t, a, get("a"), "not idle for long enough")
	clock.advance(50 * time.Second)
	require.Same(t, a, get("a"))
	clock.advance(20 * time.Second)
	get("c")
	require.Equal(t, 2, cache.Len(), "b went without anybody asking for it")
	require.Same(t, a, get("a"))
	require.NotSame(t, b, get("b"))
}

func TestClientCacheDoesNotKeepFailures(t *testing.T) {
	cache := scope.NewClientCache(scope.ClientCacheOptions{Home: &rest.Config{Host: "https://home", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("no PEM")}}})
	_, err := cache.Tenant("team-a", "platform")
	require.Error(t, err)
	require.Zero(t, cache.Len())
}

func TestTenant(t *testing.T) {
	var mu sync.Mutex
	users := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		users[r.Header.Get("Impersonate-User")]++
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api/v1":
			_, _ = fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"secrets","kind":"Secret","namespaced":true,"verbs":["get"]}]}`)
		case "/api/v1/namespaces/team-a/secrets/x":
			_, _ = fmt.Fprint(w, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x","namespace":"team-a"}}`)
		case "/api", "/apis":
			_, _ = fmt.Fprint(w, `{"kind":"APIVersions","versions":["v1"]}`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	cache := scope.NewClientCache(scope.ClientCacheOptions{Home: &rest.Config{Host: server.URL}})

	tenant, err := cache.Tenant("team-a", "platform")
	require.NoError(t, err)
	again, err := cache.Tenant("team-a", "platform")
	require.NoError(t, err)
	require.Same(t, tenant, again)
	other, err := cache.Tenant("team-b", "platform")
	require.NoError(t, err)
	require.NotSame(t, tenant, other, "another namespace is another identity")
	require.Empty(t, users, "making connections asks nobody")
	require.Nil(t, tenant.Kubeconfig())
	require.Equal(t, scope.DefaultTimeout, tenant.Config().Timeout)

	require.NoError(t, tenant.Client().Get(t.Context(), client.ObjectKey{Namespace: "team-a", Name: "x"}, &corev1.Secret{}))
	require.Contains(t, users, "system:serviceaccount:team-a:platform")
	require.Len(t, users, 1, "discovery too is the tenant's own")
}

func TestTenantWithoutHome(t *testing.T) {
	_, err := scope.NewClientCache(scope.ClientCacheOptions{}).Tenant("team-a", "platform")
	require.ErrorIs(t, err, scope.ErrNoHome)
}

func TestHammerClientCache(t *testing.T) {
	const callers, kinds = 32, 8
	server := newAPIServer(t)
	clock := newClock()
	cache := scope.NewClientCache(scope.ClientCacheOptions{
		Home: &rest.Config{Host: "https://home.example"}, MaxEntries: kinds / 2, IdleTimeout: time.Minute, Now: clock.Now,
	})
	var wait sync.WaitGroup
	for i := range callers {
		wait.Go(func() {
			for j := range kinds * 4 {
				config := server.kubeconfig()
				config.AuthInfos["their-user"].Token = fmt.Sprintf("token-%d", (i+j)%kinds)
				connection, err := cache.Remote(config)
				if err != nil || connection.Config().BearerToken != config.AuthInfos["their-user"].Token {
					t.Errorf("a caller got another's connection, or %v", err)
					return
				}
				if err := cache.Reachable(t.Context(), connection); err != nil {
					t.Errorf("reachable: %v", err)
				}
				if _, err := cache.Tenant(fmt.Sprintf("team-%d", j%kinds), "platform"); err != nil {
					t.Errorf("tenant: %v", err)
				}
				clock.advance(time.Second)
			}
		})
	}
	wait.Wait()
	require.LessOrEqual(t, cache.Len(), kinds/2)
}

func TestHammerSingleFlight(t *testing.T) {
	const callers = 64
	server := newAPIServer(t)
	cache := scope.NewClientCache(scope.ClientCacheOptions{Now: newClock().Now})
	connections := make([]*scope.Connection, callers)
	var wait sync.WaitGroup
	for i := range callers {
		wait.Go(func() {
			connection, err := cache.Remote(server.kubeconfig())
			if err != nil {
				t.Errorf("remote: %v", err)
				return
			}
			connections[i] = connection
			if err := cache.Reachable(t.Context(), connection); err != nil {
				t.Errorf("reachable: %v", err)
			}
		})
	}
	wait.Wait()
	for _, connection := range connections {
		require.Same(t, connections[0], connection, "one connection for all")
	}
	require.EqualValues(t, 1, server.asked.Load(), "one question for all")
}
