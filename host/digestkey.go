package host

import (
	"context"
	"crypto/rand"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// digestKeyName is the Secret that holds the key of secret digests.
const digestKeyName = "caisson-digest-key"

// digestKey reads the key of secret digests, or makes it. It lives as long as the
// installation, so that an unchanged secret keeps its digest over restarts.
func digestKey(ctx context.Context, own client.Client, namespace string) ([]byte, error) {
	const entry, size = "key", 32
	name := client.ObjectKey{Namespace: namespace, Name: digestKeyName}
	existing := &corev1.Secret{}
	// Read first: an operator that is restarted writes nothing.
	err := own.Get(ctx, name, existing)
	if apierrors.IsNotFound(err) {
		key := make([]byte, size)
		if _, err := rand.Read(key); err != nil {
			return nil, fmt.Errorf("make the key of secret digests: %w", err)
		}
		err = own.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: digestKeyName},
			Data:       map[string][]byte{entry: key},
		})
		if err == nil {
			return key, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("make secret %s: %w", name, err)
		}
		// Another replica was quicker, and its key is the one.
		err = own.Get(ctx, name, existing)
	}
	if err != nil {
		return nil, fmt.Errorf("read secret %s: %w", name, err)
	}
	if len(existing.Data[entry]) != size {
		return nil, fmt.Errorf("secret %s does not hold a key of %d bytes; delete it to have a new one made", name, size)
	}
	return existing.Data[entry], nil
}
