package blueprint

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/plan"
)

const (
	// ownerWorkers is how many owners of a kind are looked at together: it takes an API call
	// or two each.
	ownerWorkers = 2
	// rolloutInterval spaces the Stacks that a changed Blueprint is rolled out to: twenty a
	// second is more than passes can follow, and little for an API server.
	rolloutInterval = 50 * time.Millisecond
	// ownerRetryBase and ownerRetryMax bound the backoff of an owner that fails.
	ownerRetryBase = 200 * time.Millisecond
	ownerRetryMax  = 5 * time.Minute
)

// order is what a run has to do: a Blueprint in one generation, over its kind.
type order struct {
	uid        types.UID
	name       string
	generation int64
	namespace  string
	prefix     string
	kind       *kind
	// plan is nil while the Blueprint is not valid; invalid says why then.
	plan    *plan.Blueprint
	invalid string
}

func (o *order) same(other *order) bool {
	return o.uid == other.uid && o.generation == other.generation && o.invalid == other.invalid &&
		o.kind.shape.list == other.kind.shape.list && o.kind.shape.subresource == other.kind.shape.subresource
}

// run is a controller of one kind, with a cache of its own.
type run struct {
	order  atomic.Pointer[order]
	kind   *kind
	cancel context.CancelFunc
	done   chan struct{}
	// queued is closed when there is a queue.
	queued chan struct{}
	// synced says that all owners are known.
	synced atomic.Bool
	// behind says that the order has changed since the owners were looked at.
	behind atomic.Bool
	tally  *tally

	mu     sync.Mutex
	err    error
	queue  workqueue.TypedRateLimitingInterface[reconcile.Request]
	owners client.Reader
}

// start runs a controller until its context ends or it fails.
func (f *Fleet) start(ctx context.Context, o *order) *run {
	ctx, cancel := context.WithCancel(ctx)
	r := &run{kind: o.kind, cancel: cancel, done: make(chan struct{}), queued: make(chan struct{}), tally: newTally()}
	r.order.Store(o)
	go func() {
		defer close(r.done)
		defer cancel()
		if err := f.serve(ctx, r); err != nil && ctx.Err() == nil {
			f.options.Logger.Error(err, "the controller of a kind has ended", "kind", r.kind.String())
			r.fail(err)
			f.changed(r, rightsLost)
		}
	}()
	return r
}

// stop ends a run, and returns when nothing of it is left.
func (r *run) stop() {
	r.cancel()
	<-r.done
}

func (f *Fleet) serve(ctx context.Context, r *run) error {
	mapper := r.kind.mapper()
	owners, err := cache.New(f.options.Config, cache.Options{
		HTTPClient: f.options.HTTPClient, Scheme: f.options.Scheme, Mapper: mapper, DefaultTransform: trim,
		DefaultWatchErrorHandler: func(_ context.Context, _ *toolscache.Reflector, err error) {
			if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) {
				f.changed(r, rightsLost)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("make a cache: %w", err)
	}
	direct, err := client.New(f.options.Config, client.Options{HTTPClient: f.options.HTTPClient, Scheme: f.options.Scheme, Mapper: mapper})
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	skip, recovers := true, true
	c, err := controller.NewUnmanaged("blueprint-"+r.kind.String(), controller.Options{
		Reconciler: &ownerReconciler{
			run: r, owners: owners, client: direct, stacks: f.options.Stacks, live: f.options.Live,
			writeStacks: f.options.Client, events: f.options.Events, clock: f.options.Clock,
			changed: func() { f.changed(r, countsChanged) }, refused: func() { f.changed(r, rightsLost) },
		},
		MaxConcurrentReconciles: ownerWorkers, SkipNameValidation: &skip, RecoverPanic: &recovers, Logger: f.options.Logger,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](ownerRetryBase, ownerRetryMax),
	})
	if err != nil {
		return fmt.Errorf("make a controller: %w", err)
	}
	watch := source.Kind[client.Object](owners, r.kind.object(), &handler.EnqueueRequestForObject{})
	if err := errors.Join(c.Watch(watch), c.Watch(r.queueSource(owners))); err != nil {
		return fmt.Errorf("watch owners: %w", err)
	}
	return f.serveUntil(ctx, r, owners, c)
}

// serveUntil runs cache and controller, and returns when both have ended.
func (f *Fleet) serveUntil(ctx context.Context, r *run, owners cache.Cache, c controller.Controller) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var parts sync.WaitGroup
	errs := make(chan error, 2)
	for _, start := range []func(context.Context) error{owners.Start, c.Start} {
		parts.Go(func() {
			defer cancel()
			errs <- start(ctx)
		})
	}
	parts.Go(func() {
		if _, err := owners.GetInformer(ctx, r.kind.object()); err != nil || !owners.WaitForCacheSync(ctx) {
			return
		}
		select {
		case <-r.queued:
		case <-ctx.Done():
			return
		}
		r.synced.Store(true)
		if err := r.roll(ctx); err != nil {
			f.options.Logger.Error(err, "roll out a changed blueprint", "kind", r.kind.String())
		}
		f.changed(r, countsChanged)
	})
	parts.Wait()
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	return errors.Join(all...)
}

// queueSource keeps hold of the queue, for what else wakes an owner.
func (r *run) queueSource(owners client.Reader) source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.queue, r.owners = queue, owners
		close(r.queued)
		return nil
	})
}

// wake looks at an owner.
func (r *run) wake(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queue != nil {
		r.queue.Add(reconcile.Request{NamespacedName: name})
	}
}

// follow gives a run a new order, and looks at its owners one by one.
func (r *run) follow(ctx context.Context, o *order) error {
	if old := r.order.Swap(o); old.same(o) {
		return nil
	}
	r.behind.Store(true)
	return r.roll(ctx)
}

// roll looks at all owners, once they are known, if that is due.
func (r *run) roll(ctx context.Context) error {
	if !r.synced.Load() || !r.behind.Swap(false) {
		return nil
	}
	r.mu.Lock()
	queue, owners := r.queue, r.owners
	r.mu.Unlock()
	list := r.kind.objects()
	if err := owners.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		r.behind.Store(true)
		return fmt.Errorf("list owners: %w", err)
	}
	for i := range list.Items {
		queue.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])}, time.Duration(i)*rolloutInterval)
	}
	return nil
}

func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

// failed returns why the run has ended by itself, or nil.
func (r *run) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// trim keeps of an owner what is used of it: of its status the conditions, and of the
// record of managers our own part.
func trim(object any) (any, error) {
	owner, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	var ours []metav1.ManagedFieldsEntry
	for _, entry := range owner.GetManagedFields() {
		if entry.Manager == v1alpha1.BlueprintFieldManager {
			ours = append(ours, entry)
		}
	}
	owner.SetManagedFields(ours)
	if _, found := owner.Object["status"]; found {
		status := map[string]any{}
		if entries := entriesOf(owner); entries != nil {
			status["conditions"] = entries
		}
		owner.Object["status"] = status
	}
	if annotations := owner.GetAnnotations(); len(annotations) > 0 {
		kept := map[string]string{}
		for key, value := range annotations {
			if strings.HasPrefix(key, v1alpha1.GroupName+"/") {
				kept[key] = value
			}
		}
		owner.SetAnnotations(kept)
	}
	return owner, nil
}
