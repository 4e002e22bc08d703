package host_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// guestTree is one module that behaves as the owner says.
const guestTree = `
serviceAccountName: builder
suspend: resource.spec.?paused.orValue(false)
parameters: {behaviour: "${resource.spec.behaviour}", team: "${resource.metadata.labels.?team.orValue('nobody')}"}
root: leaf
provisioners:
  - name: leaf
    module: {ref: MODULE, config: {behaviour: "${parameters.behaviour}", of: "${resource.kind + '/' + resource.metadata.name}"}}
`

// TestBlueprintKeyed: an object of a kind that knows nothing of Caisson gets a Stack, its
// conditions, and everything goes with it.
func TestBlueprintKeyed(t *testing.T) {
	r := needRig(t)
	r.hostileModule(t, "bp-keyed")
	f := r.foreign(t, "Keyed", "Namespaced", keyedStatus, "{status: {}}")
	trace := r.chronicle(t, f.namespace, "keyed-web")
	f.blueprint(t, "keyed", changed(t, guestTree, "MODULE", "bp-keyed"))
	r.awaitBlueprint(t, "keyed", "Ready", "True/Running")

	owner := f.owner(t, "web", "behaviour: secret")
	said := f.awaitOwner(t, "web", "Stalled", "True/UserActionRequired")
	require.Contains(t, said.GetFinalizers(), v1alpha1.OwnerFinalizer)
	conditions := ownerConditions(t, said)
	require.Equal(t, metav1.ConditionFalse, conditions["Available"].Status)
	require.Equal(t, conditions["Available"].Message, conditions["Ready"].Message)
	require.NotContains(t, conditions, "Reconciling")

	stack := r.get(t, f.stackOf("web"))
	require.True(t, metav1.IsControlledBy(stack, owner))
	require.Equal(t, "keyed", stack.Labels[v1alpha1.BlueprintLabel])
	var seen map[string]any
	require.NoError(t, json.Unmarshal(stack.Spec.Resource.Raw, &seen))
	require.Equal(t, map[string]any{"behaviour": "secret"}, seen["spec"])
	require.NotContains(t, seen, "status")

	// The owner's own change is a new generation of its Stack.
	trace.mark(t, "the owner is changed")
	f.patchOwner(t, "web", `{"spec":{"behaviour":"ok"},"metadata":{"labels":{"team":"blue"}}}`)
	f.awaitOwner(t, "web", "Available", "True/Provisioned")
	require.JSONEq(t, `"blue"`, string(r.get(t, f.stackOf("web")).Spec.Parameters["team"].Raw))
	require.NotContains(t, ownerConditions(t, f.read(t, "web")), "Stalled")
	b := r.awaitBlueprint(t, "keyed", "ConditionsWritten", "True/Written")
	require.Equal(t, "Namespaced", b.Status.Resource.Scope)
	eventually(t, "the count", func() (bool, string) {
		b = r.awaitBlueprint(t, "keyed", "Ready", "True/Running")
		return b.Status.Owners == 1 && b.Status.Available == 1, describeCounts(b)
	})

	// Nothing is left to do, and nothing is written.
	r.quiesce(t)
	before, asked := f.read(t, "web"), r.requests.count()
	r.quiesce(t)
	require.Empty(t, r.requests.since(asked))
	require.Equal(t, before.GetResourceVersion(), f.read(t, "web").GetResourceVersion())

	trace.mark(t, "the owner is suspended")
	f.patchOwner(t, "web", `{"spec":{"paused":true}}`)
	f.awaitOwner(t, "web", "Available", "False/Suspended")
	trace.mark(t, "the owner is deleted")
	require.NoError(t, r.admin.Delete(t.Context(), owner))
	f.awaitNoOwner(t, "web")
	require.True(t, apierrors.IsNotFound(r.admin.Get(t.Context(), f.stackOf("web"), &v1alpha1.Stack{})), "the Stack went first")
	r.requireNothingKept(t, string(stack.UID))
	trace.compare(t, "blueprint")

	// One of the same name is another one.
	f.owner(t, "web", "behaviour: ok")
	f.awaitOwner(t, "web", "Available", "True/Provisioned")
	require.NotEqual(t, stack.UID, r.get(t, f.stackOf("web")).UID)
}

func describeCounts(b *v1alpha1.Blueprint) string {
	raw, _ := json.Marshal(b.Status)
	return string(raw)
}
