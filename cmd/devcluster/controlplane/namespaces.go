package controlplane

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/kubernetes/pkg/controller/namespace/deletion"

	"github.com/caisson-dev/caisson/cmd/devcluster/loop"
)

const (
	// remainingPoll is how soon a namespace whose content is still going away is looked at again.
	remainingPoll = 250 * time.Millisecond

	// namespaceWorkers is how many namespaces can be emptied at once.
	namespaceWorkers = 4
)

// newNamespaces returns the loop that empties and finalizes deleted namespaces. The work is done by Kubernetes' own deleter; its
// controller around that is not used, because it waits 5 seconds for other API servers before it begins, and half the pods'
// grace period between attempts. Here is no other API server, and the stand-in kubelet ends pods at once.
func newNamespaces(ctx context.Context, client kubernetes.Interface, objects metadata.Interface, factory informers.SharedInformerFactory) (*loop.Loop[*corev1.Namespace], error) {
	deleter := deletion.NewNamespacedResourcesDeleter(ctx, client.CoreV1().Namespaces(), objects, client.CoreV1(),
		client.Discovery().ServerPreferredNamespacedResources, corev1.FinalizerKubernetes)

	empty := func(ctx context.Context, namespace *corev1.Namespace) (time.Duration, error) {
		if namespace.DeletionTimestamp == nil {
			return 0, nil
		}

		err := deleter.Delete(ctx, namespace.Name)
		var remaining *deletion.ResourcesRemainingError
		if errors.As(err, &remaining) {
			return remainingPoll, nil
		}

		return 0, err
	}

	return loop.New("namespaces", factory.Core().V1().Namespaces().Informer(), empty)
}
