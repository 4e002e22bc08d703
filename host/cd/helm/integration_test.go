package helm

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/release/common"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/cd/cdtest"
	"github.com/caisson-dev/caisson/host/internal/testenv"
)

// shared is the cluster of this package's tests. It starts when a test first needs it,
// which unit tests and fuzzing never do.
var shared struct {
	once    sync.Once
	cluster *testenv.Cluster
	err     error
}

// admin reaches the shared cluster with every right.
func admin(t *testing.T) *rest.Config {
	t.Helper()
	shared.once.Do(func() { shared.cluster, shared.err = testenv.StartMain() })
	require.NoError(t, shared.err)
	return rest.CopyConfig(shared.cluster.Config)
}

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	code := m.Run()
	if shared.cluster != nil {
		shared.cluster.Stop()
	}
	os.Exit(code)
}

// newDriver makes a driver that ends with the test. change may adjust the options.
func newDriver(t *testing.T, operator client.Client, namespace string, change ...func(*Options)) *Driver {
	t.Helper()
	o := Options{Namespace: namespace, Client: operator, CacheDir: t.TempDir()}
	for _, c := range change {
		c(&o)
	}
	d, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		require.NoError(t, d.Close(ctx))
	})
	return d
}

func TestConformance(t *testing.T) {
	cdtest.Run(t, cdtest.Harness{
		Admin: admin(t),
		New: func(t *testing.T, operator client.Client, namespace string) cd.Driver {
			t.Helper()
			return newDriver(t, operator, namespace)
		},
		Check: requireOrderlyRecords,
	})
}

// requireOrderlyRecords requires of the release "app" that its newest revision, if there
// is any, is the only one deployed and as many as it has predecessors, and that no action
// is recorded any more.
func requireOrderlyRecords(t *testing.T, env *cdtest.Env, tenant *cdtest.Tenant) {
	t.Helper()
	at, err := newCluster("test", env.Config, time.Minute)
	require.NoError(t, err)
	releases, err := at.history(t.Context(), tenant.Namespace, "app")
	require.NoError(t, err)
	slices.SortFunc(releases, func(a, b *release.Release) int { return a.Version - b.Version })
	for n, rel := range releases {
		require.Equal(t, n+1, rel.Version, "revisions are counted without gaps")
		if n < len(releases)-1 {
			require.Contains(t, []common.Status{common.StatusSuperseded, common.StatusFailed}, rel.Info.Status)
			continue
		}
		require.Equal(t, common.StatusDeployed, rel.Info.Status)
	}
	require.LessOrEqual(t, len(releases), 3, "one that was there, one that was cut off, one that went through")
	entries, err := newInventory(env.Admin, env.Namespace, time.Now).list(t.Context(), tenant.Owner().UID)
	require.NoError(t, err)
	require.Equal(t, len(releases) > 0, len(entries) > 0, "recorded is what is there")
	for _, e := range entries {
		require.Nil(t, e.Action, "no action is open")
	}
}
