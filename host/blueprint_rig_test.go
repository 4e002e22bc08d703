package host_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// The ways in which CRDs treat status.conditions.
const (
	conditionItem = `{type: object, required: [type, status], properties: {type: {type: string}, status: {type: string},
            reason: {type: string}, message: {type: string}, observedGeneration: {type: integer}, lastTransitionTime: {type: string}}}`
	keyedStatus  = `{type: object, properties: {conditions: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [type], items: ` + conditionItem + `}}}`
	atomicStatus = `{type: object, properties: {conditions: {type: array, items: ` + conditionItem + `}}}`
	bareStatus   = `{type: object, properties: {phase: {type: string}}}`
)

// foreign is a kind that knows nothing of Caisson, with a tenant where its objects are.
type foreign struct {
	*rig
	gvk       schema.GroupVersionKind
	plural    string
	scope     string
	status    string
	sub       string
	namespace string
}

// foreign installs the CRD of a kind, gives the operator rights on it, and makes a tenant
// for its objects. Everything goes with the test.
func (r *rig) foreign(t *testing.T, kind, scope, status, subresources string) *foreign {
	t.Helper()
	f := &foreign{
		rig: r, gvk: groupKindOf(kind),
		plural: strings.ToLower(kind) + "s", scope: scope, status: status, sub: subresources,
	}
	f.install(t)
	f.permit(t)
	f.namespace = r.tenant(t, "bp-"+strings.ToLower(kind))
	return f
}

// groupKindOf gives each kind a group of its own, so that tests do not meet.
func groupKindOf(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: strings.ToLower(kind) + ".example.com", Version: "v1", Kind: kind}
}

func (f *foreign) crdName() string { return f.plural + "." + f.gvk.Group }

func (f *foreign) install(t *testing.T) {
	t.Helper()
	f.apply(t, fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %s}
spec:
  group: %s
  scope: %s
  names: {kind: %s, plural: %s, singular: %s}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: %s
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
            status: %s
`, f.crdName(), f.gvk.Group, f.scope, f.gvk.Kind, f.plural, strings.ToLower(f.gvk.Kind), f.sub, f.status))
	t.Cleanup(func() { f.uninstall(t) })
}

// uninstall deletes the CRD, and waits until it is gone.
func (f *foreign) uninstall(t *testing.T) {
	t.Helper()
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName(f.crdName())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	require.NoError(t, client.IgnoreNotFound(f.admin.Delete(ctx, crd)))
	for ctx.Err() == nil {
		if apierrors.IsNotFound(f.admin.Get(ctx, client.ObjectKeyFromObject(crd), crd)) {
			return
		}
		<-tick(ctx)
	}
	t.Errorf("the CRD %s does not go", f.crdName())
}

// permit is what an admin does for a kind: a role that the operator's aggregates.
func (f *foreign) permit(t *testing.T) {
	t.Helper()
	f.create(t, f.role())
}

func (f *foreign) role() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "caisson-owners-" + f.plural, Labels: map[string]string{"rbac.caisson.dev/aggregate-to-operator": "true"}},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{f.gvk.Group}, Resources: []string{f.plural, f.plural + "/status"}, Verbs: []string{"get", "list", "watch", "patch"},
		}},
	}
}

// blueprint creates the Blueprint of the kind, out of YAML that stands below the resource.
func (f *foreign) blueprint(t *testing.T, name, spec string) *v1alpha1.Blueprint {
	t.Helper()
	b := &v1alpha1.Blueprint{ObjectMeta: metav1.ObjectMeta{Name: name}}
	decode(t, fmt.Sprintf("resource: {group: %s, kind: %s}\n", f.gvk.Group, f.gvk.Kind)+spec, &b.Spec)
	f.create(t, b)
	return b
}

// awaitBlueprint waits until a condition of a Blueprint has a status and reason, and
// returns the Blueprint.
func (r *rig) awaitBlueprint(t *testing.T, name, condition, want string) *v1alpha1.Blueprint {
	t.Helper()
	b := &v1alpha1.Blueprint{}
	eventually(t, "Blueprint "+name+" "+condition+" "+want, func() (bool, string) {
		r.alive(t)
		require.NoError(t, r.admin.Get(t.Context(), client.ObjectKey{Name: name}, b))
		c := meta.FindStatusCondition(b.Status.Conditions, condition)
		if c == nil {
			return false, "no condition"
		}
		return string(c.Status)+"/"+c.Reason == want && c.ObservedGeneration == b.Generation, string(c.Status) + "/" + c.Reason + ": " + c.Message
	})
	return b
}

// owner creates an object of the kind.
func (f *foreign) owner(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	o := f.object(name)
	fields := map[string]any{}
	decode(t, spec, &fields)
	o.Object["spec"] = fields
	f.create(t, o)
	return o
}

func (f *foreign) object(name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(f.gvk)
	o.SetName(name)
	if f.scope == "Namespaced" {
		o.SetNamespace(f.namespace)
	}
	return o
}

func (f *foreign) read(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	o := f.object(name)
	require.NoError(t, f.admin.Get(t.Context(), client.ObjectKeyFromObject(o), o))
	return o
}

// conditions returns what an owner says, by type.
func ownerConditions(t *testing.T, o *unstructured.Unstructured) map[string]metav1.Condition {
	t.Helper()
	list, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
	require.NoError(t, err)
	found := map[string]metav1.Condition{}
	for _, entry := range list {
		fields, ok := entry.(map[string]any)
		require.True(t, ok)
		var c metav1.Condition
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &c))
		require.NotContains(t, found, c.Type, "each type is there once")
		found[c.Type] = c
	}
	return found
}

// awaitOwner waits until a condition of an owner has a status and a reason.
func (f *foreign) awaitOwner(t *testing.T, name, condition, want string) *unstructured.Unstructured {
	t.Helper()
	var o *unstructured.Unstructured
	eventually(t, f.gvk.Kind+" "+name+" "+condition+" "+want, func() (bool, string) {
		f.alive(t)
		o = f.read(t, name)
		c := ownerConditions(t, o)[condition]
		seen := string(c.Status) + "/" + c.Reason
		return seen == want && (c.ObservedGeneration == 0 || c.ObservedGeneration == o.GetGeneration()), seen + ": " + c.Message
	})
	return o
}

// stackOf is where the Stack of an owner is.
func (f *foreign) stackOf(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: f.namespace, Name: strings.ToLower(f.gvk.Kind) + "-" + name}
}

// awaitNoOwner waits until an owner is gone.
func (f *foreign) awaitNoOwner(t *testing.T, name string) {
	t.Helper()
	eventually(t, "the end of "+name, func() (bool, string) {
		o := f.object(name)
		err := f.admin.Get(t.Context(), client.ObjectKeyFromObject(o), o)
		return apierrors.IsNotFound(err), fmt.Sprint(o.GetFinalizers(), o.Object["status"])
	})
}

// patchOwner changes an object as somebody else.
func (f *foreign) patchOwner(t *testing.T, name, patch string, subresource ...string) {
	t.Helper()
	raw := client.RawPatch(types.MergePatchType, []byte(patch))
	if slices.Contains(subresource, "status") {
		require.NoError(t, f.admin.Status().Patch(t.Context(), f.object(name), raw, client.FieldOwner("somebody")))
		return
	}
	require.NoError(t, f.admin.Patch(t.Context(), f.object(name), raw, client.FieldOwner("somebody")))
}
