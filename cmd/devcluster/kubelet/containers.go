package kubelet

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// containers is what became of a pod's containers: all main ones are alike.
type containers struct {
	phase corev1.PodPhase
	ready bool
	state corev1.ContainerState
	// crashed says that the containers ended with an error before the present state.
	crashed bool
}

// containersAt says what became of the containers of a pod on its node.
func containersAt(pod *corev1.Pod, want wish, now time.Time) containers {
	early := want.left(pod, now) > 0
	runsOnce := pod.Spec.RestartPolicy != corev1.RestartPolicyAlways
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now)}}

	switch {
	case want.state == StateImagePull:
		return containers{phase: corev1.PodPending, state: waiting("ImagePullBackOff", "Back-off pulling image: there is no such image")}
	case want.state == StateFail && runsOnce && !early:
		return containers{phase: corev1.PodFailed, state: terminated(1, "Error", now)}
	case want.state == StateCrash || want.state == StateFail && !runsOnce:
		return containers{
			phase:   corev1.PodRunning,
			state:   waiting("CrashLoopBackOff", "back-off restarting failed container"),
			crashed: true,
		}
	case early:
		return containers{phase: corev1.PodRunning, state: running}
	case runsOnce:
		return containers{phase: corev1.PodSucceeded, state: terminated(0, "Completed", now)}
	}

	return containers{phase: corev1.PodRunning, ready: true, state: running}
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func terminated(code int32, reason string, now time.Time) corev1.ContainerState {
	at := metav1.NewTime(now)

	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, StartedAt: at, FinishedAt: at}}
}

// containerStatuses describes the containers of the given specs. States that hold already keep their times.
func containerStatuses(pod *corev1.Pod, specs []corev1.Container, old []corev1.ContainerStatus, is containers, now time.Time) []corev1.ContainerStatus {
	statuses := make([]corev1.ContainerStatus, 0, len(specs))
	for i := range specs {
		started := is.state.Running != nil
		status := corev1.ContainerStatus{
			Name:    specs[i].Name,
			Image:   specs[i].Image,
			Ready:   is.ready,
			Started: &started,
			State:   is.state,
		}
		if is.phase != corev1.PodPending {
			status.ImageID = "devcluster://" + specs[i].Image
			status.ContainerID = fmt.Sprintf("devcluster://%s/%s", pod.UID, specs[i].Name)
		}
		if is.crashed {
			status.RestartCount, status.LastTerminationState = 1, terminated(1, "Error", now)
		}
		for j := range old {
			if old[j].Name == status.Name {
				keepTimes(&status, &old[j])
			}
		}
		statuses = append(statuses, status)
	}

	return statuses
}

// keepTimes carries over what has not changed since the last status, so that an unchanged pod compares equal.
func keepTimes(status, old *corev1.ContainerStatus) {
	if sameState(status.State, old.State) {
		status.State = old.State
	}
	if old.RestartCount > 0 {
		status.RestartCount, status.LastTerminationState = old.RestartCount, old.LastTerminationState
	}
}

// sameState compares states without their times.
func sameState(a, b corev1.ContainerState) bool {
	switch {
	case a.Running != nil && b.Running != nil:
		return true
	case a.Waiting != nil && b.Waiting != nil:
		return a.Waiting.Reason == b.Waiting.Reason
	case a.Terminated != nil && b.Terminated != nil:
		return a.Terminated.ExitCode == b.Terminated.ExitCode
	}

	return false
}
