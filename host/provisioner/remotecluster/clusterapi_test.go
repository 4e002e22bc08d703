package remotecluster_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/provisionertest"
	"github.com/caisson-dev/caisson/host/provisioner/remotecluster"
	"github.com/caisson-dev/caisson/host/scope"
)

var clusterKind = schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Cluster"}

func clusterAPI(recorder provisioner.InputRecorder) *remotecluster.ClusterAPIResolver {
	return remotecluster.FromClusterAPI(remotecluster.ClusterAPIOptions{ID: identifier("workload"), Namespace: "clusters", Name: "blue", Inputs: recorder})
}

func cluster() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(clusterKind)
	u.SetNamespace("clusters")
	u.SetName("blue")
	return u
}

// management is a management cluster that serves the kind, unless it is told not to.
func management(t *testing.T, serve func(*meta.DefaultRESTMapper), objects ...client.Object) *fake.ClientBuilder {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	scheme.AddKnownTypeWithName(clusterKind, &unstructured.Unstructured{})
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion, clusterKind.GroupVersion()})
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	serve(mapper)
	return fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(objects...)
}

func served(m *meta.DefaultRESTMapper) { m.Add(clusterKind, meta.RESTScopeNamespace) }

func TestFromClusterAPI(t *testing.T) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "blue-kubeconfig", ResourceVersion: "7"},
		Data:       map[string][]byte{"value": validKubeconfig(t)},
	}
	var recorded inputs
	resolver := clusterAPI(&recorded)
	ctx := scope.NewContext(t.Context(), scope.NewHome(owner(), nil, management(t, served, secret).Build()))
	config, err := resolver.Config(ctx)
	require.NoError(t, err)
	require.Equal(t, "https://workload.example:6443", config.Clusters["c"].Server)
	require.Equal(t, identifier("workload"), *resolver.ID())
	require.Equal(t, inputs{{ScopeID: scope.HomeID, Kind: "Secret", Namespace: "clusters", Name: "blue-kubeconfig", Version: "7"}}, recorded)
}

func TestCase072ClusterAPIWithoutSecretIsPending(t *testing.T) {
	for name, objects := range map[string][]client.Object{"ClusterComesUp": {cluster()}, "NoCluster": nil} {
		t.Run(name, func(t *testing.T) {
			var recorded inputs
			ctx := scope.NewContext(t.Context(), scope.NewHome(owner(), nil, management(t, served, objects...).Build()))
			_, err := clusterAPI(&recorded).Config(ctx)
			requireFinding(t, yields(abi.ReasonRemotePending), err)
			require.NotErrorIs(t, err, provisioner.ErrNotFound, "that nothing is there yet is no evidence")
			require.Len(t, recorded, 1, "its arrival wakes")
		})
	}
}

func TestVanished(t *testing.T) {
	fails := func(err error) interceptor.Funcs {
		return interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return err
		}}
	}
	resource := schema.GroupResource{Group: clusterKind.Group, Resource: "clusters"}
	going := cluster()
	going.SetFinalizers([]string{"cluster.cluster.x-k8s.io"})
	deleted := metav1.Now()
	going.SetDeletionTimestamp(&deleted)
	for name, test := range map[string]struct {
		reason string
		client *fake.ClientBuilder
		want   bool
	}{
		"Absent":      {"the API server says so", management(t, served), true},
		"Present":     {"it is there", management(t, served, cluster()), false},
		"Going":       {"it is still there", management(t, served, going), false},
		"NoKind":      {"whoever does not know the kind is no witness", management(t, func(*meta.DefaultRESTMapper) {}), false},
		"Forbidden":   {"it may not be asked", management(t, served).WithInterceptorFuncs(fails(apierrors.NewForbidden(resource, "blue", errors.New("no")))), false},
		"Timeout":     {"it could not be asked", management(t, served).WithInterceptorFuncs(fails(context.DeadlineExceeded)), false},
		"Unavailable": {"likewise", management(t, served).WithInterceptorFuncs(fails(apierrors.NewServiceUnavailable("x"))), false},
		"Between": {
			"a proxy that knows no such path", management(t, served).WithInterceptorFuncs(fails(
				apierrors.NewGenericServerResponse(http.StatusNotFound, "get", resource, "blue", "404 page not found", 0, true))), false,
		},
		"Bare":  {"a 404 without details", management(t, served).WithInterceptorFuncs(fails(&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotFound, Code: 404}})), false},
		"Other": {"a 404 of something else", management(t, served).WithInterceptorFuncs(fails(apierrors.NewNotFound(resource, "green"))), false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := scope.NewContext(t.Context(), scope.NewHome(owner(), nil, test.client.Build()))
			require.Equal(t, test.want, clusterAPI(nil).Vanished(ctx), test.reason)
		})
	}
	require.False(t, clusterAPI(nil).Vanished(t.Context()), "without a scope nobody is asked")
	require.False(t, clusterAPI(nil).Vanished(home(t)), "nor without a client")
}

// witness is a resolver that knows an object.
type witness struct {
	*resolver
	vanished bool
	asked    int
}

func (w *witness) Vanished(context.Context) bool {
	w.asked++
	return w.vanished
}

func TestCase070VanishedCluster(t *testing.T) {
	type sight struct {
		*world
		witness *witness
		clock   *moment
		cache   *scope.ClientCache
		down    func(bool)
	}
	start := func(t *testing.T, vanished bool) *sight {
		config, down := flaky(t)
		w := &sight{world: newWorld(pending()), clock: &moment{}, down: down.Store}
		w.clock.to(0)
		w.witness = &witness{resolver: w.resolver, vanished: vanished}
		w.cache = scope.NewClientCache(scope.ClientCacheOptions{Now: w.clock.Now, IdleTimeout: time.Hour})
		w.driver.registrations[identifier("workload").Hash()] = config
		w.driver.install("workload", "cni")
		return w
	}
	// look runs a pass of a deletion, or of a living Stack, and returns the evidence.
	look := func(t *testing.T, w *sight, at time.Duration, grace time.Duration, deleting bool) remotecluster.Evidence {
		t.Helper()
		w.clock.to(at)
		options := w.options(remotecluster.Owned)
		options.Remote, options.Clients = w.witness, w.cache
		if deleting {
			options.Deletion = &remotecluster.Deletion{Since: deletionStart(), Now: w.clock.Now, Grace: grace}
		}
		bracket := remotecluster.New(options)
		waits := provisionertest.New("cni", nil).Down(provisioner.Yield(abi.ReasonApplicationDeleting, ""))
		require.Error(t, bracket.On("a", waits).Deprovision(home(t)))
		return bracket.Evidence()
	}
	const none, vanished = remotecluster.EvidenceNone, remotecluster.EvidenceVanished
	t.Run("SilentForAMinute", func(t *testing.T) {
		w := start(t, true)
		w.down(true)
		require.Equal(t, none, look(t, w, 0, time.Hour, true), "a blip is no evidence")
		require.Zero(t, w.witness.asked)
		require.Equal(t, none, look(t, w, 50*time.Second, time.Hour, true))
		require.Equal(t, vanished, look(t, w, time.Minute, time.Hour, true), "long before the grace is over")
	})
	t.Run("WithoutAGrace", func(t *testing.T) {
		w := start(t, true)
		w.down(true)
		require.Equal(t, none, look(t, w, 0, 0, true))
		require.Equal(t, vanished, look(t, w, time.Minute, 0, true), "0s waits for ever for a silence, and this is more")
	})
	t.Run("ShortGrace", func(t *testing.T) {
		w := start(t, true)
		w.down(true)
		require.Equal(t, none, look(t, w, 0, 5*time.Second, true))
		require.Equal(t, vanished, look(t, w, 5*time.Second, 5*time.Second, true), "who is impatient is so here too")
	})
	t.Run("Moved", func(t *testing.T) {
		w := start(t, true)
		require.Equal(t, none, look(t, w, time.Hour, time.Minute, true), "the Cluster was moved to another management cluster: the registration answers")
		require.Zero(t, w.witness.asked)
	})
	t.Run("StillThere", func(t *testing.T) {
		w := start(t, false)
		w.down(true)
		require.Equal(t, none, look(t, w, 0, time.Hour, true))
		require.Equal(t, none, look(t, w, 10*time.Minute, time.Hour, true))
		require.Equal(t, 1, w.witness.asked)
	})
	t.Run("NeverRegistered", func(t *testing.T) {
		w := start(t, true)
		w.driver.registrations = nil
		require.Equal(t, none, look(t, w, time.Minute, time.Hour, true), "nobody can prove that it ever existed")
	})
	t.Run("StackLives", func(t *testing.T) {
		w := start(t, true)
		w.down(true)
		require.Equal(t, none, look(t, w, 0, 0, false))
		require.Equal(t, none, look(t, w, time.Hour, 0, false), "there, nothing has to end")
		require.Zero(t, w.witness.asked)
	})
}
