package host_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// awaitRight waits until the API server lets the operator write the status of owners, or
// not: roles are put together some time after they have changed.
func (f *foreign) awaitRight(t *testing.T, want string) {
	t.Helper()
	eventually(t, "the right of the operator is "+want, func() (bool, string) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + operatorNamespace + ":" + operatorAccount,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: "patch", Group: f.gvk.Group, Version: "v1", Resource: f.plural, Subresource: "status",
			},
		}}
		require.NoError(t, f.admin.Create(t.Context(), review))
		seen := fmt.Sprint(review.Status.Allowed)
		return seen == want, seen
	})
}

// TestBlueprintRightsRevoked: a right that is taken away while owners are watched is
// missed at the next write, and not when the watch ends. The Stacks go on; and all goes on
// when the right is there again.
func TestBlueprintRightsRevoked(t *testing.T) {
	r := needRig(t)
	r.hostileModule(t, "bp-revoked")
	f := r.foreign(t, "Revoked", "Namespaced", keyedStatus, "{status: {}}")
	f.blueprint(t, "revoked", changed(t, guestTree, "MODULE", "bp-revoked"))
	f.owner(t, "web", "behaviour: ok")
	f.awaitOwner(t, "web", "Available", available)
	uid := r.get(t, f.stackOf("web")).UID

	require.NoError(t, r.admin.Delete(t.Context(), f.role()))
	f.awaitRight(t, "false")
	f.patchOwner(t, "web", `{"spec":{"behaviour":"secret"}}`)
	b := r.awaitBlueprint(t, "revoked", v1alpha1.ConditionAccepted, "False/Forbidden")
	for _, condition := range []string{v1alpha1.ConditionAccepted, "Ready"} {
		require.Contains(t, messageOf(b, condition), "The operator may not list revokeds.revoked.example.com, watch revokeds.revoked.example.com, patch revokeds.revoked.example.com, patch revokeds/status.revoked.example.com.")
	}
	stack := r.awaitStack(t, f.stackOf("web"), "False/UserActionRequired")
	require.Equal(t, uid, stack.UID, "the Stack had the change already, and works on")

	// The one that goes with the test is found by its name; the owner needs it until then.
	require.NoError(t, r.admin.Create(t.Context(), f.role()))
	f.awaitRight(t, "true")
	r.awaitBlueprint(t, "revoked", "Ready", "True/Running")
	f.awaitOwner(t, "web", "Stalled", "True/UserActionRequired")
	f.patchOwner(t, "web", `{"spec":{"behaviour":"ok"}}`)
	f.awaitOwner(t, "web", "Available", available)
	require.Equal(t, uid, r.get(t, f.stackOf("web")).UID)
}

// TestBlueprintBuiltIn: kinds of Kubernetes itself can be owners, with a namespace or
// without, and with a spec or without. Their conditions are not ours.
func TestBlueprintBuiltIn(t *testing.T) {
	r := needRig(t)
	r.hostileModule(t, "bp-builtin")
	for name, c := range map[string]struct {
		gvk                   schema.GroupVersionKind
		plural, scope, fields string
		of                    string
	}{
		"namespaced": {
			gvk: schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}, plural: "poddisruptionbudgets", scope: "Namespaced",
			fields: "spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}", of: "${string(resource.spec.maxUnavailable)}",
		},
		"without a namespace and a spec": {
			gvk: schema.GroupVersionKind{Group: "node.k8s.io", Version: "v1", Kind: "RuntimeClass"}, plural: "runtimeclasses", scope: "Cluster",
			fields: "handler: web", of: "${resource.handler}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := &foreign{rig: r, gvk: c.gvk, plural: c.plural, scope: c.scope}
			f.namespace = r.tenant(t, "bp-builtin")
			f.permit(t)
			blueprint := "builtin-" + c.plural
			spec := changed(t, guestTree, "MODULE", "bp-builtin")
			spec = changed(t, spec, "resource.spec.?paused.orValue(false)", "\"'paused' in resource.metadata.labels\"")
			spec = changed(t, spec, "${resource.spec.behaviour}", "${resource.metadata.labels.behaviour}")
			spec = changed(t, spec, "${resource.kind + '/' + resource.metadata.name}", c.of)
			if c.scope == "Cluster" {
				spec += "namespace: " + f.namespace + "\n"
			}
			f.blueprint(t, blueprint, spec)
			r.awaitBlueprint(t, blueprint, "Ready", "True/Running")
			r.awaitBlueprint(t, blueprint, v1alpha1.ConditionConditionsWritten, "False/NotInSchema")

			owner := f.object("web")
			decode(t, c.fields, &owner.Object)
			owner.SetGroupVersionKind(c.gvk)
			owner.SetName("web")
			if c.scope == "Namespaced" {
				owner.SetNamespace(f.namespace)
			}
			owner.SetLabels(map[string]string{"behaviour": "ok"})
			f.create(t, owner)
			eventually(t, "the Stack", func() (bool, string) {
				err := r.admin.Get(t.Context(), f.stackOf("web"), &v1alpha1.Stack{})
				return err == nil, fmt.Sprint(err)
			})
			stack := r.awaitStack(t, f.stackOf("web"), available)
			require.True(t, metav1.IsControlledBy(stack, owner))
			said := f.read(t, "web")
			require.Contains(t, said.GetFinalizers(), v1alpha1.OwnerFinalizer)
			for _, entry := range said.GetManagedFields() {
				require.False(t, strings.Contains(entry.Manager, "caisson") && strings.Contains(string(entry.FieldsV1.Raw), "f:status"), "%+v", entry)
			}
			f.awaitNote(t, owner, "Provisioned: ")

			// What the owner says is in its labels, which need no new generation.
			f.patchOwner(t, "web", `{"metadata":{"labels":{"behaviour":"secret"}}}`)
			r.awaitStack(t, f.stackOf("web"), "False/UserActionRequired")
			f.awaitNote(t, owner, "UserActionRequired: ")
			eventually(t, "the count", func() (bool, string) {
				b := r.awaitBlueprint(t, blueprint, "Ready", "True/Running")
				return b.Status.Owners == 1 && b.Status.Available == 0, describeCounts(b)
			})

			require.NoError(t, client.IgnoreNotFound(r.admin.Delete(t.Context(), owner)))
			f.awaitNoOwner(t, "web")
			r.requireNothingKept(t, string(stack.UID))
		})
	}
}

// awaitNote waits for an event about an owner.
func (f *foreign) awaitNote(t *testing.T, owner *unstructured.Unstructured, note string) {
	t.Helper()
	eventually(t, "the event "+note, func() (bool, string) {
		notes := f.eventsAbout(t, owner)
		return strings.Contains(notes, note), notes
	})
}
