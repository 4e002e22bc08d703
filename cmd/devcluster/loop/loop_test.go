package loop

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

const (
	patience  = time.Minute
	pollEvery = 5 * time.Millisecond
)

// start runs a loop over the ConfigMaps of a fake API until the test ends.
func start(t *testing.T, client *fake.Clientset, workers int, sync Sync[*corev1.ConfigMap]) {
	t.Helper()

	factory := informers.NewSharedInformerFactory(client, 0)
	made, err := New("maps", factory.Core().V1().ConfigMaps().Informer(), sync)
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	factory.Start(ctx.Done())
	go func() {
		defer close(done)
		made.Run(ctx, workers)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		factory.Shutdown()
	})
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
}

func TestCalls(t *testing.T) {
	t.Parallel()

	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "a", nil)
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "a")
	cases := map[string]struct {
		reason string
		again  time.Duration
		err    error
		repeat bool
	}{
		"Done":     {"what is done is not looked at again", 0, nil, false},
		"Again":    {"it is, if asked for", time.Millisecond, nil, true},
		"Conflict": {"the other writer was first", 0, conflict, true},
		"Error":    {"an error may pass", 0, errors.New("no route"), true},
		"Gone":     {"an object that is gone needs nothing", 0, notFound, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			// The first object's fate is the case's; the second shows when the queue has got past it.
			var calls, fence atomic.Int32
			client := fake.NewClientset(configMap("a"))
			start(t, client, 1, func(_ context.Context, object *corev1.ConfigMap) (time.Duration, error) {
				if object.Name == "fence" {
					fence.Add(1)

					return time.Millisecond, nil
				}
				calls.Add(1)

				return c.again, c.err
			})
			_, err := client.CoreV1().ConfigMaps("ns").Create(t.Context(), configMap("fence"), metav1.CreateOptions{})
			require.NoError(t, err)
			require.Eventually(t, func() bool { return fence.Load() > 20 && calls.Load() > 0 && (!c.repeat || calls.Load() > 3) }, patience, pollEvery)
			if !c.repeat {
				require.Equal(t, int32(1), calls.Load(), c.reason)
			}
		})
	}
}

func TestUpdatesArrive(t *testing.T) {
	t.Parallel()

	var seen sync.Map
	client := fake.NewClientset()
	start(t, client, 2, func(_ context.Context, object *corev1.ConfigMap) (time.Duration, error) {
		seen.Store(object.Data["value"], true)

		return 0, nil
	})
	object := configMap("a")
	object.Data = map[string]string{"value": "1"}
	object, err := client.CoreV1().ConfigMaps("ns").Create(t.Context(), object, metav1.CreateOptions{})
	require.NoError(t, err)
	has := func(value string) func() bool {
		return func() bool { _, ok := seen.Load(value); return ok }
	}
	require.Eventually(t, has("1"), patience, pollEvery)
	object.Data["value"] = "2"
	_, err = client.CoreV1().ConfigMaps("ns").Update(t.Context(), object, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Eventually(t, has("2"), patience, pollEvery)
}

// TestHammer checks that no object is worked on twice at once, however many workers and events there are.
func TestHammer(t *testing.T) {
	t.Parallel()

	names := []string{"a", "b", "c"}
	inside := map[string]*atomic.Int32{}
	for _, name := range names {
		inside[name] = &atomic.Int32{}
	}
	var calls, overlaps atomic.Int32
	client := fake.NewClientset()
	start(t, client, 8, func(_ context.Context, object *corev1.ConfigMap) (time.Duration, error) {
		if inside[object.Name].Add(1) > 1 {
			overlaps.Add(1)
		}
		defer inside[object.Name].Add(-1)

		if calls.Add(1)%3 == 0 {
			return 0, errors.New("now and then")
		}

		return time.Microsecond, nil
	})
	for _, name := range names {
		_, err := client.CoreV1().ConfigMaps("ns").Create(t.Context(), configMap(name), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return calls.Load() > 300 }, patience, pollEvery)
	require.Zero(t, overlaps.Load())
}

func TestNewFails(t *testing.T) {
	t.Parallel()

	informer := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().ConfigMaps().Informer()
	stop := make(chan struct{})
	close(stop)
	informer.Run(stop)
	require.True(t, informer.IsStopped())
	_, err := New("maps", informer, func(context.Context, *corev1.ConfigMap) (time.Duration, error) { return 0, nil })
	require.ErrorContains(t, err, "watch maps")
}

func TestWrongType(t *testing.T) {
	t.Parallel()

	informer := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().ConfigMaps().Informer()
	require.NoError(t, informer.GetIndexer().Add(configMap("a")))
	made, err := New("maps", informer, func(context.Context, *corev1.Secret) (time.Duration, error) { return 0, nil })
	require.NoError(t, err)
	_, err = made.handle(t.Context(), cache.ObjectName{Namespace: "ns", Name: "a"}.String())
	require.ErrorContains(t, err, "holds a *v1.ConfigMap")
}
