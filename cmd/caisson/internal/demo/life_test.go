package demo

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree/treetest"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// quietly returns a demo with a home and nobody who looks.
func quietly(t *testing.T, objects ...client.Object) *demo {
	t.Helper()
	return &demo{home: fakeCluster(t, "home", interceptor.Funcs{}, objects...), show: &show{out: io.Discard, start: time.Now()}}
}

// scene is the Stack at one moment of its life, as the API server has it.
func scene(t *testing.T, name string) *v1alpha1.Stack {
	t.Helper()
	for _, s := range treetest.Life() {
		if s.Name == name {
			return s.Stack.DeepCopy()
		}
	}
	require.Fail(t, "no such scene", name)
	return nil
}

func TestEventually(t *testing.T) {
	looks := 0
	_, err := eventually(t.Context(), "three looks", time.Minute, func(context.Context) (bool, string, error) {
		looks++
		return looks == 3, "", nil
	})
	require.NoError(t, err)
	require.Equal(t, 3, looks)

	_, err = eventually(t.Context(), "it rains", time.Millisecond, func(context.Context) (bool, string, error) { return false, "sunshine", nil })
	require.EqualError(t, err, "it rains was not seen within 1ms; last seen: sunshine")

	broken := errors.New("broken")
	_, err = eventually(t.Context(), "it rains", time.Minute, func(context.Context) (bool, string, error) { return true, "", broken })
	require.ErrorIs(t, err, broken, "who cannot look has not seen it")

	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	_, err = eventually(ctx, "it rains", time.Minute, func(context.Context) (bool, string, error) { return false, "", nil })
	require.ErrorIs(t, err, enough)
	require.ErrorIs(t, pause(ctx, time.Minute), enough)
	require.NoError(t, pause(t.Context(), time.Nanosecond))
}

func TestConditionOfTheCurrentSpec(t *testing.T) {
	available := scene(t, "available")
	available.Status.Conditions[0].ObservedGeneration = available.Generation
	stale := available.DeepCopy()
	stale.Generation++
	cases := map[string]struct {
		reason    string
		stack     *v1alpha1.Stack
		available bool
		says      string
	}{
		"Available": {reason: "of the spec that is there", stack: available, available: true, says: "Provisioned: Every node is as desired."},
		"Stale":     {reason: "what is said of an older spec is no answer", stack: stale, says: "nothing about the current spec yet"},
		"New":       {reason: "nobody has looked yet", stack: scene(t, "new"), says: "no condition yet"},
		"Parked":    {reason: "the condition is there, and false", stack: scene(t, "secret"), says: "UserActionRequired: all/platform/addons/storage: "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.available, isAvailable(tc.stack), tc.reason)
			require.Contains(t, condition(tc.stack), tc.says, tc.reason)
		})
	}
}

func TestNode(t *testing.T) {
	require.Equal(t, "secret_missing", node(scene(t, "secret"), "storage").Reason)
	require.Equal(t, v1alpha1.NodeWaiting, node(scene(t, "secret"), "nobody").Disposition, "a node without a status")
}

func TestWaiting(t *testing.T) {
	stack := scene(t, "secret")
	stack.Status.Parked = &v1alpha1.Parked{Generation: stack.Generation}
	d := quietly(t, stack)
	found, err := d.parked(t.Context(), platformKey())
	require.NoError(t, err)
	require.Equal(t, stack.Status.Parked.Generation, found.Status.Parked.Generation)
	found, err = d.nodeIs(t.Context(), platformKey(), "storage", "UserActionRequired", "secret_missing")
	require.NoError(t, err)
	require.Equal(t, stack.Name, found.Name)
	_, err = d.available(t.Context(), lifeKey("nobody"))
	require.ErrorContains(t, err, "read stack life/nobody: ")
	require.NoError(t, d.gone(t.Context(), lifeKey("nobody")))
}

func TestPatchLeavesTheRestAlone(t *testing.T) {
	d := quietly(t, scene(t, "available"))
	require.NoError(t, d.patch(t.Context(), platformKey(), func(s *v1alpha1.Stack) { s.Spec.Suspend = true }))
	found, err := d.stack(t.Context(), platformKey())
	require.NoError(t, err)
	require.True(t, found.Spec.Suspend)
	require.Len(t, found.Spec.Provisioners, len(treetest.Stack().Spec.Provisioners))
	require.ErrorContains(t, d.patch(t.Context(), lifeKey("nobody"), func(*v1alpha1.Stack) {}), "read stack life/nobody: ")
}

func TestRemove(t *testing.T) {
	d := quietly(t, treetest.Stack())
	took, err := d.remove(t.Context(), platformKey())
	require.NoError(t, err)
	require.Less(t, took, soon)
	_, err = d.remove(t.Context(), platformKey())
	require.ErrorContains(t, err, "delete stack platform/platform: ")
}

// The kubeconfig that is lent stands for itself, under a name that says for which cluster.
func TestLend(t *testing.T) {
	d, _ := lit(t)
	require.NoError(t, d.lend(t.Context(), d.workload, lifeNamespace))
	secret := &corev1.Secret{}
	require.NoError(t, d.home.client.Get(t.Context(), lifeKey("workload-kubeconfig"), secret))
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	require.NoError(t, err)
	require.Equal(t, d.workload.config.Host, config.Host)
}

func TestVersions(t *testing.T) {
	stack := scene(t, "available")
	stack.Status.Conditions[0].ObservedGeneration = stack.Generation
	d := quietly(t, stack)
	before, err := d.versions(t.Context(), platformKey())
	require.NoError(t, err)
	require.NoError(t, d.sameVersions(t.Context(), before))
	require.NoError(t, d.patch(t.Context(), platformKey(), func(s *v1alpha1.Stack) { metav1.SetMetaDataAnnotation(&s.ObjectMeta, "touched", "yes") }))
	require.ErrorContains(t, d.sameVersions(t.Context(), before), "platform/platform was written to")

	parked := quietly(t, scene(t, "secret"))
	_, err = parked.versions(t.Context(), platformKey())
	require.ErrorContains(t, err, "platform/platform is not available: ")
}
