package host_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// available is what Available says of a Stack that works, as the waits want it.
const available = "True/Provisioned"

// TestBlueprintKeyedConflict: a condition that another manager applied is left to it, and
// said to be theirs; the others are written all the same.
func TestBlueprintKeyedConflict(t *testing.T) {
	r := needRig(t)
	r.hostileModule(t, "bp-shared")
	f := r.foreign(t, "Shared", "Namespaced", keyedStatus, "{status: {}}")
	f.owner(t, "web", "behaviour: ok")
	theirs := f.object("web")
	theirs.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "Unknown", "reason": "Theirs"}}}
	require.NoError(t, r.admin.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(theirs), client.FieldOwner("their-controller")))

	f.blueprint(t, "shared", changed(t, guestTree, "MODULE", "bp-shared"))
	said := ownerConditions(t, f.awaitOwner(t, "web", "Available", available))
	require.Equal(t, "Theirs", said["Ready"].Reason)
	b := r.awaitBlueprint(t, "shared", v1alpha1.ConditionConditionsWritten, "False/FieldConflict")
	message := messageOf(b, v1alpha1.ConditionConditionsWritten)
	require.Contains(t, message, "The condition Ready belongs to the field manager their-controller")
	require.Contains(t, message, f.namespace+"/web")

	// The remedy that the message names.
	b.Spec.ConditionPrefix = "Caisson"
	require.NoError(t, r.admin.Update(t.Context(), b))
	said = ownerConditions(t, f.awaitOwner(t, "web", "CaissonReady", available))
	require.Equal(t, "Theirs", said["Ready"].Reason)
	require.NotContains(t, said, "Available", "what was written without the prefix is withdrawn")
	r.awaitBlueprint(t, "shared", v1alpha1.ConditionConditionsWritten, "True/Written")
}

// TestBlueprintAtomic: where the list of conditions is one value, the entries of others
// are kept, one of a type that another had first included.
func TestBlueprintAtomic(t *testing.T) {
	r := needRig(t)
	r.hostileModule(t, "bp-atomic")
	f := r.foreign(t, "Atomic", "Namespaced", atomicStatus, "{status: {}}")
	f.owner(t, "web", "behaviour: ok")
	f.patchOwner(t, "web", `{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"Theirs"},{"type":"Other","status":"True"}]}}`, "status")

	f.blueprint(t, "atomic", changed(t, guestTree, "MODULE", "bp-atomic"))
	owner := f.awaitOwner(t, "web", "Available", available)
	said := ownerConditions(t, owner)
	require.Equal(t, "Theirs", said["Ready"].Reason, "it was there first")
	require.Contains(t, said, "Other")
	r.awaitBlueprint(t, "atomic", v1alpha1.ConditionConditionsWritten, "False/FieldConflict")

	// A controller that writes the whole list, ours included, takes nothing away.
	f.patchOwner(t, "web", `{"status":{"conditions":[{"type":"Other","status":"False"}]}}`, "status")
	said = ownerConditions(t, f.awaitOwner(t, "web", "Available", available))
	require.Equal(t, "False", string(said["Other"].Status))

	r.quiesce(t)
	version := f.read(t, "web").GetResourceVersion()
	r.quiesce(t)
	require.Equal(t, version, f.read(t, "web").GetResourceVersion(), "a no-op writes nothing")

	require.NoError(t, r.admin.Delete(t.Context(), f.object("web")))
	f.awaitNoOwner(t, "web")
}

// TestBlueprintBare: where there is no room for conditions, nothing is written, and events
// and the Blueprint say so. The kind is cluster-scoped, and has no status subresource.
func TestBlueprintBare(t *testing.T) {
	r := needRig(t)
	r.hostileModule(t, "bp-bare")
	f := r.foreign(t, "Bare", "Cluster", bareStatus, "{}")
	tree := changed(t, guestTree, "MODULE", "bp-bare")
	f.blueprint(t, "bare", tree+"namespace: "+f.namespace)
	owner := f.owner(t, "web", "behaviour: ok")
	eventually(t, "the Stack", func() (bool, string) {
		err := r.admin.Get(t.Context(), f.stackOf("web"), &v1alpha1.Stack{})
		return err == nil, fmt.Sprint(err)
	})
	stack := r.awaitStack(t, f.stackOf("web"), available)
	b := r.awaitBlueprint(t, "bare", v1alpha1.ConditionConditionsWritten, "False/NotInSchema")
	require.Contains(t, messageOf(b, v1alpha1.ConditionConditionsWritten), "bares.bare.example.com")
	require.Equal(t, "Cluster", b.Status.Resource.Scope)
	eventually(t, "the event", func() (bool, string) {
		notes := r.eventsAbout(t, owner)
		return strings.Contains(notes, "Provisioned"), notes
	})
	r.quiesce(t)
	_, found, err := unstructured.NestedFieldNoCopy(f.read(t, "web").Object, "status")
	require.NoError(t, err)
	require.False(t, found)
	require.NoError(t, r.admin.Delete(t.Context(), owner))
	f.awaitNoOwner(t, "web")
	r.requireNothingKept(t, string(stack.UID))
}

// eventsAbout lists the events about an object, as "reason: note" in lines.
func (r *rig) eventsAbout(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	list := &eventsv1.EventList{}
	require.NoError(t, r.admin.List(t.Context(), list))
	var notes []string
	for _, e := range list.Items {
		if e.Regarding.UID == o.GetUID() {
			notes = append(notes, e.Reason+": "+e.Note)
		}
	}
	return strings.Join(notes, "\n")
}
