package loop

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// quietRetries is how often one object may fail in a row before its error is logged. The first few are races with other
// writers, which the next attempt settles; a log line for each would be noise in a healthy cluster.
const quietRetries = 5

// Sync brings one object a step further. The object comes from the informer's cache and must not be modified.
// A positive duration asks for another look after that long, even if no event arrives; an error asks for one with backoff.
type Sync[T any] func(ctx context.Context, object T) (time.Duration, error)

// Loop calls a Sync for each object of an informer, whenever the object was added or changed.
type Loop[T any] struct {
	name     string
	informer cache.SharedIndexInformer
	sync     Sync[T]
	queue    workqueue.TypedRateLimitingInterface[string]
}

// New returns a loop over the informer, whose objects must be of type T. The name appears in log lines only.
// It fails if the informer no longer accepts handlers, because it was stopped.
func New[T any](name string, informer cache.SharedIndexInformer, sync Sync[T]) (*Loop[T], error) {
	l := &Loop[T]{
		name:     name,
		informer: informer,
		sync:     sync,
		queue:    workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}

	add := func(object any) {
		if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
			l.queue.Add(key)
		}
	}
	handlers := cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, object any) { add(object) }}
	if _, err := informer.AddEventHandler(handlers); err != nil {
		return nil, fmt.Errorf("watch %s: %w", name, err)
	}

	return l, nil
}

// Run works on the queue until the context ends. No object is worked on by two workers at once.
func (l *Loop[T]) Run(ctx context.Context, workers int) {
	if !cache.WaitForCacheSync(ctx.Done(), l.informer.HasSynced) {
		return
	}

	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for l.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	l.queue.ShutDown()
	group.Wait()
}

// next handles one key and reports false once the queue is shut down.
func (l *Loop[T]) next(ctx context.Context) bool {
	key, stopped := l.queue.Get()
	if stopped {
		return false
	}
	defer l.queue.Done(key)

	again, err := l.handle(ctx, key)
	switch {
	case err != nil && ctx.Err() == nil:
		if l.queue.NumRequeues(key) >= quietRetries {
			klog.FromContext(ctx).Error(err, "Sync keeps failing", "loop", l.name, "key", key)
		}
		l.queue.AddRateLimited(key)
	case again > 0:
		l.queue.Forget(key)
		l.queue.AddAfter(key, again)
	default:
		l.queue.Forget(key)
	}

	return true
}

// handle looks the key up and syncs its object. An object that is gone, before or during the sync, needs nothing more.
func (l *Loop[T]) handle(ctx context.Context, key string) (time.Duration, error) {
	found, exists, err := l.informer.GetIndexer().GetByKey(key)
	if err != nil || !exists {
		return 0, err
	}
	object, ok := found.(T)
	if !ok {
		return 0, fmt.Errorf("informer of %s holds a %T", l.name, found)
	}

	again, err := l.sync(ctx, object)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}

	return again, err
}
