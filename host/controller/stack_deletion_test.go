package controller

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/plan"
	"github.com/caisson-dev/caisson/host/provisioner"
)

func (w *world) gone() bool {
	err := w.base.Get(w.t.Context(), theStack(), &v1alpha1.Stack{})
	return apierrors.IsNotFound(err)
}

// Case 109: a deletion revives a parked Stack.
func TestCase109DeletionOfAParkedStack(t *testing.T) {
	stack := newDeletedStack(t)
	stack.Status = parkedStack().stack.Status
	w := newWorld(t, stack)
	w.reconcile()
	require.True(t, w.gone())
	require.Equal(t, []step{"list uid-web", "tenant team/builder", "deprovision", "drop state", "patch status", "patch", "forget uid-web"}, w.steps())
}

// Case 110: what is being removed is said, and the finalizer goes last.
func TestCase110Deletion(t *testing.T) {
	w := newWorld(t, newDeletedStack(t))
	w.installed = []cd.Installed{{Retained: []string{"Namespace gpu-operator"}}}
	w.nodes = []plan.Result{result("all", v1alpha1.KindModule, abi.Yield.String(), abi.ReasonApplicationDeleting)}
	w.deprovision = returns(provisioner.Yield(abi.ReasonApplicationDeleting, secretText))
	require.Positive(t, w.reconcile().RequeueAfter)
	require.Equal(t, "False/Deprovisioning", available(w.stack()))
	require.Equal(t, []string{"Namespace gpu-operator"}, w.stack().Status.Retained)
	w.noWhy()
	w.steps()

	// By now the driver has forgotten the application, and the status remembers.
	w.installed, w.deprovision = nil, nil
	w.nodes = []plan.Result{result("all", v1alpha1.KindModule, v1alpha1.NodeRemoved, "")}
	last := ""
	w.onPatch = func() error { last = available(w.stack()); return nil }
	require.Equal(t, ctrl.Result{}, w.reconcile())
	require.Equal(t, "False/Deprovisioned", last, "said before the finalizer goes")
	require.True(t, w.gone())
	require.Equal(t, []step{"list uid-web", "tenant team/builder", "deprovision", "drop state", "patch status", "patch", "forget uid-web"}, w.steps())
	require.Equal(t,
		"Normal Deprovisioned Deprovision: Everything that the Stack made is gone, except what is kept on purpose: Namespace gpu-operator.",
		w.events[len(w.events)-1])
}

// What had to be given up on a cluster that is gone is told when it happens, stays in the
// status, and is the last word.
func TestAbandonedIsTold(t *testing.T) {
	w := newWorld(t, newDeletedStack(t))
	w.abandoned = []string{"remote workload, which was declared gone"}
	w.deprovision = returns(provisioner.Yield(abi.ReasonApplicationDeleting, secretText))
	w.reconcile()
	require.Equal(t, w.abandoned, w.stack().Status.Abandoned)
	told := "Warning Abandoned Deprovision: Given up, and possibly still running: remote workload, which was declared gone"
	require.Contains(t, w.events, told)

	w.events = nil
	w.reconcile()
	require.NotContains(t, w.events, told, "once")

	w.deprovision = nil
	w.reconcile()
	require.True(t, w.gone())
	require.Equal(t,
		"Warning Deprovisioned Deprovision: Everything that could be reached is gone. Given up, and possibly still running: remote workload, which was declared gone.",
		w.events[len(w.events)-1])
}

// Case 111: with only foreign finalizers left there is nothing to do.
func TestCase111ForeignFinalizers(t *testing.T) {
	stack := newDeletedStack(t)
	stack.Finalizers = []string{"example.com/other"}
	w := newWorld(t, stack)
	require.Equal(t, ctrl.Result{}, w.reconcile())
	require.Empty(t, w.steps())

	stack = newDeletedStack(t)
	stack.Finalizers = append(stack.Finalizers, "example.com/other")
	w = newWorld(t, stack)
	w.reconcile()
	require.Equal(t, []string{"example.com/other"}, w.stack().Finalizers, "only ours is taken away")
	require.Equal(t, "False/Deprovisioned", available(w.stack()))
	w.steps()
	require.Equal(t, ctrl.Result{}, w.reconcile())
	require.Empty(t, w.steps())
}

// Case 113: suspending does not hold up a deletion.
func TestCase113SuspendedDeletion(t *testing.T) {
	stack := newDeletedStack(t)
	stack.Spec.Suspend = true
	w := newWorld(t, stack)
	w.reconcile()
	require.True(t, w.gone())
}

// Case 114, on the way down.
func TestCase114ShutdownDuringDeletion(t *testing.T) {
	w := newWorld(t, newDeletedStack(t))
	before := w.stack()
	ctx, stop := context.WithCancel(t.Context())
	w.deprovision = func(ctx context.Context) error {
		stop()
		<-ctx.Done()
		return provisioner.Yield(abi.ReasonApplicationDeleting, "")
	}
	_, err := w.Reconcile(ctx, ctrl.Request{NamespacedName: theStack()})
	require.NoError(t, err)
	require.Equal(t, before, w.stack())
	require.Equal(t, []step{"list uid-web", "tenant team/builder", "deprovision"}, w.steps())
}

// Case 117: not knowing is not the same as nothing being there.
func TestCase117UnknownInventory(t *testing.T) {
	w := newWorld(t, newDeletedStack(t))
	w.listErr = errors.New(secretText)
	require.Positive(t, w.reconcile().RequeueAfter)
	require.Equal(t, []step{"list uid-web", "patch status"}, w.steps())
	require.Contains(t, w.stack().Finalizers, v1alpha1.StackFinalizer)
	require.Equal(t, "False/Retrying", available(w.stack()))
	w.noWhy()
}

// A removal never parks, whatever is in its way.
func TestDeletionNeverParks(t *testing.T) {
	for name, err := range map[string]error{
		"user action": provisioner.UserActionRequired(abi.ReasonForbidden, secretText),
		"terminal":    provisioner.Terminal(abi.ReasonInvalidConfig, secretText),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newDeletedStack(t))
			w.deprovision = returns(err)
			require.Positive(t, w.reconcile().RequeueAfter)
			require.Nil(t, w.stack().Status.Parked)
			require.Equal(t, "False/Retrying", available(w.stack()))
			require.Contains(t, w.stack().Finalizers, v1alpha1.StackFinalizer)
			w.noWhy()
		})
	}
}

// A Stack whose spec makes no tree may go if there is nothing of it, and waits for a spec
// that does otherwise.
func TestUnplannableDeletion(t *testing.T) {
	cases := map[string]struct {
		reason    string
		account   string
		installed []cd.Installed
		gone      bool
		want      string
	}{
		"nothing left":             {reason: "nothing would have to be found", account: "builder", gone: true},
		"leftovers":                {reason: "only a tree knows how to remove them", account: "builder", installed: []cd.Installed{{}}, want: abi.ReasonInvalidStack},
		"no account, nothing left": {reason: "nobody has to be acted as", gone: true},
		"no account, leftovers":    {reason: "nothing is removed with the operator's own rights", installed: []cd.Installed{{}}, want: abi.ReasonServiceAccountMissing},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			stack := newDeletedStack(t)
			stack.Spec.ServiceAccountName = c.account
			w := newWorld(t, stack)
			w.installed = c.installed
			w.planErr = provisioner.Terminal(abi.ReasonInvalidStack, secretText)
			got := w.reconcile()
			require.Equal(t, c.gone, w.gone(), c.reason)
			if !c.gone {
				require.Positive(t, got.RequeueAfter)
				require.Contains(t, availableOf(&w.stack().Status).Message, c.want)
				w.noWhy()
			}
		})
	}
}

// The state of modules goes with the Stack; while it cannot, neither does the Stack.
func TestDeletionWaitsForState(t *testing.T) {
	w := newWorld(t, newDeletedStack(t))
	w.dropErr = errors.New("etcd is away")
	_, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: theStack()})
	require.ErrorContains(t, err, "drop state")
	require.False(t, w.gone())
	w.dropErr = nil
	w.reconcile()
	require.True(t, w.gone())
}

// Lost writes at the end of a deletion are made again.
func TestDeletionLostWrites(t *testing.T) {
	cases := map[string]func(*world){
		"status":    func(w *world) { w.onStatus = once(conflict()) },
		"finalizer": func(w *world) { w.onPatch = once(conflict()) },
	}
	for name, spoil := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newDeletedStack(t))
			spoil(w)
			require.Equal(t, ctrl.Result{RequeueAfter: retryBase}, w.reconcile())
			require.False(t, w.gone())
			w.reconcile()
			require.True(t, w.gone())
		})
	}
}
