package scope_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/scope"
)

// plain allows servers without TLS.
func plain() scope.KubeconfigPolicy { return scope.KubeconfigPolicy{AllowInsecureTLS: true} }

// hung returns a server that accepts connections and never says a word, as one does whose
// process is stopped: the kernel still takes the connections.
func hung(tb testing.TB) string {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

func TestReachableOfAServerThatHangs(t *testing.T) {
	for name, url := range map[string]string{"BeforeTLS": "https://" + hung(t), "BeforeHTTP": "http://" + hung(t)} {
		t.Run(name, func(t *testing.T) {
			cache := scope.NewClientCache(scope.ClientCacheOptions{Policy: plain(), ProbeTimeout: 50 * time.Millisecond})
			connection, err := cache.Remote(kubeconfig(url))
			require.NoError(t, err)
			// The test's own time limit is what would end it if the probe had none.
			err = cache.Reachable(t.Context(), connection)
			require.Error(t, err)
			require.NoError(t, t.Context().Err())
			require.NotContains(t, err.Error(), "s3cr3t")
			require.True(t, connection.LastAnswer().IsZero())
			require.False(t, connection.SilentSince().IsZero())
		})
	}
}

func TestProbesFitIntoAPass(t *testing.T) {
	require.Less(t, 2*scope.DefaultProbeTimeout, 10*time.Second,
		"a deletion asks the cluster that the resolver finds and the one that is registered, one after the other")
}

func TestReachableLeavesSlowServersAlone(t *testing.T) {
	clock := newClock()
	var mu sync.Mutex
	took, asked := 4*time.Second, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		clock.advance(took)
		w.WriteHeader(http.StatusGatewayTimeout)
	}))
	defer server.Close()
	cache := scope.NewClientCache(scope.ClientCacheOptions{Policy: plain(), Now: clock.Now})
	connection, err := cache.Remote(kubeconfig(server.URL))
	require.NoError(t, err)
	times := func() int {
		require.Error(t, cache.Reachable(t.Context(), connection))
		mu.Lock()
		defer mu.Unlock()
		return asked
	}
	require.Equal(t, 1, times())
	clock.advance(11 * time.Second)
	require.Equal(t, 1, times(), "what took 4 s rests for 12")
	clock.advance(2 * time.Second)
	took = 0
	require.Equal(t, 2, times())
	clock.advance(2 * time.Second)
	require.Equal(t, 2, times())
	clock.advance(2 * time.Second)
	require.Equal(t, 3, times(), "what took no time rests for 3")
}

func TestSilence(t *testing.T) {
	server := newAPIServer(t)
	clock := newClock()
	cache := scope.NewClientCache(scope.ClientCacheOptions{Now: clock.Now})
	connection, err := cache.Remote(server.kubeconfig())
	require.NoError(t, err)
	require.True(t, connection.LastAnswer().IsZero(), "nobody has asked")
	require.True(t, connection.SilentSince().IsZero())

	ask := func(status int) time.Time {
		clock.advance(time.Minute)
		server.status.Store(int64(status))
		_ = cache.Reachable(t.Context(), connection)
		return clock.Now()
	}
	down := ask(http.StatusServiceUnavailable)
	require.True(t, connection.LastAnswer().IsZero())
	require.Equal(t, down, connection.SilentSince())
	ask(http.StatusServiceUnavailable)
	require.Equal(t, down, connection.SilentSince(), "since the first time")

	answered := ask(http.StatusOK)
	require.Equal(t, answered, connection.LastAnswer())
	require.True(t, connection.SilentSince().IsZero())

	down = ask(http.StatusServiceUnavailable)
	require.Equal(t, answered, connection.LastAnswer())
	require.Equal(t, down, connection.SilentSince(), "since the first time after an answer")

	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		answered = ask(status)
		require.Equal(t, answered, connection.LastAnswer(), "a refusal is an answer")
		require.True(t, connection.SilentSince().IsZero())
	}
}
