package scope_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/caisson-dev/caisson/host/scope"
)

const soon = 30 * time.Second // for a busy machine

func TestDroppedConnectionsAreClosed(t *testing.T) {
	for name, drop := range map[string]func(cache *scope.ClientCache, clock *clock){
		"Idle": func(cache *scope.ClientCache, clock *clock) {
			clock.advance(scope.DefaultIdleTimeout)
			cache.DropIdle()
		},
		"NextUse": func(cache *scope.ClientCache, clock *clock) {
			clock.advance(scope.DefaultIdleTimeout)
			_, err := cache.Remote(kubeconfig("https://another.example"))
			require.NoError(t, err)
		},
		"TooMany": func(cache *scope.ClientCache, _ *clock) {
			_, err := cache.Remote(kubeconfig("https://another.example"))
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, sockets := countedServer(t)
			clock := newClock()
			cache := scope.NewClientCache(scope.ClientCacheOptions{Now: clock.Now, MaxEntries: 1})
			connection, err := cache.Remote(server.kubeconfig())
			require.NoError(t, err)
			require.NoError(t, cache.Reachable(t.Context(), connection))
			require.Equal(t, 1, sockets.count())
			cache.DropIdle()
			require.Equal(t, 1, cache.Len(), "it is not idle yet")
			drop(cache, clock)
			require.Eventually(t, func() bool { return sockets.count() == 0 }, soon, time.Millisecond)

			clock.advance(time.Minute)
			require.NoError(t, cache.Reachable(t.Context(), connection), "whoever holds it can still use it")
		})
	}
}

func TestRunDropsWhatNobodyUses(t *testing.T) {
	server, sockets := countedServer(t)
	cache := scope.NewClientCache(scope.ClientCacheOptions{IdleTimeout: 20 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- cache.Run(ctx) }()
	connection, err := cache.Remote(server.kubeconfig())
	require.NoError(t, err)
	require.NoError(t, cache.Reachable(t.Context(), connection))
	require.Eventually(t, func() bool { return cache.Len() == 0 && sockets.count() == 0 }, soon, time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
}

func TestHammerIdle(t *testing.T) {
	server, _ := countedServer(t)
	cache := scope.NewClientCache(scope.ClientCacheOptions{IdleTimeout: time.Millisecond, MaxEntries: 4})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var janitor, users sync.WaitGroup
	janitor.Go(func() { _ = cache.Run(ctx) })
	for i := range 8 {
		users.Go(func() {
			for n := range 25 {
				config := server.kubeconfig()
				config.AuthInfos["their-user"].Token = string(rune('a' + (i+n)%6)) // they rotate
				connection, err := cache.Remote(config)
				require.NoError(t, err)
				require.Equal(t, config.AuthInfos["their-user"].Token, connection.Config().BearerToken)
				client, err := rest.HTTPClientFor(connection.Config())
				require.NoError(t, err)
				request, err := http.NewRequestWithContext(pass(t), http.MethodGet, server.URL, http.NoBody)
				require.NoError(t, err)
				response, err := client.Do(request)
				require.NoError(t, err, "a connection that is dropped is not taken from who uses it")
				require.NoError(t, response.Body.Close())
			}
		})
	}
	users.Wait()
	cancel()
	janitor.Wait()
	require.LessOrEqual(t, cache.Len(), 4)
}
