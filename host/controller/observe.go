package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// currentInputs returns recorded inputs with the versions that they have now. All reads
// are answered by caches; Secrets and ConfigMaps are cached as metadata only.
func (r *StackReconciler) currentInputs(ctx context.Context, recorded []v1alpha1.InputRecord) ([]v1alpha1.InputRecord, error) {
	current := make([]v1alpha1.InputRecord, 0, len(recorded))
	for _, record := range recorded {
		if !watched(record) {
			current = append(current, record)
			continue
		}
		version, err := r.versionOf(ctx, record)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		record.ResourceVersion, record.Absent = version, err != nil
		current = append(current, record)
	}
	return current, nil
}

func (r *StackReconciler) versionOf(ctx context.Context, record v1alpha1.InputRecord) (string, error) {
	key := types.NamespacedName{Namespace: record.Namespace, Name: record.Name}
	switch record.Kind {
	case inputSecret, inputConfigMap:
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(record.Kind))
		err := r.Client.Get(ctx, key, object)
		return object.ResourceVersion, err
	case inputModule:
		object := &v1alpha1.Module{}
		if err := r.Client.Get(ctx, key, object); err != nil {
			return "", err
		}
		return moduleVersion(object), nil
	case inputApplication:
		object := &v1alpha1.Application{}
		if err := r.Client.Get(ctx, key, object); err != nil {
			return "", err
		}
		return catalogueVersion(object), nil
	default:
		return record.ResourceVersion, nil
	}
}
