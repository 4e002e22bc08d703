package host_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/caisson-dev/caisson/host/internal/testenv"
	"github.com/caisson-dev/caisson/host/scope"
)

// remotePaused: a control plane that stops right after a probe holds a pass until it is
// found out, and not for the time-out of each request.
func remotePaused(t *testing.T, cluster *testenv.Cluster) {
	config, err := clientcmd.Load(cluster.Kubeconfig)
	require.NoError(t, err)
	cache := scope.NewClientCache(scope.ClientCacheOptions{})
	connection, err := cache.Remote(config)
	require.NoError(t, err)
	list := func(ctx context.Context) error { return connection.Client().List(ctx, &corev1.NamespaceList{}) }
	pass := scope.NewContext(t.Context(), scope.NewHome(scope.Owner{}, nil, nil))
	require.NoError(t, list(pass))
	require.NoError(t, cache.Reachable(pass, connection))

	require.NoError(t, cluster.Pause())
	began := time.Now()
	require.ErrorIs(t, list(pass), scope.ErrSilent)
	// A request that had to run into its own time-out would not say so, but this is the point.
	require.Less(t, time.Since(began), scope.DefaultTimeout)
	for range 50 { // these are refused at once, or the test would take minutes
		require.ErrorIs(t, list(pass), scope.ErrSilent)
	}
	require.NoError(t, cluster.Resume())
	eventually(t, "an answer", func() (bool, string) {
		if err := list(pass); err != nil {
			return false, err.Error()
		}
		return true, ""
	})
}
