package kubelet

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// syncService gives a Service of type LoadBalancer its address, or takes it away while the Service is annotated as pending.
func (k *Kubelet) syncService(ctx context.Context, service *corev1.Service) (time.Duration, error) {
	// A class names another implementation, as with real cloud providers.
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer || service.Spec.LoadBalancerClass != nil || service.DeletionTimestamp != nil {
		return 0, nil
	}

	want := balancerStatus(service)
	if equality.Semantic.DeepEqual(want, service.Status.LoadBalancer) {
		return 0, nil
	}

	changed := service.DeepCopy()
	changed.Status.LoadBalancer = want
	if _, err := k.client.CoreV1().Services(service.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{}); err != nil {
		return 0, fmt.Errorf("write address of Service %s/%s: %w", service.Namespace, service.Name, err)
	}

	return 0, nil
}

func balancerStatus(service *corev1.Service) corev1.LoadBalancerStatus {
	if State(service.Annotations[StateAnnotation]) == StatePending {
		return corev1.LoadBalancerStatus{}
	}

	mode := corev1.LoadBalancerIPModeVIP // what the API server sets itself, so that the comparison holds

	return corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{
		IP:     address(balancerNetwork, service.UID),
		IPMode: &mode,
	}}}
}
