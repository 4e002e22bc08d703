package kubelet

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// step is what has to happen to a pod next. Its zero value means nothing.
type step struct {
	// remove asks to finish the pod's deletion.
	remove bool
	// bind asks to put the pod on the node.
	bind bool
	// status, if not nil, is the pod's next status.
	status *corev1.PodStatus
	// again is when to look once more, if no event comes first.
	again time.Duration
}

// syncPod takes a pod's next step.
func (k *Kubelet) syncPod(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	pods := k.client.CoreV1().Pods(pod.Namespace)
	next := nextStep(pod, k.now())

	switch {
	case next.remove:
		// The UID keeps a successor of the same name, as a StatefulSet makes, from being removed in the old pod's place.
		options := metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &pod.UID}}
		if err := pods.Delete(ctx, pod.Name, options); err != nil {
			return 0, fmt.Errorf("finish deletion of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	case next.bind:
		binding := &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: k.node},
		}
		if err := pods.Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
			return 0, fmt.Errorf("bind pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	case next.status != nil:
		changed := pod.DeepCopy()
		changed.Status = *next.status
		if _, err := pods.UpdateStatus(ctx, changed, metav1.UpdateOptions{}); err != nil {
			return 0, fmt.Errorf("write status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}

	return next.again, nil
}

// nextStep decides from a pod alone, without looking at or changing anything else.
func nextStep(pod *corev1.Pod, now time.Time) step {
	if pod.DeletionTimestamp != nil {
		// With a grace period of zero the kubelet's part is over: finalizers keep the pod, and they are someone else's.
		grace := pod.DeletionGracePeriodSeconds

		return step{remove: grace == nil || *grace > 0}
	}
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return step{}
	}

	want, err := parseWish(pod.Annotations)
	if pod.Spec.NodeName == "" {
		return unboundStep(pod, want, err, now)
	}
	if err != nil || want.state == StatePending {
		// A pod cannot leave its node: it stays as it is.
		return step{}
	}

	next := step{again: want.left(pod, now)}
	if status := podStatus(pod, containersAt(pod, want, now), now); !equality.Semantic.DeepEqual(status, pod.Status) {
		next.status = &status
	}

	return next
}

// unboundStep is the scheduler's part: bind, or say in the condition that real schedulers use why not.
func unboundStep(pod *corev1.Pod, want wish, invalid error, now time.Time) step {
	if len(pod.Spec.SchedulingGates) > 0 {
		return step{}
	}

	reason, message := corev1.PodReasonUnschedulable, "0/1 nodes are available: the pod is annotated "+StateAnnotation+": pending"
	switch {
	case invalid != nil:
		reason, message = "InvalidAnnotation", invalid.Error()
	case want.state != StatePending:
		return step{bind: true}
	}

	status := pod.Status.DeepCopy()
	setCondition(status, pod.Generation, now, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: message,
	})
	if equality.Semantic.DeepEqual(*status, pod.Status) {
		return step{}
	}

	return step{status: status}
}
