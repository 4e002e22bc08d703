package controller

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/scope"
)

// TestStackChanged: only events that can change a decision wake a Stack.
func TestStackChanged(t *testing.T) {
	deleted := metav1.NewTime(epoch())
	cases := map[string]struct {
		reason string
		change func(*v1alpha1.Stack)
		want   bool
	}{
		"nothing":    {reason: "a resync of the cache", change: func(*v1alpha1.Stack) {}},
		"status":     {reason: "our own write", change: func(s *v1alpha1.Stack) { s.Status.Summary, s.ResourceVersion = "1/1", "2" }},
		"label":      {reason: "near miss: decides nothing", change: func(s *v1alpha1.Stack) { s.Labels = map[string]string{"a": "b"} }},
		"annotation": {reason: "near miss: another annotation", change: func(s *v1alpha1.Stack) { s.Annotations = map[string]string{"a": "b"} }},
		"finalizer":  {reason: "our own write", change: func(s *v1alpha1.Stack) { s.Finalizers = []string{v1alpha1.StackFinalizer} }},
		"generation": {reason: "the spec was edited", change: func(s *v1alpha1.Stack) { s.Generation++ }, want: true},
		"deletion":   {reason: "case 109: it comes without a generation where there are finalizers", change: func(s *v1alpha1.Stack) { s.DeletionTimestamp = &deleted }, want: true},
		"gone":       {reason: "somebody ends a deletion's wait", change: func(s *v1alpha1.Stack) { s.Annotations = map[string]string{v1alpha1.GoneAnnotation: "workload"} }, want: true},
		"retry":      {reason: "case 107", change: func(s *v1alpha1.Stack) { s.Annotations = map[string]string{v1alpha1.RetryAnnotation: "now"} }, want: true},
	}
	t.Run("Case112 a finalizer goes", func(t *testing.T) {
		before, after := newDeletedStack(t), newDeletedStack(t)
		before.Finalizers = append(before.Finalizers, "servers.compute.example.com/web-1")
		require.True(t, stackChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}), "a deletion may wait for that")
	})
	p := stackChanged()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			after := newStack()
			c.change(after)
			require.Equal(t, c.want, p.Update(event.UpdateEvent{ObjectOld: newStack(), ObjectNew: after}), c.reason)
		})
	}
	require.True(t, p.Create(event.CreateEvent{Object: newStack()}), "a new one, and every one after a restart")
	require.True(t, p.Delete(event.DeleteEvent{Object: newStack()}), "what is kept in memory is dropped")
}

func TestStacksWithInput(t *testing.T) {
	w := newWorld(t)
	w.Index.Set(theStack(), []v1alpha1.InputRecord{record(inputSecret, "token", "1"), {Scope: scope.HomeID, Kind: inputModule, Name: "cilium"}})
	require.Equal(t, []reconcile.Request{{NamespacedName: theStack()}}, w.stacksWithInput(inputSecret, newSecret("token")))
	require.Equal(t, []reconcile.Request{{NamespacedName: theStack()}}, w.stacksWithInput(inputModule, newModule()))
	require.Empty(t, w.stacksWithInput(inputConfigMap, newSecret("token")))
	require.Empty(t, w.stacksWithInput(inputSecret, newSecret("other")))
}

// fakeDriver notifies on demand.
type fakeDriver struct {
	notify func(scope.Owner)
	ctx    context.Context
}

// Subscribe implements DriverEvents.
func (d *fakeDriver) Subscribe(ctx context.Context, notify func(scope.Owner)) {
	d.ctx, d.notify = ctx, notify
}

// TestDriverNotifications: every notification leaves its reason before its name is in the
// queue, and none blocks the driver though nobody takes from it.
func TestDriverNotifications(t *testing.T) {
	w, driver := newWorld(t), &fakeDriver{}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	require.NoError(t, w.driverSource(driver).Start(t.Context(), queue))
	require.Equal(t, t.Context(), driver.ctx, "the subscription ends with the manager")

	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				driver.notify(ownerOf(newStack()))
				driver.notify(scope.Owner{APIVersion: "example.com/v1", Kind: "Other", Namespace: "team", Name: "other"})
			}
		})
	}
	wg.Wait()
	require.Eventually(t, func() bool { return queue.Len() == 1 }, 10*time.Second, time.Millisecond, "one name, however many notifications, and none of another kind")
	request, _ := queue.Get()
	require.Equal(t, theStack(), request.NamespacedName)
	require.Equal(t, Wake{Driver: true}, w.Wakes.Take(request.NamespacedName))
}

// TestFaultsWakeTheModule: its condition says at once what its nodes say.
func TestFaultsWakeTheModule(t *testing.T) {
	w := newModuleWorld(t, newModule())
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	require.NoError(t, w.faultSource().Start(t.Context(), queue))
	crashes := true
	w.loads["sha256:1"].call = func() (int32, error) {
		if crashes {
			return 0, crash{died: true}
		}
		return 0, nil
	}
	w.reconcile()
	instance, err := w.Modules.Module(t.Context(), "team", "cilium")
	require.NoError(t, err)
	call := func() { _, _, _ = instance.Runtime.Call(t.Context(), "tenant", abi.ExportProvision, nil, nil) }
	for range crashLimit - 1 {
		call()
	}
	require.Zero(t, queue.Len())
	call()
	require.Equal(t, 1, queue.Len())
	request, _ := queue.Get()
	queue.Done(request)
	require.Equal(t, "cilium", request.Name)
	w.reconcile()
	require.Equal(t, v1alpha1.ModuleReasonFaulted, w.ready().Reason)

	crashes = false
	call()
	require.Equal(t, 1, queue.Len(), "and again when it is well")
	w.reconcile()
	require.Equal(t, v1alpha1.ModuleReasonLoaded, w.ready().Reason)
}
