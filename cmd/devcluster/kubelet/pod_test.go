package kubelet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// epoch is when the pods of these tests were created.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// pod returns a pod on its node, made at the epoch, with one container.
func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	made := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "11111111-2222", Generation: 1, CreationTimestamp: metav1.NewTime(epoch), Annotations: map[string]string{}},
		Spec:       corev1.PodSpec{NodeName: "node", RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "main", Image: "web:1"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodPending},
	}
	for _, apply := range change {
		apply(made)
	}

	return made
}

func state(value State) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Annotations[StateAnnotation] = string(value) }
}

func readyAfter(value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Annotations[ReadyAfterAnnotation] = value }
}

func once(pod *corev1.Pod)    { pod.Spec.RestartPolicy = corev1.RestartPolicyNever }
func unbound(pod *corev1.Pod) { pod.Spec.NodeName = "" }

func deleted(grace int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: epoch}, &grace
	}
}

func condition(status *corev1.PodStatus, kind corev1.PodConditionType) corev1.PodCondition {
	for _, found := range status.Conditions {
		if found.Type == kind {
			return found
		}
	}

	return corev1.PodCondition{}
}

// TestNextStep covers what is decided about a pod as a whole.
func TestNextStep(t *testing.T) {
	t.Parallel()

	cases := map[string]struct {
		reason string
		pod    *corev1.Pod
		want   step
	}{
		"NewPodIsBound":           {"a pod without a wish gets the node", pod(unbound), step{bind: true}},
		"SlowPodIsBound":          {"being slow happens on the node", pod(unbound, readyAfter("1h")), step{bind: true}},
		"GatedPodWaits":           {"whoever put the gate lifts it", pod(unbound, func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }), step{}},
		"DeletedPodIsRemoved":     {"deletion is finished at once", pod(deleted(30)), step{remove: true}},
		"DeletionWinsOverState":   {"a pending pod can be deleted too", pod(state(StatePending), unbound, deleted(30)), step{remove: true}},
		"FinalizedPodIsLeft":      {"after the force deletion only others' finalizers keep it", pod(deleted(0)), step{}},
		"SucceededPodStays":       {"an end is final", pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), step{}},
		"FailedPodStays":          {"whatever its annotation says now", pod(state(StateCrash), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), step{}},
		"BoundPodIgnoresPending":  {"a pod cannot leave its node", pod(state(StatePending)), step{}},
		"BoundPodIgnoresNonsense": {"nor is it changed by what cannot be read", pod(state("broken")), step{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			before := c.pod.DeepCopy()
			require.Equal(t, c.want, nextStep(c.pod, epoch), c.reason)
			require.Equal(t, before, c.pod, "the cache's object is not touched")
		})
	}
}

func TestUnschedulable(t *testing.T) {
	t.Parallel()

	cases := map[string]struct {
		reason  string
		pod     *corev1.Pod
		because string
		message string
	}{
		"Pending":         {"what a full cluster says", pod(unbound, state(StatePending)), "Unschedulable", "0/1 nodes are available"},
		"UnknownState":    {"a typo is shown, not guessed at", pod(unbound, state("crsh")), "InvalidAnnotation", `"crsh" is not one of`},
		"UnknownDuration": {"so is a number without unit", pod(unbound, readyAfter("5")), "InvalidAnnotation", `"5" is not a duration`},
		"Negative":        {"time does not run backwards", pod(unbound, readyAfter("-5s")), "InvalidAnnotation", `"-5s" is not a duration`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			next := nextStep(c.pod, epoch)
			require.False(t, next.bind, c.reason)
			require.NotNil(t, next.status, c.reason)
			scheduled := condition(next.status, corev1.PodScheduled)
			require.Equal(t, corev1.ConditionFalse, scheduled.Status, c.reason)
			require.Equal(t, c.because, scheduled.Reason, c.reason)
			require.Contains(t, scheduled.Message, c.message, c.reason)

			c.pod.Status = *next.status
			require.Equal(t, step{}, nextStep(c.pod, epoch.Add(time.Hour)), "written once")
		})
	}
}

// TestContainers covers what becomes of a pod on its node.
func TestContainers(t *testing.T) {
	t.Parallel()

	const running, crashing, pulling, completed, failed = "running", "CrashLoopBackOff", "ImagePullBackOff", "Completed", "Error"
	cases := map[string]struct {
		reason string
		pod    *corev1.Pod
		phase  corev1.PodPhase
		ready  bool
		state  string
		again  time.Duration
	}{
		"Plain":         {"a pod is ready at once", pod(), corev1.PodRunning, true, running, 0},
		"Slow":          {"it runs, but is not ready", pod(readyAfter("5s")), corev1.PodRunning, false, running, 3 * time.Second},
		"SlowIsOver":    {"two seconds have passed since it was made", pod(readyAfter("2s")), corev1.PodRunning, true, running, 0},
		"Crash":         {"it is on its node and never ready", pod(state(StateCrash)), corev1.PodRunning, false, crashing, 0},
		"ImagePull":     {"it has not begun to run", pod(state(StateImagePull)), corev1.PodPending, false, pulling, 0},
		"FailForever":   {"a pod that is restarted always does not fail", pod(state(StateFail)), corev1.PodRunning, false, crashing, 0},
		"Job":           {"a pod that runs once completes", pod(once), corev1.PodSucceeded, false, completed, 0},
		"SlowJob":       {"it runs until then", pod(once, readyAfter("5s")), corev1.PodRunning, false, running, 3 * time.Second},
		"FailedJob":     {"it fails", pod(once, state(StateFail)), corev1.PodFailed, false, failed, 0},
		"SlowFailedJob": {"it fails later", pod(once, state(StateFail), readyAfter("5s")), corev1.PodRunning, false, running, 3 * time.Second},
		"CrashingJob":   {"it is restarted", pod(once, state(StateCrash)), corev1.PodRunning, false, crashing, 0},
		"OnFailure":     {"another policy that ends", pod(func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }), corev1.PodSucceeded, false, completed, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			now := epoch.Add(2 * time.Second)
			before := c.pod.DeepCopy()
			next := nextStep(c.pod, now)
			require.Equal(t, before, c.pod, "the cache's object is not touched")
			require.Equal(t, c.again, next.again, c.reason)
			require.NotNil(t, next.status, c.reason)
			require.Equal(t, c.phase, next.status.Phase, c.reason)
			require.Len(t, next.status.ContainerStatuses, 1, c.reason)
			main := next.status.ContainerStatuses[0]
			require.Equal(t, c.ready, main.Ready, c.reason)
			require.Equal(t, c.state, describe(main.State), c.reason)
			require.Equal(t, c.ready, condition(next.status, corev1.PodReady).Status == corev1.ConditionTrue, c.reason)
			require.Equal(t, corev1.ConditionTrue, condition(next.status, corev1.PodScheduled).Status, c.reason)
			require.NotEmpty(t, next.status.PodIP, c.reason)
			require.NotEqual(t, next.status.PodIP, next.status.HostIP, c.reason)

			// What was written is not written again, whatever the time.
			c.pod.Status = *next.status
			settled := nextStep(c.pod, now.Add(time.Millisecond))
			require.Nil(t, settled.status, c.reason)
		})
	}
}

func describe(state corev1.ContainerState) string {
	switch {
	case state.Waiting != nil:
		return state.Waiting.Reason
	case state.Terminated != nil:
		return state.Terminated.Reason
	}

	return "running"
}

// TestTransitions follows one pod whose annotation changes while it runs.
func TestTransitions(t *testing.T) {
	t.Parallel()

	web := pod(readyAfter("5s"))
	advance := func(at time.Duration, wish State) *corev1.PodStatus {
		web.Annotations[StateAnnotation] = string(wish)
		web.Generation++
		next := nextStep(web, epoch.Add(at))
		require.NotNil(t, next.status)
		web.Status = *next.status

		return next.status
	}

	early := advance(time.Second, StateNone)
	require.Equal(t, corev1.ConditionFalse, condition(early, corev1.PodReady).Status)
	ready := advance(5*time.Second, StateNone)
	require.Equal(t, epoch.Add(5*time.Second), condition(ready, corev1.PodReady).LastTransitionTime.Time, "minReadySeconds counts from here")
	require.Equal(t, epoch.Add(time.Second), ready.ContainerStatuses[0].State.Running.StartedAt.Time, "the container ran before")
	require.Equal(t, epoch.Add(time.Second), ready.StartTime.Time)

	crashed := advance(10*time.Second, StateCrash)
	require.Equal(t, corev1.ConditionFalse, condition(crashed, corev1.PodReady).Status)
	require.Equal(t, int32(1), crashed.ContainerStatuses[0].RestartCount)
	require.NotNil(t, crashed.ContainerStatuses[0].LastTerminationState.Terminated)

	recovered := advance(20*time.Second, StateNone)
	require.Equal(t, epoch.Add(20*time.Second), condition(recovered, corev1.PodReady).LastTransitionTime.Time)
	require.Equal(t, int32(1), recovered.ContainerStatuses[0].RestartCount, "restarts are remembered")
	require.Equal(t, web.Generation, recovered.ObservedGeneration)
}

func TestInitContainers(t *testing.T) {
	t.Parallel()

	always := corev1.ContainerRestartPolicyAlways
	withInit := func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "setup"}, {Name: "sidecar", RestartPolicy: &always}}
	}

	running := nextStep(pod(withInit), epoch).status
	require.Equal(t, "Completed", describe(running.InitContainerStatuses[0].State))
	require.Equal(t, "running", describe(running.InitContainerStatuses[1].State))
	require.True(t, running.InitContainerStatuses[1].Ready)

	pulling := nextStep(pod(withInit, state(StateImagePull)), epoch).status
	require.Equal(t, "ImagePullBackOff", describe(pulling.InitContainerStatuses[0].State))
	require.Equal(t, corev1.ConditionFalse, condition(pulling, corev1.PodInitialized).Status)

	done := nextStep(pod(withInit, once), epoch).status
	require.Equal(t, "Completed", describe(done.InitContainerStatuses[1].State), "a sidecar ends with its pod")
}

func TestForeignConditionsStay(t *testing.T) {
	t.Parallel()

	gated := pod(func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: "example.com/gate", Status: corev1.ConditionTrue}}
	})
	require.Equal(t, corev1.ConditionTrue, condition(nextStep(gated, epoch).status, "example.com/gate").Status)
}

func TestHostNetwork(t *testing.T) {
	t.Parallel()

	status := nextStep(pod(func(p *corev1.Pod) { p.Spec.HostNetwork = true }), epoch).status
	require.Equal(t, status.HostIP, status.PodIP)
}
