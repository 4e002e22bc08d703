package helm

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/caisson-dev/caisson/host/cd/cdtest"
	"github.com/caisson-dev/caisson/host/scope"
)

func resource(name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: name}
}

func newTestHub(t *testing.T) *hub {
	t.Helper()
	h := newHub(time.Now)
	t.Cleanup(h.close)
	return h
}

func TestNewsAreGathered(t *testing.T) {
	h := newTestHub(t)
	var a, b atomic.Int64
	h.subscribe(t.Context(), func(o scope.Owner) {
		if o.UID == "a" {
			a.Add(1)
		} else {
			b.Add(1)
		}
	})
	for range 100 {
		h.notify(scope.Owner{UID: "a"})
	}
	h.notify(scope.Owner{UID: "b"})
	cdtest.Poll(t, func() (bool, string) { return a.Load() == 1 && b.Load() == 1, "not told" })
	h.notify(scope.Owner{UID: "a"})
	cdtest.Poll(t, func() (bool, string) { return a.Load() == 2, "news after the pause are lost" })
	require.Equal(t, int64(1), b.Load())
}

func TestSubscriptionsEnd(t *testing.T) {
	h := newTestHub(t)
	h.notify(scope.Owner{UID: "nobody listens"})
	require.Empty(t, h.pending)
	ctx, cancel := context.WithCancel(t.Context())
	h.subscribe(ctx, func(scope.Owner) {})
	require.True(t, h.subscribed())
	cancel()
	cdtest.Poll(t, func() (bool, string) { return !h.subscribed(), "still subscribed" })
}

func TestRecheckTellsOnce(t *testing.T) {
	h := newTestHub(t)
	told := make(chan scope.Owner, 10)
	h.subscribe(t.Context(), func(o scope.Owner) { told <- o })
	key := releaseKey{name: "a"}
	h.recheck(key, scope.Owner{UID: "a"}, time.Hour)
	h.recheck(key, scope.Owner{UID: "a"}, time.Millisecond)
	require.Equal(t, "a", (<-told).UID)
	h.recheck(key, scope.Owner{UID: "a"}, time.Hour)
	h.recheck(key, scope.Owner{UID: "b"}, time.Millisecond)
	require.Equal(t, "b", (<-told).UID)
	h.untrack(key, "b")
	require.Len(t, h.rechecks, 1, "who asks for a name of somebody else's takes no turn of theirs")
	h.untrack(key, "a")
	require.Empty(t, h.rechecks, "a release that is gone is not looked at")
}

// TestHubHammer tracks and untracks releases that share watches while subscribers come
// and go. In the end no watch is left.
func TestHubHammer(t *testing.T) {
	env := cdtest.NewEnv(t, admin(t))
	at, err := newCluster("hammer", env.Config, time.Minute)
	require.NoError(t, err)
	h := newTestHub(t)
	var group sync.WaitGroup
	for n := range 8 {
		group.Go(func() {
			key := releaseKey{scope: "home", namespace: env.Namespace, name: fmt.Sprint(n)}
			for round := range 20 {
				ctx, cancel := context.WithCancel(t.Context())
				h.subscribe(ctx, func(scope.Owner) {})
				h.track(key, scope.Owner{UID: fmt.Sprint(n)}, at, []target{
					{resource: resource("configmaps"), namespace: env.Namespace}, {resource: resource("secrets"), namespace: fmt.Sprint(round % 2)},
				})
				h.ready(key, round%2 == 0)
				h.notify(scope.Owner{UID: fmt.Sprint(n)})
				h.watching(key)
				cancel()
				h.untrack(key, fmt.Sprint(n))
			}
		})
	}
	group.Wait()
	cdtest.Poll(t, func() (bool, string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.watchers) == 0 && len(h.releases) == 0 && len(h.subscribers) == 0, "something is left"
	})
}

func TestWatchersAreSharedAndSurviveRefusal(t *testing.T) {
	env := cdtest.NewEnv(t, admin(t))
	poor := env.NewPoorTenant(t)
	at, err := newCluster("poor", poor.Config(), time.Minute)
	require.NoError(t, err)
	h := newTestHub(t)
	targets := []target{{resource: resource("configmaps"), namespace: poor.Namespace}}
	a, b := releaseKey{name: "a"}, releaseKey{name: "b"}
	h.track(a, scope.Owner{UID: "a"}, at, targets)
	require.Empty(t, h.watchers, "nobody listens, nobody watches")
	h.subscribe(t.Context(), func(scope.Owner) {})
	h.track(b, scope.Owner{UID: "b"}, at, targets)
	h.mu.Lock()
	require.Len(t, h.watchers, 1)
	h.mu.Unlock()
	cdtest.Poll(t, func() (bool, string) { return env.Requests() > 0, "no attempt" })
	require.False(t, h.watching(a), "a tenant that may not watch is polled")
	h.untrack(a, "b")
	h.mu.Lock()
	require.Len(t, h.releases, 2, "only its owner forgets a release")
	h.mu.Unlock()
	h.untrack(a, "a")
	h.mu.Lock()
	require.Len(t, h.watchers, 1, "the other still needs it")
	h.mu.Unlock()
	h.untrack(b, "b")
	h.mu.Lock()
	defer h.mu.Unlock()
	require.Empty(t, h.watchers)
}
