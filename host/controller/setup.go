package controller

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/scope"
)

const (
	// stackWorkers is how many passes run at once. Passes wait for API servers, workers and
	// remotes that say nothing far more than they compute, and one that waits is a goroutine:
	// with a few only, a few Stacks that wait hold up all others. What computes is bounded
	// elsewhere, by the workers of the sandbox and those of the driver.
	stackWorkers = 32
	// moduleWorkers is how many modules are pulled and compiled at once: a compile keeps
	// a core busy for seconds.
	moduleWorkers = 2
)

// DriverEvents tells which owner something has changed for. Drivers implement it.
type DriverEvents interface {
	Subscribe(ctx context.Context, notify func(owner scope.Owner))
}

// SetupStack wires the Stack controller: its own events, those of recorded inputs, and
// those of the driver.
func SetupStack(mgr ctrl.Manager, r *StackReconciler, driver DriverEvents) error {
	return r.watched(mgr, driver, CaissonObjects).
		Named("stack").
		For(&v1alpha1.Stack{}, builder.WithPredicates(stackChanged())).
		Complete(r)
}

// Watched says which inputs of passes a controller watches.
type Watched int

const (
	// CoreObjects are Secrets and ConfigMaps.
	CoreObjects Watched = iota
	// CaissonObjects are those, and Modules and Applications, whose CRDs must be there.
	CaissonObjects
)

// SetupObject wires a controller for objects of another kind than Stack, in the same way.
// No two controllers of a manager may be for kinds of one group and name.
func SetupObject(mgr ctrl.Manager, r *ObjectReconciler, driver DriverEvents, inputs Watched) error {
	// Events come to no object in particular; what they are checked against is the kind.
	passes := *r.Passes
	passes.Owners = &objectOwner{kind: r.Kind}
	return passes.watched(mgr, driver, inputs).
		Named(strings.ToLower(r.Kind.GVK.GroupKind().String())).
		For(r.Kind.New(), builder.WithPredicates(stackChanged())).
		Complete(r)
}

// watched begins a controller with what wakes owners besides their own events.
func (r *StackReconciler) watched(mgr ctrl.Manager, driver DriverEvents, inputs Watched) *builder.Builder {
	byInput := func(kind string) handler.EventHandler {
		return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			return r.stacksWithInput(kind, o)
		})
	}
	b := ctrl.NewControllerManagedBy(mgr).
		WatchesMetadata(&corev1.Secret{}, byInput(inputSecret)).
		WatchesMetadata(&corev1.ConfigMap{}, byInput(inputConfigMap)).
		WatchesRawSource(r.driverSource(driver)).
		WithOptions(controller.Options{MaxConcurrentReconciles: stackWorkers})
	if inputs == CaissonObjects {
		b = b.Watches(&v1alpha1.Module{}, byInput(inputModule)).
			Watches(&v1alpha1.Application{}, byInput(inputApplication), builder.WithPredicates(predicate.GenerationChangedPredicate{}))
	}
	return b
}

// SetupModule wires the Module controller: its own events, and the faults that calls end
// in. New artifacts are found by polling.
func SetupModule(mgr ctrl.Manager, r *ModuleReconciler) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("module").
		For(&v1alpha1.Module{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(r.faultSource()).
		WithOptions(controller.Options{MaxConcurrentReconciles: moduleWorkers}).
		Complete(r)
}

// faultSource looks at a Module again when it begins or ceases to count as faulted.
func (r *ModuleReconciler) faultSource() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		r.Modules.Subscribe(func(name string) {
			queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		})
		return nil
	})
}

// driverSource puts the owners that the driver notifies of straight into the queue, so
// that a notification never blocks the driver.
func (r *StackReconciler) driverSource(driver DriverEvents) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		driver.Subscribe(ctx, func(owner scope.Owner) {
			if !r.owners().Owns(owner) {
				return
			}
			name := types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}
			r.Wakes.Add(name, Wake{Driver: true})
			queue.Add(reconcile.Request{NamespacedName: name})
		})
		return nil
	})
}

// stackChanged lets the events through that can change a decision: not status writes.
func stackChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld, e.ObjectNew
			said := func(annotation string) bool {
				return before.GetAnnotations()[annotation] != after.GetAnnotations()[annotation]
			}
			letGo := after.GetDeletionTimestamp() != nil && !slices.Equal(before.GetFinalizers(), after.GetFinalizers())
			return letGo || before.GetGeneration() != after.GetGeneration() ||
				before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero() ||
				said(v1alpha1.RetryAnnotation) || said(v1alpha1.GoneAnnotation)
		},
		DeleteFunc: func(event.DeleteEvent) bool { return true },
	}
}

// stacksWithInput maps an object to the Stacks that have read it.
func (r *StackReconciler) stacksWithInput(kind string, o client.Object) []reconcile.Request {
	names := r.Index.Readers(kind, o.GetNamespace(), o.GetName())
	requests := make([]reconcile.Request, 0, len(names))
	for _, name := range names {
		requests = append(requests, reconcile.Request{NamespacedName: name})
	}
	return requests
}
