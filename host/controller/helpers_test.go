package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/plan"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// theStack is the one that most tests are about.
func theStack() types.NamespacedName { return types.NamespacedName{Namespace: "team", Name: "web"} }

func newStack() *v1alpha1.Stack {
	return &v1alpha1.Stack{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", UID: "uid-web", Generation: 1},
		Spec: v1alpha1.StackSpec{
			ServiceAccountName: "builder", Root: "all",
			Provisioners: []v1alpha1.Node{{Name: "all", Module: &v1alpha1.ModuleNode{Ref: "cilium"}}},
		},
	}
}

// newDeletedStack is one that a pass has brought up and that somebody has deleted.
func newDeletedStack(t *testing.T) *v1alpha1.Stack {
	t.Helper()
	stack := newStack()
	stack.Finalizers = []string{v1alpha1.StackFinalizer}
	now := metav1.NewTime(epoch())
	stack.DeletionTimestamp = &now
	return stack
}

func epoch() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func testScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	return scheme
}

// step is one thing that was done, in the order in which it was.
type step string

// world is a Stack reconciler with everything around it faked, and a trace of what it did.
type world struct {
	*StackReconciler
	t    *testing.T
	base client.WithWatch

	mu        sync.Mutex
	clock     time.Time
	trace     []step
	events    []string
	inputs    []provisioner.Input
	nodes     []plan.Result
	facts     map[string]json.RawMessage
	installed []cd.Installed
	abandoned []string

	planErr, tenantErr, listErr, dropErr error
	// provision and deprovision are what the tree does; nil is OK.
	provision, deprovision func(ctx context.Context) error
	// onPatch and onStatus may refuse a write.
	onPatch, onStatus func() error
}

// newWorld makes one with objects in it.
func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{t: t, clock: epoch(), nodes: []plan.Result{result("all", v1alpha1.KindModule, abi.OK.String(), "")}}
	served := meta.NewDefaultRESTMapper(nil)
	served.Add(v1alpha1.GroupVersion().WithKind("Stack"), meta.RESTScopeNamespace)
	w.base = fake.NewClientBuilder().WithScheme(testScheme(t)).WithRESTMapper(served).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.Stack{}, &v1alpha1.Module{}).Build()
	counters, err := NewMetrics(prometheus.NewRegistry())
	require.NoError(t, err)
	w.StackReconciler = &StackReconciler{
		Client:  interceptor.NewClient(w.base, w.interceptors()),
		Planner: w, Tenants: w, Memory: w, Inventory: w, State: w, Events: w, Metrics: counters,
		Wakes: NewWakes(), Index: NewInputIndex(), Clock: w.now,
	}
	return w
}

func (w *world) interceptors() interceptor.Funcs {
	refuse := func(f func() error) error {
		if f == nil {
			return nil
		}
		return f()
	}
	return interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			w.did("patch")
			if err := refuse(w.onPatch); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			w.did("patch " + sub)
			if err := refuse(w.onStatus); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return errors.New("the reconciler creates nothing")
		},
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			return errors.New("the reconciler updates nothing")
		},
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			return errors.New("the reconciler deletes nothing")
		},
	}
}

func (w *world) did(s string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, step(s))
}

// steps returns the trace since the last call.
func (w *world) steps() []step {
	w.mu.Lock()
	defer w.mu.Unlock()
	trace := w.trace
	w.trace = nil
	return trace
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock = w.clock.Add(d)
}

// reconcile runs one reconcile that must not fail.
func (w *world) reconcile() ctrl.Result {
	w.t.Helper()
	result, err := w.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: theStack()})
	require.NoError(w.t, err)
	return result
}

// stack reads the Stack as the API has it.
func (w *world) stack() *v1alpha1.Stack {
	w.t.Helper()
	stack := &v1alpha1.Stack{}
	require.NoError(w.t, w.base.Get(w.t.Context(), theStack(), stack))
	return stack
}

// edit changes the Stack's spec or metadata, as a user would.
func (w *world) edit(change func(*v1alpha1.Stack)) {
	w.t.Helper()
	stack := w.stack()
	change(stack)
	require.NoError(w.t, w.base.Update(context.WithoutCancel(w.t.Context()), stack))
}

// Plan implements Planner.
func (w *world) Plan(_ *v1alpha1.Stack, inputs provisioner.InputRecorder) (Tree, error) {
	if w.planErr != nil {
		return nil, w.planErr
	}
	return &fakeTree{world: w, inputs: inputs}, nil
}

// Tenant implements Tenants.
func (w *world) Tenant(namespace, account string) (*rest.Config, client.Client, error) {
	w.did("tenant " + namespace + "/" + account)
	return &rest.Config{}, w.base, w.tenantErr
}

// Forget implements Forgetter.
func (w *world) Forget(uid string) { w.did("forget " + uid) }

// List implements Inventory.
func (w *world) List(_ context.Context, owner scope.Owner) ([]cd.Installed, error) {
	w.did("list " + owner.UID)
	return w.installed, w.listErr
}

// DropState implements StateDropper.
func (w *world) DropState(context.Context, *v1alpha1.Stack) error {
	w.did("drop state")
	return w.dropErr
}

// Eventf implements events.EventRecorder.
func (w *world) Eventf(_, _ runtime.Object, kind, reason, action, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, kind+" "+reason+" "+action+": "+fmt.Sprintf(format, args...))
}

var _ events.EventRecorder = (*world)(nil)

// fakeTree does what its world says.
type fakeTree struct {
	*world
	inputs provisioner.InputRecorder
}

func (f *fakeTree) run(ctx context.Context, name string, do func(context.Context) error) error {
	f.did(name)
	for _, i := range f.world.inputs {
		f.inputs.RecordInput(i)
	}
	if do == nil {
		return nil
	}
	return do(ctx)
}

// Provision implements Tree.
func (f *fakeTree) Provision(ctx context.Context) error {
	return f.run(ctx, "provision", f.provision)
}

// Deprovision implements Tree.
func (f *fakeTree) Deprovision(ctx context.Context) error {
	return f.run(ctx, "deprovision", f.deprovision)
}

// Results implements Tree.
func (f *fakeTree) Results() []plan.Result { return f.nodes }

// Facts implements Tree.
func (f *fakeTree) Facts() map[string]json.RawMessage { return f.facts }

// Abandoned implements Tree.
func (f *fakeTree) Abandoned() []string { return f.abandoned }

func result(path, kind, state, reason string) plan.Result {
	name := path
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			name = path[i+1:]
			break
		}
	}
	sentence, _ := abi.HostSentence(reason)
	return plan.Result{Node: plan.Node{Name: name, Path: path, Kind: kind}, State: state, Reason: reason, Sentence: sentence}
}

// returns makes a step of a tree that returns an error under a path.
func returns(err error) func(context.Context) error {
	return func(context.Context) error { return provisioner.Under("all", err) }
}

// secretInput is an input as a tree records it.
func secretInput(name, version string) provisioner.Input {
	return provisioner.Input{ScopeID: scope.HomeID, Kind: inputSecret, Namespace: "team", Name: name, Version: version, Absent: version == ""}
}

func newSecret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}, Data: map[string][]byte{"key": []byte("value")}}
}

// versionOfSecret reads the resource version of a Secret.
func (w *world) versionOfSecret(name string) string {
	w.t.Helper()
	secret := &corev1.Secret{}
	require.NoError(w.t, w.base.Get(w.t.Context(), types.NamespacedName{Namespace: "team", Name: name}, secret))
	return secret.ResourceVersion
}

// touch changes a Secret.
func (w *world) touch(name string) {
	w.t.Helper()
	ctx := context.WithoutCancel(w.t.Context())
	secret := &corev1.Secret{}
	require.NoError(w.t, w.base.Get(ctx, types.NamespacedName{Namespace: "team", Name: name}, secret))
	secret.Data["key"] = append(secret.Data["key"], '!')
	require.NoError(w.t, w.base.Update(ctx, secret))
}
