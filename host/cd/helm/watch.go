package helm

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/caisson-dev/caisson/host/scope"
)

const (
	// helmSelector finds what Helm applied; Helm sets the label on every object.
	helmSelector = "app.kubernetes.io/managed-by=Helm"
	// rewatch is the pause after a watch ended; refused is the one after a cluster said
	// that the tenant may not watch, which polling makes up for.
	rewatch = 5 * time.Second
	refused = 5 * time.Minute
)

// target is one kind in one namespace; cluster-wide kinds have none.
type target struct {
	resource  schema.GroupVersionResource
	namespace string
}

// watchKey is a target in one cluster, seen by one identity.
type watchKey struct {
	cluster string
	target  target
}

// watcher is one running watch and who needs it.
type watcher struct {
	key watchKey
	at  *cluster
	// users are the releases that need it, by what the annotations of their objects say,
	// so that an event of one does not cost a look at all of them.
	users  map[string]map[releaseKey]struct{}
	live   bool
	cancel context.CancelFunc
}

// use and leave add and remove a release.
func (w *watcher) use(key releaseKey) {
	said := annotated(key.namespace, key.name)
	if w.users[said] == nil {
		w.users[said] = map[releaseKey]struct{}{}
	}
	w.users[said][key] = struct{}{}
}

func (w *watcher) leave(key releaseKey) {
	said := annotated(key.namespace, key.name)
	delete(w.users[said], key)
	if len(w.users[said]) == 0 {
		delete(w.users, said)
	}
}

func annotated(namespace, name string) string { return namespace + "/" + name }

// run keeps a watch open until nobody needs it. Failures are silent: whoever waits for
// an object polls as well.
func (h *hub) run(ctx context.Context, w *watcher) {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		err := h.stream(ctx, w, attempt)
		h.setLive(w, nil, attempt)
		pause := rewatch
		if apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err) {
			pause = refused
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C:
		}
	}
}

var errWatchEnded = errors.New("the watch ended")

// stream opens the watch and passes on what happens until it ends.
func (h *hub) stream(ctx context.Context, w *watcher, attempt int) error {
	resource := w.at.metadata.Resource(w.key.target.resource).Namespace(w.key.target.namespace)
	list, err := resource.List(ctx, metav1.ListOptions{LabelSelector: helmSelector, Limit: 1})
	if err != nil {
		return fmt.Errorf("listing %s: %w", w.key.target.resource.Resource, err)
	}
	events, err := resource.Watch(ctx, metav1.ListOptions{
		LabelSelector: helmSelector, ResourceVersion: list.ResourceVersion, AllowWatchBookmarks: true,
	})
	if err != nil {
		return fmt.Errorf("watching %s: %w", w.key.target.resource.Resource, err)
	}
	defer events.Stop()
	h.setLive(w, events, attempt)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event, ok := <-events.ResultChan():
			if !ok || event.Type == watch.Error {
				return errWatchEnded
			}
			if object, ok := event.Object.(*metav1.PartialObjectMetadata); ok && event.Type != watch.Bookmark {
				h.changed(w, object.Annotations[annotationNamespace], object.Annotations[annotationRelease])
			}
		}
	}
}

// setLive records whether the watch is open. When it opens, something may have happened
// since the objects were last read: everybody is told after a gap, which is before every
// attempt but the first, and at first those who were not ready.
func (h *hub) setLive(w *watcher, events watch.Interface, attempt int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.live = events != nil
	if !w.live {
		return
	}
	for _, users := range w.users {
		for key := range users {
			if t, ok := h.releases[key]; ok && (attempt > 0 || !t.ready) {
				h.enqueue(t.owner)
			}
		}
	}
}

// changed tells the owner of a release that one of its objects changed.
func (h *hub) changed(w *watcher, namespace, name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key := range w.users[annotated(namespace, name)] {
		if t, ok := h.releases[key]; ok {
			h.enqueue(t.owner)
		}
	}
}

// tracked is a release whose objects are watched.
type tracked struct {
	owner   scope.Owner
	at      *cluster
	targets []target
	ready   bool
}
