package demo

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestLeader(t *testing.T) {
	holder := "host_1"
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: leaseName}}
	leader, err := quietly(t, lease.DeepCopy()).leader(t.Context())
	require.NoError(t, err)
	require.Empty(t, leader, "nobody")
	lease.Spec.HolderIdentity = &holder
	leader, err = quietly(t, lease).leader(t.Context())
	require.NoError(t, err)
	require.Equal(t, holder, leader)
	_, err = quietly(t).leader(t.Context())
	require.ErrorContains(t, err, "read the lease: ")
}

// A cluster that was given is not the demo's to stop.
func TestPauseWorkloadOfSomebody(t *testing.T) {
	d, out := staged(t)
	require.NoError(t, d.pauseWorkload(t.Context()))
	require.Contains(t, out.String(), "left out: the workload cluster was given")
}

func TestHold(t *testing.T) {
	d := quietly(t)
	d.workload = fakeCluster(t, "workload", interceptor.Funcs{}, deployment("x", nil))
	key := client.ObjectKey{Namespace: "kube-system", Name: "x"}
	require.NoError(t, d.hold(t.Context(), key, holdFinalizer))
	held := deployment("x", nil)
	require.NoError(t, d.workload.client.Get(t.Context(), key, held))
	require.Equal(t, []string{holdFinalizer}, held.Finalizers)
	require.NoError(t, d.hold(t.Context(), key))
	require.NoError(t, d.workload.client.Delete(t.Context(), deployment("x", nil)))
	require.NoError(t, d.absent(t.Context(), key))
	require.ErrorContains(t, d.hold(t.Context(), key), "read the Deployment: ")
}

func TestFarewell(t *testing.T) {
	said := func(name, stack, note string) *eventsv1.Event {
		return &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: lifeNamespace, Name: name},
			Regarding:  corev1.ObjectReference{Kind: "Stack", Name: stack}, Reason: "Deprovisioned", Note: note,
		}
	}
	d, out := staged(t)
	d.home = fakeCluster(t, "home", interceptor.Funcs{},
		said("a", "other", "remote lost is gone"), said("b", "silent", "Given up: remote lost, which was declared gone."))
	require.NoError(t, d.farewell(t.Context(), "silent"))
	require.Contains(t, out.String(), "silent is gone, and the last that was said of it: Deprovisioned: Given up: remote lost")
}

func TestLife(t *testing.T) {
	d, _ := lit(t)
	require.NoError(t, d.life(t.Context(), "neighbour.yaml", "pulse.yaml", "teardown.yaml", "lost.yaml"))
	for _, name := range []string{"neighbour", "canary", "pinned", "discard", "orphan", "declared", "silent"} {
		_, err := d.stack(t.Context(), lifeKey(name))
		require.NoError(t, err, name)
	}
	require.ErrorIs(t, d.life(t.Context(), "none.yaml"), os.ErrNotExist)
}
