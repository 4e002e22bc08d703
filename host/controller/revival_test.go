package controller

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// newParkedWorld has a Stack that waits for somebody, and that has read one object of every
// kind that there is, one that is absent of each, and one on a remote.
func newParkedWorld(t *testing.T) *world {
	t.Helper()
	module, entry := newModule(), newEntry("web")
	module.Status.Digest = "sha256:1"
	module.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ModuleReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ModuleReasonLoaded}}
	values := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "values"}}
	w := newWorld(t, newStack(), newSecret("token"), values, module, entry)
	w.inputs = []provisioner.Input{
		secretInput("token", w.versionOfSecret("token")), secretInput("absent", ""),
		{ScopeID: scope.HomeID, Kind: inputConfigMap, Namespace: "team", Name: "values", Version: w.readVersion(values)},
		{ScopeID: scope.HomeID, Kind: inputConfigMap, Namespace: "team", Name: "absent", Absent: true},
		{ScopeID: scope.HomeID, Kind: inputModule, Name: "cilium"}, {ScopeID: scope.HomeID, Kind: inputModule, Name: "absent", Absent: true},
		{ScopeID: scope.HomeID, Kind: inputApplication, Name: "web"}, {ScopeID: scope.HomeID, Kind: inputApplication, Name: "absent", Absent: true},
		{ScopeID: "4be1", Kind: inputSecret, Namespace: "team", Name: "remote", Version: "7"},
	}
	w.provision = returns(provisioner.UserActionRequired(abi.ReasonNotGranted, secretText))
	require.Equal(t, ctrl.Result{}, w.reconcile())
	require.NotNil(t, w.stack().Status.Parked)
	require.Equal(t, ctrl.Result{}, w.reconcile(), "it sleeps")
	w.steps()
	return w
}

func newEntry(name string) *v1alpha1.Application {
	return &v1alpha1.Application{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 1}}
}

func (w *world) readVersion(o client.Object) string {
	w.t.Helper()
	require.NoError(w.t, w.base.Get(w.t.Context(), client.ObjectKeyFromObject(o), o))
	return o.GetResourceVersion()
}

// change edits an object as somebody else would, its status included.
func change[T client.Object](w *world, o T, name types.NamespacedName, edit func(T)) {
	w.t.Helper()
	ctx := context.WithoutCancel(w.t.Context())
	require.NoError(w.t, w.base.Get(ctx, name, o))
	edit(o)
	status := o.DeepCopyObject().(client.Object)
	require.NoError(w.t, w.base.Update(ctx, o))
	status.SetResourceVersion(o.GetResourceVersion())
	if _, has := client.Object(o).(*v1alpha1.Module); has {
		require.NoError(w.t, w.base.Status().Update(ctx, status))
	}
}

func (w *world) module(edit func(*v1alpha1.Module)) {
	change(w, &v1alpha1.Module{}, types.NamespacedName{Name: "cilium"}, edit)
}

func (w *world) entry(edit func(*v1alpha1.Application)) {
	change(w, &v1alpha1.Application{}, types.NamespacedName{Name: "web"}, edit)
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	require.NoError(w.t, w.base.Create(context.WithoutCancel(w.t.Context()), o))
}

func (w *world) remove(o client.Object) {
	w.t.Helper()
	require.NoError(w.t, w.base.Delete(context.WithoutCancel(w.t.Context()), o))
}

// The list of DESIGN.md §5: what revives a parked Stack.
func TestWhatRevives(t *testing.T) {
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "team", Name: name} }
	annotate := func(token string) func(*world) {
		return func(w *world) {
			w.edit(func(s *v1alpha1.Stack) { s.Annotations = map[string]string{v1alpha1.RetryAnnotation: token} })
		}
	}
	cases := map[string]struct {
		reason string
		change func(*world)
		// kept says that module calls are still remembered.
		kept bool
	}{
		"Case105 generation":    {reason: "the spec was edited", change: func(w *world) { w.edit(func(s *v1alpha1.Stack) { s.Generation++ }) }, kept: true},
		"Case107 retry token":   {reason: "it was asked for", change: annotate("now")},
		"Case108 module digest": {reason: "another artifact", change: func(w *world) { w.module(func(m *v1alpha1.Module) { m.Status.Digest = "sha256:2" }) }},
		"Case108 module grant":  {reason: "an admin decided", change: func(w *world) { w.module(func(m *v1alpha1.Module) { m.Generation++ }) }},
		"Case108 module not ready": {reason: "its calls would go otherwise", change: func(w *world) {
			w.module(func(m *v1alpha1.Module) { m.Status.Conditions[0].Status = metav1.ConditionFalse })
		}},
		"Case108 module deleted":    {reason: "it is gone", change: func(w *world) { w.remove(newModule()) }},
		"Case108 module created":    {reason: "it was missed", change: func(w *world) { m := newModule(); m.Name = "absent"; w.create(m) }},
		"Case108 catalogue":         {reason: "any edit of the entry: a range may now mean another version", change: func(w *world) { w.entry(func(a *v1alpha1.Application) { a.Generation++ }) }},
		"Case108 catalogue deleted": {reason: "it is gone", change: func(w *world) { w.remove(newEntry("web")) }},
		"Case108 catalogue created": {reason: "it was missed", change: func(w *world) { w.create(newEntry("absent")) }},
		"Case108 catalogue replaced": {reason: "another object of that name", change: func(w *world) {
			w.remove(newEntry("web"))
			again := newEntry("web")
			again.UID = "uid-again"
			w.create(again)
		}},
		"Secret changed": {reason: "it was read", change: func(w *world) { w.touch("token") }},
		"Secret deleted": {reason: "it was read", change: func(w *world) { w.remove(newSecret("token")) }},
		"Secret created": {reason: "it was missed", change: func(w *world) { w.create(newSecret("absent")) }},
		"Secret labelled": {reason: "only metadata is watched, so every write counts", change: func(w *world) {
			change(w, &corev1.Secret{}, types.NamespacedName{Namespace: "team", Name: "token"}, func(s *corev1.Secret) { s.Labels = map[string]string{"a": "b"} })
		}},
		"ConfigMap changed": {reason: "it was read", change: func(w *world) {
			change(w, &corev1.ConfigMap{}, types.NamespacedName{Namespace: "team", Name: "values"}, func(c *corev1.ConfigMap) { c.Data = map[string]string{"a": "b"} })
		}},
		"ConfigMap deleted": {reason: "it was read", change: func(w *world) { w.remove(&corev1.ConfigMap{ObjectMeta: named("values")}) }},
		"ConfigMap created": {reason: "it was missed", change: func(w *world) { w.create(&corev1.ConfigMap{ObjectMeta: named("absent")}) }},
		"application":       {reason: "the driver has seen another outcome", change: func(w *world) { w.Wakes.Add(theStack(), Wake{Driver: true}) }, kept: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newParkedWorld(t)
			c.change(w)
			w.reconcile()
			steps := w.steps()
			require.Contains(t, steps, step("provision"), c.reason)
			require.Equal(t, !c.kept, steps[0] == "forget uid-web", "what the module was told changed, or it did not")
		})
	}
}

// The near misses: what does not revive, whatever it wakes.
func TestWhatDoesNotRevive(t *testing.T) {
	restart := func(w *world) { w.Wakes, w.Index = NewWakes(), NewInputIndex() }
	cases := map[string]struct {
		reason string
		change func(*world)
	}{
		"label": {reason: "other metadata", change: func(w *world) { w.edit(func(s *v1alpha1.Stack) { s.Labels = map[string]string{"a": "b"} }) }},
		"annotation": {reason: "another annotation", change: func(w *world) {
			w.edit(func(s *v1alpha1.Stack) { s.Annotations = map[string]string{"caisson.dev/note": "b"} })
		}},
		"gone": {reason: "a word that only counts in a deletion", change: func(w *world) {
			w.edit(func(s *v1alpha1.Stack) { s.Annotations = map[string]string{v1alpha1.GoneAnnotation: "workload"} })
		}},
		"status": {reason: "somebody else wrote into it", change: func(w *world) {
			stack := w.stack()
			stack.Status.Summary, stack.Status.InputsDigest = "9/9", "sha256:forged"
			meta.SetStatusCondition(&stack.Status.Conditions, metav1.Condition{Type: "Mesh", Status: metav1.ConditionTrue, Reason: "Joined"})
			require.NoError(w.t, w.base.Status().Update(context.WithoutCancel(w.t.Context()), stack))
		}},
		"unrelated Secret": {reason: "nobody has read it", change: func(w *world) { w.create(newSecret("unrelated")) }},
		"Secret elsewhere": {reason: "the name is the same, the namespace is not", change: func(w *world) { s := newSecret("absent"); s.Namespace = "other"; w.create(s) }},
		"ConfigMap like a Secret": {reason: "the name is the same, the kind is not", change: func(w *world) {
			w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "token"}})
		}},
		"Secret of a remote":    {reason: "that of the name at home is another", change: func(w *world) { w.create(newSecret("remote")) }},
		"module polled":         {reason: "the tag means the same digest", change: func(w *world) { w.module(func(m *v1alpha1.Module) { m.Status.Conditions[0].Message = "polled again" }) }},
		"module labelled":       {reason: "its metadata decides nothing", change: func(w *world) { w.module(func(m *v1alpha1.Module) { m.Labels = map[string]string{"a": "b"} }) }},
		"catalogue labelled":    {reason: "its metadata decides nothing", change: func(w *world) { w.entry(func(a *v1alpha1.Application) { a.Labels = map[string]string{"a": "b"} }) }},
		"another module":        {reason: "not one of its nodes", change: func(w *world) { m := newModule(); m.Name = "other"; w.create(m) }},
		"resync":                {reason: "a park outlives every clock", change: func(w *world) { w.pass(1000 * time.Hour) }},
		"Case104 restart":       {reason: "another process knows from the status what this one knew", change: restart},
		"Case104 restart, late": {reason: "and at any time", change: func(w *world) { restart(w); w.pass(1000 * time.Hour) }},
		"leader change": {reason: "a replica that has led before remembers an older time", change: func(w *world) {
			w.Wakes.Synced(theStack(), epoch().Add(-time.Hour), time.Minute)
			w.Wakes.Failed(theStack())
		}},
		"event of another Stack": {reason: "the driver said a different name", change: func(w *world) { w.Wakes.Add(types.NamespacedName{Namespace: "other", Name: "web"}, Wake{Driver: true}) }},
		"Case107 same token": {reason: "it has had its retry", change: func(w *world) {
			w.edit(func(s *v1alpha1.Stack) { s.Annotations = map[string]string{v1alpha1.RetryAnnotation: "now"} })
			w.reconcile()
			require.Contains(w.t, w.steps(), step("provision"))
			w.edit(func(s *v1alpha1.Stack) {
				s.Annotations[v1alpha1.RetryAnnotation] = "now"
				s.Labels = map[string]string{"a": "b"}
			})
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newParkedWorld(t)
			c.change(w)
			before := w.stack()
			require.Equal(t, ctrl.Result{}, w.reconcile(), "and no clock is set")
			require.Empty(t, w.steps(), c.reason)
			require.Equal(t, before, w.stack())
		})
	}
}

// What is neither: a deletion and a suspension go their own ways, and parks end with them.
func TestWhatEndsAPark(t *testing.T) {
	t.Run("Case109 deletion", func(t *testing.T) {
		w := newParkedWorld(t)
		require.NoError(t, w.base.Delete(t.Context(), w.stack()))
		w.reconcile()
		require.Contains(t, w.steps(), step("deprovision"))
		require.True(t, w.gone())
	})
	t.Run("Case113 suspension", func(t *testing.T) {
		w := newParkedWorld(t)
		w.edit(func(s *v1alpha1.Stack) { s.Spec.Suspend = true; s.Generation++ })
		w.reconcile()
		require.Equal(t, []step{"patch status"}, w.steps(), "no pass")
		w.touch("token")
		w.edit(func(s *v1alpha1.Stack) { s.Annotations = map[string]string{v1alpha1.RetryAnnotation: "now"} })
		require.Equal(t, ctrl.Result{}, w.reconcile())
		require.Empty(t, w.steps(), "nothing revives what is suspended")
		w.edit(func(s *v1alpha1.Stack) { s.Spec.Suspend = false; s.Generation++ })
		w.reconcile()
		require.Contains(t, w.steps(), step("provision"))
	})
}

// A park that waits for an object on a remote is looked at now and then, since nobody
// watches there; one that waits at home is not.
func TestParkOnARemoteIsLookedAt(t *testing.T) {
	w := newParkedWorld(t)
	w.provision = returns(provisioner.Terminal(abi.ReasonInvalidKubeconfig, secretText))
	w.edit(func(s *v1alpha1.Stack) { s.Generation++ })
	require.InDelta(t, float64(DefaultResync), float64(w.reconcile().RequeueAfter), float64(DefaultResync)/10)
	w.steps()
	require.Positive(t, w.reconcile().RequeueAfter)
	require.Empty(t, w.steps(), "not before it is due")
	w.pass(DefaultResync * 2)
	w.reconcile()
	require.Equal(t, []step{"tenant team/builder", "provision", "list uid-web"}, w.steps(), "and modules are answered from memory")
	w.inputs = w.inputs[:len(w.inputs)-1]
	w.edit(func(s *v1alpha1.Stack) { s.Generation++ })
	require.Equal(t, ctrl.Result{}, w.reconcile())
}
