package blueprint

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// releasePage is how many owners are listed at a time.
const releasePage = 500

// end lets go of the owners of a Blueprint that is being deleted. Their Stacks stay, and go
// with them.
func (r *Reconciler) end(ctx context.Context, b *v1alpha1.Blueprint) (finding, error) {
	if !controllerutil.ContainsFinalizer(b, v1alpha1.BlueprintFinalizer) {
		return finding{}, nil
	}
	r.fleet.stop(groupKind(b), b.UID)
	rival, err := r.rival(ctx, b)
	if err != nil {
		return finding{}, err
	}
	if rival == "" {
		r.doubt(b.UID)
		k, err := r.look(ctx, b)
		if err != nil {
			return finding{}, err
		}
		if len(k.lacks) > 0 {
			f := rejected(v1alpha1.ReasonForbidden, "The finalizers on the owners cannot be removed. "+remedy(k.lacks))
			return r.later(b, f), nil
		}
		if k.kind != nil {
			if err := r.fleet.release(ctx, k.kind, b.Spec.ConditionPrefix); err != nil {
				return finding{}, err
			}
		}
	}
	before := b.DeepCopy()
	controllerutil.RemoveFinalizer(b, v1alpha1.BlueprintFinalizer)
	if err := r.patch(ctx, b, before); err != nil {
		return finding{}, fmt.Errorf("remove finalizer: %w", err)
	}
	r.backoff.Forget(b.UID)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, b.UID)
	return finding{}, nil
}

// release removes what is ours from every object of a kind.
func (f *Fleet) release(ctx context.Context, k *kind, prefix string) error {
	direct, err := client.New(f.options.Config, client.Options{HTTPClient: f.options.HTTPClient, Scheme: f.options.Scheme, Mapper: k.mapper()})
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	w := &writer{client: direct, kind: k, prefix: prefix}
	next := ""
	for {
		page := k.objects()
		err := direct.List(ctx, page, client.Limit(releasePage), client.Continue(next))
		if apierrors.IsNotFound(err) {
			return nil // The kind has gone, and its objects with it.
		}
		if err != nil {
			return fmt.Errorf("list owners: %w", err)
		}
		for i := range page.Items {
			if err := w.release(ctx, &page.Items[i]); err != nil {
				return fmt.Errorf("release %s: %w", client.ObjectKeyFromObject(&page.Items[i]), err)
			}
		}
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
}

// release removes our conditions, which nobody would keep up to date, and our finalizer.
func (w *writer) release(ctx context.Context, owner *unstructured.Unstructured) error {
	if !controllerutil.ContainsFinalizer(owner, v1alpha1.OwnerFinalizer) {
		return nil
	}
	if err := w.withdraw(ctx, owner); client.IgnoreNotFound(err) != nil {
		return err
	}
	// Another write lies between the list and this one, and nothing of it matters here.
	if err := w.client.Get(ctx, client.ObjectKeyFromObject(owner), owner); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := owner.DeepCopy()
	controllerutil.RemoveFinalizer(owner, v1alpha1.OwnerFinalizer)
	annotations := owner.GetAnnotations()
	delete(annotations, v1alpha1.ConditionsAnnotation)
	owner.SetAnnotations(annotations)
	return client.IgnoreNotFound(w.patch(ctx, owner, before))
}

// withdraw removes our conditions.
func (w *writer) withdraw(ctx context.Context, owner *unstructured.Unstructured) error {
	if len(w.own(owner)) == 0 {
		return nil
	}
	if w.kind.shape.list == listPlain {
		return w.replace(ctx, owner, merged(entriesOf(owner), nil, claims(owner)))
	}
	return w.send(ctx, owner, nil)
}

// rejected is a Blueprint that is not in force.
func rejected(reason, message string) finding {
	return finding{
		accepted: condition(v1alpha1.ConditionAccepted, metav1.ConditionFalse, reason, message),
		ready:    condition(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message),
	}
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) *metav1.Condition {
	return &metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}
