package demo

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

func TestOffer(t *testing.T) {
	entry := &v1alpha1.Application{ObjectMeta: metav1.ObjectMeta{Name: metricsApplication}, Spec: v1alpha1.ApplicationSpec{
		Versions: []v1alpha1.ApplicationVersion{{Version: "3.13.0", Repo: "oci://r/charts", Chart: metricsApplication, Namespace: "kube-system"}},
	}}
	d := quietly(t, entry)
	require.NoError(t, d.offer(t.Context(), "3.13.1"))
	require.NoError(t, d.home.client.Get(t.Context(), client.ObjectKeyFromObject(entry), entry))
	require.Len(t, entry.Spec.Versions, 2)
	want := entry.Spec.Versions[0]
	want.Version = "3.13.1"
	require.Equal(t, want, entry.Spec.Versions[1], "like the first in all else")
	require.NoError(t, d.withdraw(t.Context(), "3.13.1"))
	require.NoError(t, d.home.client.Get(t.Context(), client.ObjectKeyFromObject(entry), entry))
	require.Len(t, entry.Spec.Versions, 1)
	require.ErrorContains(t, quietly(t).offer(t.Context(), "3.13.1"), "read the catalogue: ")
}

func TestMetricsOf(t *testing.T) {
	stack := scene(t, "available")
	metricsOf(stack).Version = "3.13.x"
	require.Equal(t, "3.13.x", metricsOf(stack).Version, "it is the node itself")
	metricsOf(&v1alpha1.Stack{}).Version = "1"
}

func TestWorkloadIs(t *testing.T) {
	d := quietly(t)
	d.workload = fakeCluster(t, "workload", interceptor.Funcs{}, deployment("metrics-server", helm()))
	_, err := d.workloadIs(t.Context(), "metrics-server 1/2")
	require.NoError(t, err)
}

func TestRevisionsOf(t *testing.T) {
	first := record("metrics-130deed1", "2", "deployed")
	d := quietly(t)
	d.workload = fakeCluster(t, "workload", interceptor.Funcs{}, &first)
	said, err := d.revisionsOf(t.Context(), metricsApplication)
	require.NoError(t, err)
	require.Equal(t, "revision 2 of release kube-system/metrics-130deed1", said)
	d.workload = fakeCluster(t, "workload", interceptor.Funcs{})
	_, err = d.revisionsOf(t.Context(), metricsApplication)
	require.ErrorContains(t, err, "there is no release of metrics-server")
}

func TestText(t *testing.T) {
	require.JSONEq(t, `"10.1.0.0/16"`, string(text("10.1.0.0/16").Raw))
}
