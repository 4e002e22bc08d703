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

func TestReachableLeavesSilentServersAlone(t *testing.T) {
	clock := newClock()
	var mu sync.Mutex
	took, asked, status := 4*time.Second, 0, http.StatusGatewayTimeout
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		clock.advance(took)
		w.WriteHeader(status)
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
	require.Zero(t, cache.AskAgainIn(connection), "nobody has asked")
	for n, rest := range []time.Duration{4 * time.Second, 8 * time.Second, 12 * time.Second, 12 * time.Second} {
		require.Equal(t, n+1, times())
		require.Equal(t, rest, cache.AskAgainIn(connection))
		clock.advance(rest - time.Second)
		require.Equal(t, n+1, times(), "it is left alone")
		require.Equal(t, time.Second, cache.AskAgainIn(connection), "and asking does not prolong that")
		clock.advance(time.Second)
		require.Zero(t, cache.AskAgainIn(connection))
	}
	mu.Lock()
	took, status = time.Second, http.StatusForbidden
	mu.Unlock()
	require.NoError(t, cache.Reachable(t.Context(), connection))
	require.Equal(t, 3*time.Second, cache.AskAgainIn(connection))
	clock.advance(time.Minute)
	require.Zero(t, cache.AskAgainIn(connection), "and never less than nothing")
	mu.Lock()
	took, status = 0, http.StatusGatewayTimeout
	mu.Unlock()
	require.Equal(t, 6, times())
	require.Equal(t, 2*time.Second, cache.AskAgainIn(connection), "after an answer, the silences are counted anew")
}

func TestRestIsBounded(t *testing.T) {
	for _, took := range []time.Duration{0, time.Millisecond, time.Second, scope.DefaultProbeTimeout, 30 * time.Second} {
		before := time.Duration(0)
		for silences := 1; silences < 100; silences++ {
			rest := scope.RestAfter(took, silences)
			require.GreaterOrEqual(t, rest, max(took, 2*time.Second), "at most half of a worker's time, at first")
			require.GreaterOrEqual(t, rest, before, "a silence that lasts is not asked more often")
			require.LessOrEqual(t, rest, max(12*time.Second, 3*took))
			before = rest
		}
		require.GreaterOrEqual(t, before, 3*took, "and a quarter in the end")
		require.Equal(t, max(3*time.Second, 3*took), scope.RestAfter(took, 0))
	}
}

func TestAskAgainInIsSafeForConcurrentUse(t *testing.T) {
	server := newAPIServer(t)
	server.status.Store(http.StatusServiceUnavailable)
	clock := newClock()
	cache := scope.NewClientCache(scope.ClientCacheOptions{Now: clock.Now})
	connection, err := cache.Remote(server.kubeconfig())
	require.NoError(t, err)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				_ = cache.Reachable(t.Context(), connection)
				if rest := cache.AskAgainIn(connection); rest < 0 || rest > 12*time.Second {
					t.Errorf("rest of %s", rest)
				}
				clock.advance(100 * time.Millisecond)
			}
		})
	}
	all.Wait()
	require.Greater(t, server.asked.Load(), int64(1))
	require.Less(t, server.asked.Load(), int64(20), "40 s hold 2, 4, 8 and 12 s of rest, and those that follow")
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
