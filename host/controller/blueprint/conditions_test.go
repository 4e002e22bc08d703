package blueprint

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

func one(kind, status string) any { return map[string]any{"type": kind, "status": status} }

func TestMerged(t *testing.T) {
	cases := map[string]struct {
		reason              string
		list, entries, want []any
		ours                []string
	}{
		"first":   {reason: "others keep their places", list: []any{one("Other", "True")}, entries: []any{one("Ready", "False")}, ours: []string{"Ready"}, want: []any{one("Other", "True"), one("Ready", "False")}},
		"replace": {reason: "ours keep theirs", list: []any{one("Ready", "False"), one("Other", "True")}, entries: []any{one("Ready", "True")}, ours: []string{"Ready"}, want: []any{one("Ready", "True"), one("Other", "True")}},
		"remove":  {reason: "what is ours and no more to be said", list: []any{one("Stalled", "True"), one("Other", "True")}, ours: []string{"Stalled"}, want: []any{one("Other", "True")}},
		"foreign": {reason: "a type of ours that another wrote stays", list: []any{one("Stalled", "True")}, ours: []string{"Ready"}, want: []any{one("Stalled", "True")}},
		"strange": {reason: "what is no condition is not ours", list: []any{"x", int64(1)}, ours: []string{"Ready"}, entries: []any{one("Ready", "True")}, want: []any{"x", int64(1), one("Ready", "True")}},
		"nothing": {reason: "an empty list, not null", want: []any{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := merged(c.list, c.entries, c.ours)
			require.Equal(t, c.want, got, c.reason)
			require.True(t, says(got, c.entries, c.ours), "and then nothing is left to do")
		})
	}
}

func TestSays(t *testing.T) {
	cases := map[string]struct {
		reason        string
		list, entries []any
		ours          []string
		want          bool
	}{
		"equal":       {reason: "nothing to write", list: []any{one("Ready", "True")}, entries: []any{one("Ready", "True")}, want: true},
		"more fields": {reason: "another manager may add some", list: []any{map[string]any{"type": "Ready", "status": "True", "x": "y"}}, entries: []any{one("Ready", "True")}, want: true},
		"different":   {reason: "to be written", list: []any{one("Ready", "False")}, entries: []any{one("Ready", "True")}},
		"absent":      {reason: "to be written", entries: []any{one("Ready", "True")}},
		"left over":   {reason: "to be removed", list: []any{one("Ready", "True"), one("Stalled", "True")}, entries: []any{one("Ready", "True")}, ours: []string{"Stalled"}},
		"foreign":     {reason: "not ours to remove", list: []any{one("Ready", "True"), one("Stalled", "True")}, entries: []any{one("Ready", "True")}, want: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, says(c.list, c.entries, c.ours), c.reason) })
	}
}

// TestAppliedTypes: the record of the API server says what is ours, whatever else is in it.
func TestAppliedTypes(t *testing.T) {
	managed := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
	}
	owner := newOwner()
	owner.SetManagedFields([]metav1.ManagedFieldsEntry{
		managed("other", `{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{}}}}`),
		managed(v1alpha1.BlueprintFieldManager, `{"f:status":{"f:conditions":{".":{},"k:{\"type\":\"Available\"}":{".":{},"f:status":{}},"v:1":{},"k:nonsense":{}}}}`),
	})
	require.Equal(t, []string{"Available"}, appliedTypes(owner))
	// What the cache keeps of an owner is enough for that.
	kept, err := trim(owner)
	require.NoError(t, err)
	object, ok := kept.(*unstructured.Unstructured)
	require.True(t, ok)
	require.Equal(t, []string{"Available"}, appliedTypes(object))
	require.Len(t, object.GetManagedFields(), 1)
}

// TestTrim: the cache keeps what is used, and everything that expressions see.
func TestTrim(t *testing.T) {
	owner := newOwner()
	owner.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("x", 1000), v1alpha1.ConditionsAnnotation: "Ready"})
	owner.Object["status"] = map[string]any{"large": "x", "conditions": []any{one("Ready", "True")}}
	before, err := resourceOf(owner)
	require.NoError(t, err)
	_, err = trim(owner)
	require.NoError(t, err)
	after, err := resourceOf(owner)
	require.NoError(t, err)
	require.JSONEq(t, string(before), string(after))
	require.Equal(t, map[string]any{"conditions": []any{one("Ready", "True")}}, owner.Object["status"])
	require.Equal(t, map[string]string{v1alpha1.ConditionsAnnotation: "Ready"}, owner.GetAnnotations())
	same, err := trim("no object")
	require.NoError(t, err)
	require.Equal(t, "no object", same)
}

// TestEntries: only what the schema has room for is sent.
func TestEntries(t *testing.T) {
	c := says1("Ready", "True", "Provisioned", 3, 10)
	cases := map[string]struct {
		reason string
		shape  shape
		want   []string
	}{
		"all":            {reason: "any field", shape: shape{subresource: true}, want: []string{"lastTransitionTime", "message", "observedGeneration", "reason", "status", "type"}},
		"no subresource": {reason: "the generation would chase itself", want: []string{"lastTransitionTime", "message", "reason", "status", "type"}},
		"narrow":         {reason: "the API server refuses others", shape: shape{subresource: true, fields: map[string]bool{"type": true, "status": true}}, want: []string{"status", "type"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			entries, err := (&writer{kind: &kind{shape: tc.shape}}).entries([]metav1.Condition{c})
			require.NoError(t, err)
			fields, ok := entries[0].(map[string]any)
			require.True(t, ok)
			names := make([]string, 0, len(fields))
			for name := range fields {
				names = append(names, name)
			}
			require.ElementsMatch(t, tc.want, names, tc.reason)
		})
	}
}

// TestConflicts: who has a field is said in words.
func TestConflicts(t *testing.T) {
	cause := func(kind metav1.CauseType, field, message string) metav1.StatusCause {
		return metav1.StatusCause{Type: kind, Field: field, Message: message}
	}
	conflict := func(causes ...metav1.StatusCause) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Details: &metav1.StatusDetails{Causes: causes},
		}}
	}
	taken := conflictsOf(conflict(
		cause(metav1.CauseTypeFieldManagerConflict, `.status.conditions[type="Ready"].status`, `conflict with "helm-controller" with subresource "status" using example.com/v1`),
		cause(metav1.CauseTypeFieldManagerConflict, `.status.conditions[type="Ready"].reason`, `conflict with "helm-controller" with subresource "status" using example.com/v1`),
		cause(metav1.CauseTypeFieldManagerConflict, `.status.conditions`, `conflict with "x"`),
		cause(metav1.CauseTypeFieldValueInvalid, `.status.conditions[type="Other"]`, `conflict with "x"`),
	))
	require.Equal(t, map[string]string{"Ready": "the field manager helm-controller"}, taken)
	require.Equal(t, "The condition Ready belongs to the field manager helm-controller, and is left to it; set conditionPrefix on the Blueprint to have others.", conflictMessage(taken))
	for name, err := range map[string]error{
		"none": nil, "other": errors.New("conflict"), "version": apierrors.NewConflict(schema.GroupResource{Resource: "x"}, "y", errors.New("behind")),
	} {
		require.Empty(t, conflictsOf(err), name)
	}
}

func TestRefusal(t *testing.T) {
	told, err := refusal(apierrors.NewBadRequest("no"))
	require.NoError(t, err)
	require.Equal(t, v1alpha1.ReasonRefused, told.reason)
	told, err = refusal(apierrors.NewInternalError(errors.New(".status.conditions[0].x: field not declared in schema")))
	require.NoError(t, err)
	require.Equal(t, v1alpha1.ReasonRefused, told.reason)
	_, err = refusal(apierrors.NewInternalError(errors.New("etcd is away")))
	require.Error(t, err)
	told, err = refusal(nil)
	require.NoError(t, err)
	require.Zero(t, told)
}
