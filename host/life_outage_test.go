package host_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/internal/testenv"
	"github.com/caisson-dev/caisson/host/registry/registrytest"
)

// lifeRegistryDown: what runs, runs on without a registry: modules are called, and a chart
// that is there is used again.
func lifeRegistryDown(t *testing.T, r *rig) {
	l := r.life(t, "registry")
	shelf := registrytest.New(t)
	r.lifeCharts(t, shelf)
	r.lifeCatalogue(t, "shelf", shelf)
	pushPulse(t, shelf, "life/pulse:1", "2.1.0", false)
	r.pulseModule(t, "life-shelf", shelf.Ref("life/pulse:1"))
	spec := changed(t, webStack, "life-web", "shelf-web") + `
  - {name: pulse, module: {ref: life-shelf, config: {turn: 1}}}
  - {name: both, serial: {children: [pulse, web]}}
`
	spec = changed(t, spec, "child: web", "child: both")
	key, trace := l.start(t, "web", spec)
	r.awaitStack(t, key, "True/Provisioned")
	calls := sum(t, r.collectors, "caisson_module_calls_total", "module", "life-shelf")

	trace.mark(t, "the registry goes down")
	shelf.Down()
	require.Contains(t, r.awaitModule(t, "life-shelf", "True/"+v1alpha1.ModuleReasonRegistryUnavailable), "stays in use")
	r.awaitQuietModule(t, "life-shelf")
	trace.mark(t, "the spec is changed")
	spec = changed(t, spec, "turn: 1", "turn: 2")
	spec = changed(t, spec, "namespace: PLACE}", "namespace: PLACE, values: {replicas: 2}}")
	r.edit(t, key, l.fill(spec))
	r.awaitStack(t, key, "True/Provisioned")
	require.Equal(t, calls+1, sum(t, r.collectors, "caisson_module_calls_total", "module", "life-shelf"))
	require.EqualValues(t, 2, l.deployment(t, "metrics-server").Status.ReadyReplicas)

	trace.mark(t, "a version is asked for that was never fetched")
	r.edit(t, key, l.fill(changed(t, spec, "3.13.0", "3.14.0")))
	r.awaitNode(t, key, "web", abi.Yield.String(), abi.ReasonChartUnavailable)
	trace.mark(t, "the registry is back")
	shelf.Up()
	r.awaitStack(t, key, "True/Provisioned")
	require.Len(t, l.releases(t), 3)
	trace.mark(t, "it is deleted")
	l.end(t, key)
	trace.compare(t, "registry-down")
}

// awaitQuietModule waits until polls find the same and write nothing: whatever is written
// to a Module wakes every Stack that uses it.
func (r *rig) awaitQuietModule(t *testing.T, name string) {
	t.Helper()
	const polls = 3
	polled := func() int { return r.log.count(`"Module"={"name"="` + name + `"}`) }
	last, since := "", 0
	eventually(t, "polls of Module "+name+" that write nothing", func() (bool, string) {
		object := &v1alpha1.Module{}
		require.NoError(t, r.admin.Get(t.Context(), client.ObjectKey{Name: name}, object))
		if object.ResourceVersion != last {
			last, since = object.ResourceVersion, polled()
		}
		return polled() >= since+polls, fmt.Sprint(object.Status.Conditions)
	})
}

// lifeDrift: what somebody deletes is made again, and the status tells the truth until then.
func lifeDrift(t *testing.T, r *rig) {
	l := r.life(t, "drift")
	key, trace := l.start(t, "web", webStack)
	r.awaitStack(t, key, "True/Provisioned")
	before := l.deployment(t, "metrics-server")

	trace.mark(t, "somebody deletes the Deployment")
	require.NoError(t, r.workloadAdmin.Delete(t.Context(), before.DeepCopy()))
	eventually(t, "the repair", func() (bool, string) {
		d := &appsv1.Deployment{}
		err := r.workloadAdmin.Get(t.Context(), client.ObjectKeyFromObject(before), d)
		return err == nil && d.UID != before.UID && d.Status.ReadyReplicas == 1, fmt.Sprint(err)
	})
	r.awaitStack(t, key, "True/Provisioned")
	trace.mark(t, "it is deleted")
	l.end(t, key)
	l.requireEmptyPlace(t)
	trace.compare(t, "drift")
}

// lifeOutages: a workload cluster that hangs for a while is waited for, and one that is
// gone for good is given up, by a human's word or after its grace.
func lifeOutages(t *testing.T, r *rig) {
	lost, err := testenv.StartMain()
	require.NoError(t, err)
	t.Cleanup(lost.Stop)
	admin, err := client.NewWithWatch(lost.Config, client.Options{Scheme: r.admin.Scheme()})
	require.NoError(t, err)
	// The same rig, with the other cluster as the workload.
	there := *r
	there.workload, there.workloadAdmin = lost, admin
	l, m := there.life(t, "outage"), there.life(t, "silence")

	paused, hangs := l.start(t, "hangs", webStack)
	r.awaitStack(t, paused, "True/Provisioned")
	first := l.deployment(t, "metrics-server")

	hangs.mark(t, "the API server of the workload cluster hangs, and the spec is changed")
	require.NoError(t, lost.Pause())
	r.edit(t, paused, l.fill(changed(t, webStack, "namespace: PLACE}", "namespace: PLACE, values: {replicas: 2}}")))
	r.awaitNode(t, paused, "all", abi.Yield.String(), abi.ReasonRemoteUnreachable)
	require.Nil(t, r.get(t, paused).Status.Parked)
	hangs.mark(t, "it goes on")
	require.NoError(t, lost.Resume())
	r.awaitStack(t, paused, "True/Provisioned")
	second := l.deployment(t, "metrics-server")
	require.Equal(t, first.UID, second.UID)
	require.EqualValues(t, 2, second.Status.ReadyReplicas)
	require.Contains(t, l.releases(t), second.Annotations["meta.helm.sh/release-name"]+" 2 deployed")
	hangs.mark(t, "it is deleted")
	l.end(t, paused)
	hangs.compare(t, "workload-hangs")

	// These come after the pause, which would show in their lives now and then.
	declared, word := l.start(t, "declared", lostStack(t, "0s"))
	silent, grace := m.start(t, "silent", lostStack(t, "3s"))
	r.awaitStack(t, declared, "True/Provisioned")
	r.awaitStack(t, silent, "True/Provisioned")
	word.mark(t, "the cluster is gone for good, and the Stack is deleted")
	grace.mark(t, "the cluster is gone for good, and the Stack is deleted")
	lost.Kill()
	one, two := r.get(t, declared), r.get(t, silent)
	require.NoError(t, r.admin.Delete(t.Context(), one.DeepCopy()))
	require.NoError(t, r.admin.Delete(t.Context(), two.DeepCopy()))
	r.awaitGone(t, silent)
	r.requireGivenUp(t, silent, "did not answer for longer than its unreachableGrace of 3s")

	r.awaitNode(t, declared, "all", abi.Yield.String(), abi.ReasonRemoteUnreachable)
	stack := r.get(t, declared)
	require.Contains(t, meta.FindStatusCondition(stack.Status.Conditions, v1alpha1.ConditionAvailable).Message, v1alpha1.GoneAnnotation, "it says what a human can do")
	word.mark(t, "somebody says so")
	patch := client.MergeFrom(stack.DeepCopy())
	stack.Annotations = map[string]string{v1alpha1.GoneAnnotation: "workload"}
	require.NoError(t, r.admin.Patch(t.Context(), stack, patch))
	r.awaitGone(t, declared)
	r.requireGivenUp(t, declared, "was declared gone")
	r.requireNothingKept(t, string(one.UID))
	r.requireNothingKept(t, string(two.UID))
	word.compare(t, "gone-declared")
	grace.compare(t, "gone-silent")
}

// lostStack is one application on a remote that is given up after a grace.
func lostStack(t *testing.T, grace string) string {
	t.Helper()
	spec := changed(t, webStack, "teardown: Drain", "teardown: Drain, unreachableGrace: "+grace)
	return changed(t, spec, "ref: life-web, version: 3.13.0", "ref: life-gpu")
}

// requireGivenUp finds the event that says what was given up, and why.
func (r *rig) requireGivenUp(t *testing.T, key client.ObjectKey, because string) {
	t.Helper()
	eventually(t, "the event", func() (bool, string) {
		events := &eventsv1.EventList{}
		require.NoError(t, r.admin.List(t.Context(), events, client.InNamespace(key.Namespace)))
		var notes []string
		for _, e := range events.Items {
			if e.Regarding.Name != key.Name {
				continue
			}
			notes = append(notes, e.Type+" "+e.Reason+": "+e.Note)
			if e.Type == "Warning" && e.Reason == v1alpha1.ReasonDeprovisioned && strings.Contains(e.Note, "remote workload, which "+because) && strings.Contains(e.Note, "release life-") {
				return true, ""
			}
		}
		return false, strings.Join(notes, "\n")
	})
}
