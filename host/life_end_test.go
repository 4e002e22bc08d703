package host_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// suspended is a spec that is to be left alone.
func suspended(spec string) string { return spec + "suspend: true\n" }

// lifeSuspend: nothing is done for a Stack while it is suspended, whatever its spec says,
// and all of it afterwards.
func lifeSuspend(t *testing.T, r *rig) {
	l := r.life(t, "suspend")
	key, trace := l.start(t, "web", webStack)
	r.awaitStack(t, key, "True/Provisioned")
	before := l.deployment(t, "metrics-server")

	trace.mark(t, "it is suspended, and its version is raised")
	raised := changed(t, webStack, "3.13.0", "3.14.0")
	r.edit(t, key, l.fill(suspended(raised)))
	stack := r.awaitStack(t, key, "False/Suspended")
	require.Nil(t, stack.Status.Parked)
	require.False(t, meta.IsStatusConditionTrue(stack.Status.Conditions, v1alpha1.ConditionReconciling))
	// A Stack that is created now is seen through before the suspended one is looked at.
	other := r.stack(t, l.namespace, "other", hostileStack("nowhere", "ok"))
	r.awaitStack(t, other, "False/UserActionRequired")
	require.Equal(t, before.ResourceVersion, l.deployment(t, "metrics-server").ResourceVersion)
	require.Len(t, l.releases(t), 1)

	trace.mark(t, "it is resumed")
	r.edit(t, key, l.fill(raised))
	r.awaitStack(t, key, "True/Provisioned")
	require.Len(t, l.releases(t), 2)

	trace.mark(t, "it is deleted")
	l.end(t, key)
	trace.compare(t, "suspend")
}

// lifeDeletedAsleep: a suspended Stack can be deleted like any other.
func lifeDeletedAsleep(t *testing.T, r *rig) {
	l := r.life(t, "asleep")
	key, trace := l.start(t, "web", webStack)
	r.awaitStack(t, key, "True/Provisioned")
	trace.mark(t, "it is suspended")
	r.edit(t, key, l.fill(suspended(webStack)))
	r.awaitStack(t, key, "False/Suspended")
	trace.mark(t, "it is deleted")
	l.end(t, key)
	l.requireEmptyPlace(t)
	trace.compare(t, "deleted-asleep")
}

// lifeTeardown: the mode decides what a deletion waits for and what it leaves.
func lifeTeardown(t *testing.T, r *rig) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, mode := range []abi.Teardown{abi.Drain, abi.Discard, abi.Orphan} {
		all.Go(func() {
			t.Run(string(mode), func(t *testing.T) { l := r.life(t, "teardown"); l.teardown(t, mode) })
		})
	}
}

func (l *life) teardown(t *testing.T, mode abi.Teardown) {
	key, trace := l.start(t, "web", changed(t, webStack, "teardown: Drain", "teardown: "+string(mode)))
	l.awaitStack(t, key, "True/Provisioned")
	before := l.deployment(t, "metrics-server")
	trace.mark(t, "it is deleted")
	l.end(t, key)
	trace.compare(t, "teardown-"+strings.ToLower(string(mode)))

	switch mode {
	case abi.Orphan:
		after := l.deployment(t, "metrics-server")
		require.Equal(t, before.UID, after.UID, "the workload stays")
		require.Equal(t, before.ResourceVersion, after.ResourceVersion)
		require.Empty(t, l.releases(t), "Helm's records go")
		for _, o := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}} {
			require.NoError(t, l.workloadAdmin.DeleteAllOf(t.Context(), o, client.InNamespace(l.place)))
		}
	case abi.Discard:
		eventually(t, "the end of what goes anyway", func() (bool, string) {
			left := append(l.releases(t), l.deployed(t)...)
			return len(left) == 0, strings.Join(left, ", ")
		})
	default:
		l.requireEmptyPlace(t)
	}
}
