package blueprint

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// nextStatus is pure: the status after a look.
func nextStatus(b *v1alpha1.Blueprint, f finding, now metav1.Time) v1alpha1.BlueprintStatus {
	status := *b.Status.DeepCopy()
	status.ObservedGeneration = b.Generation
	status.Owners, status.Available = f.counts.owners, f.counts.available
	status.Resource = nil
	if f.kind != nil {
		scope := "Cluster"
		if f.kind.namespaced {
			scope = "Namespaced"
		}
		status.Resource = &v1alpha1.ResolvedKind{
			APIVersion: f.kind.gvk.GroupVersion().String(), Kind: f.kind.gvk.Kind, Plural: f.kind.plural, Scope: scope,
		}
	}
	if f.written == nil {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionConditionsWritten)
	}
	for _, c := range []*metav1.Condition{f.accepted, f.ready, f.written} {
		if c == nil {
			continue
		}
		next := *c
		next.ObservedGeneration, next.LastTransitionTime = b.Generation, now
		meta.SetStatusCondition(&status.Conditions, next)
	}
	slices.SortFunc(status.Conditions, func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
	return status
}

// writeStatus writes the status if it differs.
func (r *Reconciler) writeStatus(ctx context.Context, b *v1alpha1.Blueprint, f finding) error {
	if f.accepted == nil {
		return nil // It is gone.
	}
	next := nextStatus(b, f, metav1.NewTime(r.clock()))
	if equality.Semantic.DeepEqual(b.Status, next) {
		return nil
	}
	before := b.DeepCopy()
	b.Status = next
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.client.Status().Patch(ctx, b, patch, client.FieldOwner(v1alpha1.FieldManager)); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}
