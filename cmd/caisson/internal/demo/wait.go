package demo

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// established waits until the API server serves the kinds of the CRDs.
func (c *cluster) established(ctx context.Context) error {
	lists := []client.ObjectList{&v1alpha1.StackList{}, &v1alpha1.ModuleList{}, &v1alpha1.ApplicationList{}}
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		for _, l := range lists {
			err := c.client.List(ctx, l)
			if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
				return false, nil
			}
			if err != nil {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the CRDs to be served: %w", err)
	}
	return nil
}

// replace creates a Secret, or puts its data in the place of what is there.
func (c *cluster) replace(ctx context.Context, secret *corev1.Secret) error {
	err := c.client.Create(ctx, secret.DeepCopy())
	if !apierrors.IsAlreadyExists(err) {
		return wrapSecret(err, secret)
	}
	existing := &corev1.Secret{}
	if err := c.client.Get(ctx, client.ObjectKeyFromObject(secret), existing); err != nil {
		return wrapSecret(err, secret)
	}
	existing.Data = secret.Data
	return wrapSecret(c.client.Update(ctx, existing), secret)
}

func wrapSecret(err error, secret *corev1.Secret) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("write secret %s: %w", secret.Name, err)
}
