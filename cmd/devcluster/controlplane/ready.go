package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// readyPoll is how often a start looks whether its next step can be taken.
const readyPoll = 50 * time.Millisecond

// errNotYet is the reason of a check that failed without an error of its own.
var errNotYet = errors.New("not yet")

// check is something that has to be true before a cluster is ready.
type check struct {
	// what completes the sentence "waiting for …".
	what string
	// try returns nil once it is true.
	try func(ctx context.Context) error
}

// await tries a check until it succeeds, the context ends, or the server fails.
func await(ctx context.Context, failed <-chan error, wanted check) error {
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()

	for {
		err := wanted.try(ctx)
		if err == nil {
			return nil
		}
		select {
		case fatal := <-failed:
			return fatal
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w (last: %w)", wanted.what, context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}

// serving is true once the API server says that it is ready, which includes the bootstrap of RBAC.
func serving(client kubernetes.Interface) check {
	return check{what: "the API server to be ready", try: func(ctx context.Context) error {
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}}
}

// usable returns what must be true after the controllers were started.
func usable(client kubernetes.Interface, node string, collectorSynced func() bool) []check {
	return []check{
		{what: "the default ServiceAccount", try: func(ctx context.Context) error {
			// Admission refuses pods in a namespace that lacks it.
			_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})

			return err
		}},
		{what: "node " + node, try: func(ctx context.Context) error {
			found, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, condition := range found.Status.Conditions {
				if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue && len(found.Spec.Taints) == 0 {
					return nil
				}
			}

			return errNotYet
		}},
		{what: "aggregated ClusterRoles", try: func(ctx context.Context) error {
			role, err := client.RbacV1().ClusterRoles().Get(ctx, "admin", metav1.GetOptions{})
			if err == nil && len(role.Rules) == 0 {
				return errNotYet
			}

			return err
		}},
		{what: "the garbage collector", try: func(context.Context) error {
			if !collectorSynced() {
				return errNotYet
			}

			return nil
		}},
	}
}
