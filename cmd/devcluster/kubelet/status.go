package kubelet

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podStatus is the status of a bound pod whose containers are as given. Conditions that others set (readiness gates) stay.
func podStatus(pod *corev1.Pod, is containers, now time.Time) corev1.PodStatus {
	status := *pod.Status.DeepCopy()
	status.Phase = is.phase
	status.ObservedGeneration = pod.Generation

	if status.StartTime == nil {
		status.StartTime = &metav1.Time{Time: now}
	}
	podIP := address(podNetwork, pod.UID)
	if pod.Spec.HostNetwork {
		podIP = nodeAddress
	}
	status.HostIP, status.HostIPs = nodeAddress, []corev1.HostIP{{IP: nodeAddress}}
	status.PodIP, status.PodIPs = podIP, []corev1.PodIP{{IP: podIP}}

	status.InitContainerStatuses = initStatuses(pod, is, now)
	status.ContainerStatuses = containerStatuses(pod, pod.Spec.Containers, pod.Status.ContainerStatuses, is, now)

	initialized := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	if is.phase == corev1.PodPending && len(pod.Spec.InitContainers) > 0 {
		initialized.Status, initialized.Reason = corev1.ConditionFalse, "ContainersNotInitialized"
	}
	setCondition(&status, pod.Generation, now, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
	setCondition(&status, pod.Generation, now, initialized)
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		setCondition(&status, pod.Generation, now, readiness(kind, is))
	}

	return status
}

// initStatuses describes the init containers: those of a pod without its image wait like the rest, those of any other pod are
// done, except sidecars, which run beside the main containers.
func initStatuses(pod *corev1.Pod, is containers, now time.Time) []corev1.ContainerStatus {
	var statuses []corev1.ContainerStatus
	for i, spec := range pod.Spec.InitContainers {
		became := containers{phase: is.phase, ready: true, state: terminated(0, "Completed", now)}
		switch {
		case is.phase == corev1.PodPending:
			became = is
		case spec.RestartPolicy != nil && *spec.RestartPolicy == corev1.ContainerRestartPolicyAlways && is.state.Terminated == nil:
			became.state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now)}}
		}
		one := pod.Spec.InitContainers[i : i+1]
		statuses = append(statuses, containerStatuses(pod, one, pod.Status.InitContainerStatuses, became, now)...)
	}

	return statuses
}

func readiness(kind corev1.PodConditionType, is containers) corev1.PodCondition {
	if is.ready {
		return corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue}
	}
	reason := "ContainersNotReady"
	if is.phase == corev1.PodSucceeded {
		reason = "PodCompleted"
	}

	return corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason}
}

// setCondition sets one condition. lastTransitionTime moves only when the condition's status does: minReadySeconds counts from
// there.
func setCondition(status *corev1.PodStatus, generation int64, now time.Time, condition corev1.PodCondition) {
	condition.ObservedGeneration = generation
	condition.LastTransitionTime = metav1.NewTime(now)

	for i := range status.Conditions {
		if status.Conditions[i].Type != condition.Type {
			continue
		}
		if status.Conditions[i].Status == condition.Status {
			condition.LastTransitionTime = status.Conditions[i].LastTransitionTime
		}
		status.Conditions[i] = condition

		return
	}
	status.Conditions = append(status.Conditions, condition)
}
