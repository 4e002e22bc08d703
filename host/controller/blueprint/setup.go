package blueprint

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// Setup adds to a manager the controller of Blueprints and the fleet of those that it
// starts. The manager's identity must be able to watch Blueprints and CRDs, and to write
// Stacks; see deploy/rbac.yaml. An error says which part could not be added.
func Setup(mgr ctrl.Manager, logger logr.Logger) error {
	served, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("make a discovery client: %w", err)
	}
	fleet := NewFleet(FleetOptions{
		Config: mgr.GetConfig(), HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Client: mgr.GetClient(),
		Stacks: mgr.GetCache(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("caisson"), Logger: logger,
	})
	r := &Reconciler{
		client: mgr.GetClient(), fleet: fleet, clock: time.Now, known: map[types.UID]*knowledge{},
		resolver: &resolver{discovery: served, live: mgr.GetAPIReader()},
		backoff:  workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](retryBase, retryMax),
	}
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(crdKind())
	err = ctrl.NewControllerManagedBy(mgr).
		Named("blueprint").
		For(&v1alpha1.Blueprint{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.Blueprint{}, handler.EnqueueRequestsFromMapFunc(r.peers), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(crd, handler.EnqueueRequestsFromMapFunc(r.ofCRD), builder.OnlyMetadata).
		Watches(&v1alpha1.Stack{}, handler.EnqueueRequestsFromMapFunc(fleet.ofStack)).
		WatchesRawSource(r.news()).
		Complete(r)
	return errors.Join(err, mgr.Add(fleet))
}

// peers are the other Blueprints of a kind, of which one may come into force now.
func (r *Reconciler) peers(ctx context.Context, o client.Object) []reconcile.Request {
	b, ok := o.(*v1alpha1.Blueprint)
	if !ok {
		return nil
	}
	return r.which(ctx, func(other *v1alpha1.Blueprint) bool { return other.UID != b.UID && groupKind(other) == groupKind(b) })
}

// ofCRD are the Blueprints of the group of a CRD that has come, changed, or gone.
func (r *Reconciler) ofCRD(ctx context.Context, crd client.Object) []reconcile.Request {
	_, group, _ := strings.Cut(crd.GetName(), ".")
	return r.which(ctx, func(b *v1alpha1.Blueprint) bool {
		if b.Spec.Resource.Group != group {
			return false
		}
		r.doubt(b.UID)
		r.backoff.Forget(b.UID)
		return true
	})
}

func (r *Reconciler) which(ctx context.Context, wanted func(*v1alpha1.Blueprint) bool) []reconcile.Request {
	all := &v1alpha1.BlueprintList{}
	if r.client.List(ctx, all) != nil {
		return nil // The cache has ended, and nobody waits for an answer.
	}
	var requests []reconcile.Request
	for i := range all.Items {
		if wanted(&all.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: all.Items[i].Name}})
		}
	}
	return requests
}

// ofStack wakes the owner of a Stack, which is not a matter of the Blueprint.
func (f *Fleet) ofStack(_ context.Context, stack client.Object) []reconcile.Request {
	reference := metav1.GetControllerOf(stack)
	if stack.GetLabels()[v1alpha1.BlueprintLabel] == "" || reference == nil {
		return nil
	}
	gv, err := schema.ParseGroupVersion(reference.APIVersion)
	if err != nil {
		return nil
	}
	gk := schema.GroupKind{Group: gv.Group, Kind: reference.Kind}
	f.wake(gk, types.NamespacedName{Namespace: stack.GetNamespace(), Name: reference.Name})
	return nil
}

// news brings what runs tell of themselves.
func (r *Reconciler) news() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		r.fleet.listen(func(name string, uid types.UID, what news) {
			request := reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
			if what == rightsLost {
				r.doubt(uid)
				queue.AddAfter(request, r.backoff.When(uid))
				return
			}
			queue.AddAfter(request, countsDelay)
		})
		return nil
	})
}
