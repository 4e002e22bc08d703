package testenv

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// accountDeadline is how long a namespace may take to get its default ServiceAccount, without which pods are refused.
	accountDeadline = 60 * time.Second
	accountPoll     = 50 * time.Millisecond

	// deleteDeadline bounds the clean-up on a cluster that no longer answers.
	deleteDeadline = 5 * time.Second
)

// Namespace creates a namespace for a test, with a name that begins with the prefix and is not used otherwise, waits until pods
// can be created in it, and returns the name. The namespace is deleted with the test, without waiting for it to be gone.
func Namespace(t testing.TB, on client.Client, prefix string) string {
	t.Helper()

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "-"}}
	if err := on.Create(t.Context(), namespace); err != nil {
		t.Fatalf("create namespace %s-…: %v", prefix, err)
	}
	t.Cleanup(func() {
		// The test's own context has ended by now. A cluster that the test stopped has nothing left to delete.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), deleteDeadline)
		defer cancel()
		_ = on.Delete(ctx, namespace)
	})

	key := client.ObjectKey{Namespace: namespace.Name, Name: "default"}
	err := wait.PollUntilContextTimeout(t.Context(), accountPoll, accountDeadline, true, func(ctx context.Context) (bool, error) {
		return on.Get(ctx, key, &corev1.ServiceAccount{}) == nil, nil
	})
	if err != nil {
		t.Fatalf("wait for the default ServiceAccount of namespace %s: %v", namespace.Name, err)
	}

	return namespace.Name
}
