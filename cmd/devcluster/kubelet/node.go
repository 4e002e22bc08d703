package kubelet

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// RegisterNode creates the Node, or takes over the one that an earlier run left, and makes it Ready and schedulable.
// An error comes from the API server and is worth another try.
func (k *Kubelet) RegisterNode(ctx context.Context) error {
	nodes := k.client.CoreV1().Nodes()

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: k.node,
		Labels: map[string]string{
			corev1.LabelHostname:   k.node,
			corev1.LabelOSStable:   "linux",
			corev1.LabelArchStable: "amd64",
		},
	}}
	if _, err := nodes.Create(ctx, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create node %s: %w", k.node, err)
	}

	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		current, err := nodes.Get(ctx, k.node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		current.Status = nodeStatus(metav1.NewTime(k.now()))
		current, err = nodes.UpdateStatus(ctx, current, metav1.UpdateOptions{})
		if err != nil {
			return err
		}

		// Admission (TaintNodesByCondition) taints every new node as not ready. The controller that would lift the taint is
		// not part of devcluster.
		current.Spec.Taints = nil
		_, err = nodes.Update(ctx, current, metav1.UpdateOptions{})

		return err
	})
	if err != nil {
		return fmt.Errorf("make node %s ready: %w", k.node, err)
	}

	return nil
}

// nodeStatus is that of a healthy node with more room than any test needs.
func nodeStatus(now metav1.Time) corev1.NodeStatus {
	room := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("64"),
		corev1.ResourceMemory:           resource.MustParse("256Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
		corev1.ResourcePods:             resource.MustParse("1000"),
	}

	return corev1.NodeStatus{
		Capacity:    room,
		Allocatable: room,
		Conditions: []corev1.NodeCondition{{
			Type:               corev1.NodeReady,
			Status:             corev1.ConditionTrue,
			Reason:             "DevclusterReady",
			Message:            "devcluster's stand-in for a kubelet is ready",
			LastHeartbeatTime:  now,
			LastTransitionTime: now,
		}},
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeAddress}},
	}
}
