package kubelet

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	// protectionFinalizer is put on every claim by admission (StorageObjectInUseProtection). The controller that removes it is
	// not part of devcluster, so without this package no claim would ever go away.
	protectionFinalizer = "kubernetes.io/pvc-protection"

	// claimPoll is how soon to look again whether the last pod that uses a deleted claim is gone. The pod's end is no event of
	// the claim's.
	claimPoll = 200 * time.Millisecond
)

// syncClaim binds a claim, or releases a deleted one once no pod uses it.
func (k *Kubelet) syncClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) (time.Duration, error) {
	if claim.DeletionTimestamp != nil {
		return k.releaseClaim(ctx, claim)
	}
	if claim.Status.Phase == corev1.ClaimBound || State(claim.Annotations[StateAnnotation]) == StatePending {
		return 0, nil
	}

	changed := claim.DeepCopy()
	changed.Status.Phase = corev1.ClaimBound
	changed.Status.AccessModes = claim.Spec.AccessModes
	changed.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]}
	claims := k.client.CoreV1().PersistentVolumeClaims(claim.Namespace)
	if _, err := claims.UpdateStatus(ctx, changed, metav1.UpdateOptions{}); err != nil {
		return 0, fmt.Errorf("bind claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}

	return 0, nil
}

func (k *Kubelet) releaseClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) (time.Duration, error) {
	at := slices.Index(claim.Finalizers, protectionFinalizer)
	if at < 0 {
		return 0, nil
	}
	pods, err := k.pods.Pods(claim.Namespace).List(labels.Everything())
	if err != nil {
		return 0, fmt.Errorf("list users of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	if slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return uses(pod, claim.Name) }) {
		return claimPoll, nil
	}

	changed := claim.DeepCopy()
	changed.Finalizers = slices.Delete(changed.Finalizers, at, at+1)
	claims := k.client.CoreV1().PersistentVolumeClaims(claim.Namespace)
	if _, err := claims.Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
		return 0, fmt.Errorf("release claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}

	return 0, nil
}

// uses says whether a pod that has not ended mounts the claim. Ephemeral volumes are claims named after pod and volume.
func uses(pod *corev1.Pod, claim string) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return false
	}

	return slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool {
		source := volume.PersistentVolumeClaim

		return source != nil && source.ClaimName == claim || volume.Ephemeral != nil && pod.Name+"-"+volume.Name == claim
	})
}
