package controller

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// objectName is the finalizer and field manager of the tests.
const objectName = "example.com/widget"

// objectWorld is a reconciler of objects over the faked surroundings of a Stack's. The
// objects are Modules, which stand for a kind with conditions and an observedGeneration.
type objectWorld struct {
	*world
	kept    client.Client
	objects *ObjectReconciler
	// planned are the objects that trees were made for, account is what they act as.
	planned []client.Object
	account string
	asked   []string
}

func newObjectWorld(t *testing.T) *objectWorld {
	t.Helper()
	object := &v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "uid-web", Generation: 1}}
	w := &objectWorld{world: newWorld(t, object), account: "builder"}
	w.Client = interceptor.NewClient(w.base, interceptor.Funcs{SubResourceApply: w.applyStatus})
	w.kept = fake.NewClientBuilder().WithScheme(testScheme(t)).Build()
	w.State = NewStateStore(w.kept, "system")
	w.Tenants = w
	w.objects = &ObjectReconciler{Passes: w.StackReconciler, Records: NewRecords(w.kept, "system"), Kind: ObjectKind{
		GVK: v1alpha1.GroupVersion().WithKind("Module"), Name: objectName,
		New:     func() client.Object { return &v1alpha1.Module{} },
		Account: func(client.Object) (string, string) { return "accounts", w.account },
		Plan: func(object client.Object, stack *v1alpha1.Stack, inputs provisioner.InputRecorder) (Tree, error) {
			w.planned = append(w.planned, object)
			return w.Plan(stack, inputs)
		},
	}}
	return w
}

// applyStatus does what the server does with the fields of one manager, as far as it matters
// here: the conditions are replaced as a whole.
func (w *objectWorld) applyStatus(ctx context.Context, c client.Client, _ string, applied runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
	w.did("apply status")
	if w.onStatus != nil {
		if err := w.onStatus(); err != nil {
			return err
		}
	}
	raw, err := json.Marshal(applied)
	if err != nil {
		return err
	}
	patch := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, patch); err != nil {
		return err
	}
	object := &v1alpha1.Module{}
	if err := c.Get(ctx, client.ObjectKey{Name: patch.GetName()}, object); err != nil {
		return err
	}
	status, _ := json.Marshal(patch.Object["status"])
	object.Status = v1alpha1.ModuleStatus{}
	if err := json.Unmarshal(status, &object.Status); err != nil {
		return err
	}
	err = c.Status().Update(ctx, object)
	if answered, ok := applied.(interface{ SetResourceVersion(version string) }); ok {
		answered.SetResourceVersion(object.ResourceVersion)
	}
	return err
}

// Tenant implements Tenants.
func (w *objectWorld) Tenant(namespace, account string) (*rest.Config, client.Client, error) {
	w.asked = append(w.asked, namespace+"/"+account)
	return &rest.Config{}, w.base, nil
}

func (w *objectWorld) run(t *testing.T) (ctrl.Result, error) {
	t.Helper()
	return w.objects.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "web"}})
}

func (w *objectWorld) object(t *testing.T) *v1alpha1.Module {
	t.Helper()
	object := &v1alpha1.Module{}
	require.NoError(t, w.base.Get(t.Context(), client.ObjectKey{Name: "web"}, object))
	return object
}

func (w *objectWorld) secrets(t *testing.T) []corev1.Secret {
	t.Helper()
	list := &corev1.SecretList{}
	require.NoError(t, w.kept.List(t.Context(), list))
	return list.Items
}

func TestObjectBecomesAvailable(t *testing.T) {
	w := newObjectWorld(t)
	_, err := w.run(t)
	require.NoError(t, err)
	object := w.object(t)
	require.Equal(t, []string{objectName}, object.Finalizers)
	require.True(t, meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.ConditionAvailable))
	require.Equal(t, int64(1), object.Status.ObservedGeneration)
	require.Equal(t, []string{"accounts/builder"}, w.asked, "the account need not be in the object's namespace")
	require.Len(t, w.planned, 1)
	require.Len(t, w.secrets(t), 1)

	before := len(w.trace)
	for range 3 {
		_, err = w.run(t)
		require.NoError(t, err)
	}
	require.Len(t, w.trace, before, "a converged object is left alone")
}

// TestObjectStaysParked: over a restart, which is a reconciler with an empty memory.
func TestObjectStaysParked(t *testing.T) {
	w := newObjectWorld(t)
	w.provision = func(context.Context) error { return provisioner.Terminal(abi.ReasonInvalidConfig, "hush") }
	_, err := w.run(t)
	require.NoError(t, err)
	require.True(t, meta.IsStatusConditionTrue(w.object(t).Status.Conditions, v1alpha1.ConditionStalled))
	require.NotContains(t, string(w.secrets(t)[0].Data[recordKey]), "hush", "the why is for logs")

	w.objects.Records = NewRecords(w.kept, "system")
	w.Wakes, w.Index = NewWakes(), NewInputIndex()
	planned, trace := len(w.planned), len(w.trace)
	result, err := w.run(t)
	require.NoError(t, err)
	require.Zero(t, result.RequeueAfter)
	require.Len(t, w.planned, planned)
	require.Len(t, w.trace, trace)

	w.provision = nil
	object := w.object(t)
	object.Annotations = map[string]string{v1alpha1.RetryAnnotation: "now"}
	require.NoError(t, w.base.Update(t.Context(), object))
	_, err = w.run(t)
	require.NoError(t, err)
	require.True(t, meta.IsStatusConditionTrue(w.object(t).Status.Conditions, v1alpha1.ConditionAvailable), "a retry that is asked for revives it")
}

// TestObjectIsWrittenBeforeItsRecord: a record without the conditions would say that there
// is nothing to do.
func TestObjectIsWrittenBeforeItsRecord(t *testing.T) {
	w := newObjectWorld(t)
	w.onStatus = once(errors.New("the server is down"))
	_, err := w.run(t)
	require.Error(t, err)
	require.Empty(t, w.secrets(t))
	_, err = w.run(t)
	require.NoError(t, err)
	require.Len(t, w.secrets(t), 1)
	require.Len(t, w.planned, 2, "and the pass is run again")
}

func TestObjectGoes(t *testing.T) {
	w := newObjectWorld(t)
	_, err := w.run(t)
	require.NoError(t, err)
	require.NoError(t, w.base.Delete(t.Context(), w.object(t)))

	t.Run("never without a tree", func(t *testing.T) {
		// Nothing is installed, but what native leaves made is in no inventory.
		w.planErr = errors.New("no tree")
		_, err := w.run(t)
		require.NoError(t, err)
		require.NotNil(t, w.object(t).DeletionTimestamp)
		w.planErr = nil
	})
	t.Run("nor without an account", func(t *testing.T) {
		w.account = ""
		_, err := w.run(t)
		require.NoError(t, err)
		require.NotNil(t, w.object(t).DeletionTimestamp)
		w.account = "builder"
	})
	_, err = w.run(t)
	require.NoError(t, err)
	err = w.base.Get(t.Context(), client.ObjectKey{Name: "web"}, &v1alpha1.Module{})
	require.True(t, apierrors.IsNotFound(err))
	require.Empty(t, w.secrets(t), "its record goes with it")
	_, err = w.run(t)
	require.NoError(t, err, "and a late event finds nothing to do")
}

func TestObjectOwns(t *testing.T) {
	kind := newObjectWorld(t).objects.Kind
	for name, test := range map[string]struct {
		reason string
		owner  scope.Owner
		want   bool
	}{
		"Own":     {"group, version and kind", scope.Owner{APIVersion: "caisson.dev/v1alpha1", Kind: "Module"}, true},
		"Kind":    {"another kind", scope.Owner{APIVersion: "caisson.dev/v1alpha1", Kind: "Stack"}, false},
		"Group":   {"another group", scope.Owner{APIVersion: "example.com/v1alpha1", Kind: "Module"}, false},
		"Nothing": {"an owner that says nothing is a Stack", scope.Owner{}, false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, test.want, kind.owns(test.owner), test.reason) })
	}
}

func TestObservesGeneration(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		fresh  func() client.Object
		want   bool
	}{
		"Has":     {"its field would be known", func() client.Object { return &v1alpha1.Module{} }, true},
		"HasNot":  {"a field that the CRD does not know is refused", func() client.Object { return &corev1.ConfigMap{} }, false},
		"Untyped": {"nobody knows", func() client.Object { return &unstructured.Unstructured{} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, ObjectKind{New: test.fresh}.observesGeneration(), test.reason)
		})
	}
}

// TestRecordOfAnotherUID: an object that was made again under its name begins anew.
func TestRecordOfAnotherUID(t *testing.T) {
	w := newObjectWorld(t)
	records, kind := w.objects.Records, w.objects.Kind
	first := &v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "1"}}
	second := &v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "2"}}
	require.NoError(t, records.save(t.Context(), kind, first, v1alpha1.StackStatus{ObservedGeneration: 3}))
	status, err := records.load(t.Context(), kind, first)
	require.NoError(t, err)
	require.Equal(t, int64(3), status.ObservedGeneration)
	status, err = records.load(t.Context(), kind, second)
	require.NoError(t, err)
	require.Zero(t, status)

	t.Run("lost races are noticed", func(t *testing.T) {
		other := NewRecords(w.kept, "system")
		_, err := other.load(t.Context(), kind, first)
		require.NoError(t, err)
		_, err = records.load(t.Context(), kind, first)
		require.NoError(t, err)
		require.NoError(t, other.save(t.Context(), kind, first, v1alpha1.StackStatus{ObservedGeneration: 4}))
		require.True(t, apierrors.IsConflict(records.save(t.Context(), kind, first, v1alpha1.StackStatus{ObservedGeneration: 5})))
		status, err := records.load(t.Context(), kind, first)
		require.NoError(t, err)
		require.Equal(t, int64(4), status.ObservedGeneration, "and it is read again")
	})
	t.Run("one that is broken counts as none", func(t *testing.T) {
		secret := &corev1.Secret{}
		require.NoError(t, w.kept.Get(t.Context(), client.ObjectKey{Namespace: "system", Name: recordNameOf("1")}, secret))
		secret.Data[recordKey] = []byte("{")
		require.NoError(t, w.kept.Update(t.Context(), secret))
		status, err := NewRecords(w.kept, "system").load(t.Context(), kind, first)
		require.NoError(t, err)
		require.Zero(t, status)
	})
}
