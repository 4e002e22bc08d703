package host_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// conditionalStack has a part that can be switched off.
const conditionalStack = `
serviceAccountName: builder
parameters: {gpu: true}
remotes:
  - {name: workload, owned: true, teardown: Drain, kubeconfigSecret: {name: workload-kubeconfig}}
root: all
provisioners:
  - {name: all, remotecluster: {remote: workload, child: platform}}
  - {name: platform, serial: {children: [web, gpu]}}
  - {name: web, application: {ref: life-web, version: 3.13.0, namespace: PLACE}}
  - {name: gpu, conditional: {when: parameters.gpu, child: gpu-operator}}
  - {name: gpu-operator, application: {ref: life-gpu, namespace: PLACE}}
`

// lifeConditional: a part is switched off and on again, and the rest is not touched.
func lifeConditional(t *testing.T, r *rig) {
	l := r.life(t, "conditional")
	key, trace := l.start(t, "web", conditionalStack)
	r.awaitStack(t, key, "True/Provisioned")
	web, gpu := l.deployment(t, "metrics-server"), l.deployment(t, "gpu-operator")

	trace.mark(t, "gpu is switched off")
	r.edit(t, key, l.fill(changed(t, conditionalStack, "gpu: true", "gpu: false")))
	stack := r.awaitStack(t, key, "True/Provisioned")
	require.Equal(t, "1/1", stack.Status.Summary)
	err := r.workloadAdmin.Get(t.Context(), client.ObjectKeyFromObject(gpu), &appsv1.Deployment{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	require.Equal(t, []string{"metrics-server"}, l.deployed(t))

	trace.mark(t, "gpu is switched on")
	r.edit(t, key, l.fill(conditionalStack))
	stack = r.awaitStack(t, key, "True/Provisioned")
	require.Equal(t, "2/2", stack.Status.Summary)
	require.NotEqual(t, gpu.UID, l.deployment(t, "gpu-operator").UID)
	same := l.deployment(t, "metrics-server")
	require.Equal(t, web.UID, same.UID)
	require.Equal(t, web.ResourceVersion, same.ResourceVersion, "the rest is untouched")

	trace.mark(t, "it is deleted")
	l.end(t, key)
	l.requireEmptyPlace(t)
	trace.compare(t, "conditional")
}

// lifeUpgrade: another version is an upgrade in place; one that cannot be had parks, and
// says where and why; correcting the spec revives.
func lifeUpgrade(t *testing.T, r *rig) {
	l := r.life(t, "upgrade")
	key, trace := l.start(t, "web", webStack)
	r.awaitStack(t, key, "True/Provisioned")
	first := l.deployment(t, "metrics-server")
	require.Len(t, l.releases(t), 1)

	trace.mark(t, "the version is raised")
	r.edit(t, key, l.fill(changed(t, webStack, "3.13.0", "3.14.0")))
	r.awaitStack(t, key, "True/Provisioned")
	require.Equal(t, first.UID, l.deployment(t, "metrics-server").UID, "in place")
	require.Len(t, l.releases(t), 2)
	require.Regexp(t, ` 1 superseded$`, l.releases(t)[0])
	require.Regexp(t, ` 2 deployed$`, l.releases(t)[1])

	trace.mark(t, "a version is asked for that is not in the catalogue")
	r.edit(t, key, l.fill(changed(t, webStack, "3.13.0", "9.9.9")))
	l.requireParked(t, key, abi.ReasonVersionNotFound)

	trace.mark(t, "a version is asked for that nobody has published")
	r.edit(t, key, l.fill(changed(t, webStack, "3.13.0", "4.0.0")))
	l.requireParked(t, key, abi.ReasonChartNotFound)
	require.Equal(t, first.UID, l.deployment(t, "metrics-server").UID, "what runs goes on")

	trace.mark(t, "the spec is corrected")
	r.edit(t, key, l.fill(changed(t, webStack, "3.13.0", "3.14.0")))
	require.Nil(t, r.awaitStack(t, key, "True/Provisioned").Status.Parked)
	require.Len(t, l.releases(t), 2, "and nothing was done for nothing")

	trace.mark(t, "it is deleted")
	l.end(t, key)
	l.requireEmptyPlace(t)
	trace.compare(t, "upgrade")
}

// requireParked checks that a Stack waits for somebody, and tells what for.
func (l *life) requireParked(t *testing.T, key client.ObjectKey, reason string) {
	t.Helper()
	l.awaitNode(t, key, "web", abi.Terminal.String(), reason)
	stack := l.get(t, key)
	require.NotNil(t, stack.Status.Parked)
	require.Equal(t, "all/web", stack.Status.Parked.Path)
	sentence, known := abi.HostSentence(reason)
	require.True(t, known)
	c := meta.FindStatusCondition(stack.Status.Conditions, v1alpha1.ConditionAvailable)
	require.Equal(t, v1alpha1.ReasonTerminal, c.Reason)
	require.Equal(t, "all/web: "+sentence+" ("+reason+")", c.Message)
	require.True(t, meta.IsStatusConditionTrue(stack.Status.Conditions, v1alpha1.ConditionStalled))
}

// deployed lists the Deployments of the place.
func (l *life) deployed(t *testing.T) []string {
	t.Helper()
	list := &appsv1.DeploymentList{}
	require.NoError(t, l.workloadAdmin.List(t.Context(), list, client.InNamespace(l.place)))
	found := make([]string, 0, len(list.Items))
	for _, d := range list.Items {
		found = append(found, d.Name)
	}
	return found
}
