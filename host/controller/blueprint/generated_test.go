package blueprint

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

func clusterKind() schema.GroupKind { return schema.GroupKind{Group: "example.com", Kind: "Cluster"} }

func TestStackNames(t *testing.T) {
	cases := map[string]struct {
		reason, owner string
		plain         string
	}{
		"short":   {reason: "people can guess it", owner: "prod", plain: "cluster-prod"},
		"longest": {reason: "63 in all", owner: strings.Repeat("x", 55), plain: "cluster-" + strings.Repeat("x", 55)},
		"long":    {reason: "cut, with a hash", owner: strings.Repeat("x", 56)},
		"dots":    {reason: "a name of a Stack becomes a label and a part of names", owner: "a.b.c"},
		"cut dot": {reason: "the cut must not leave a dot", owner: strings.Repeat("x", 43) + "." + strings.Repeat("y", 100)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			names := stackNames(clusterKind(), c.owner)
			if c.plain != "" {
				require.Equal(t, c.plain, names[0], c.reason)
				require.Len(t, names, 2, "one for when that is taken")
			} else {
				require.Len(t, names, 1, c.reason)
			}
			for _, n := range names {
				require.Empty(t, validation.IsDNS1123Label(n), n)
			}
			require.Equal(t, names, stackNames(clusterKind(), c.owner), "always the same")
			other := stackNames(schema.GroupKind{Group: "other.com", Kind: "Cluster"}, c.owner)
			require.NotEqual(t, names[len(names)-1], other[len(other)-1], "groups have names of their own to fall back to")
		})
	}
	require.NotEqual(t, stackNames(clusterKind(), "a.b"), stackNames(clusterKind(), "a-b"))
}

func newOwner() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Cluster",
		"metadata": map[string]any{
			"name": "prod", "namespace": "team", "uid": "u", "generation": int64(3), "resourceVersion": "7",
			"labels": map[string]any{"team": "blue"}, "annotations": map[string]any{"note": "x"},
		},
		"spec":   map[string]any{"big": int64(9007199254740993)},
		"data":   map[string]any{"a": "b"},
		"status": map[string]any{"phase": "x"},
	}}
}

// TestResourceOf: expressions see what the owner wants, and nothing that changes because
// of us.
func TestResourceOf(t *testing.T) {
	raw, err := resourceOf(newOwner())
	require.NoError(t, err)
	require.JSONEq(t, `{"apiVersion":"example.com/v1","kind":"Cluster","metadata":{"name":"prod","namespace":"team","uid":"u","labels":{"team":"blue"}},
		"spec":{"big":9007199254740993},"data":{"a":"b"}}`, string(raw))
	require.Contains(t, string(raw), "9007199254740993")

	bare := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "n", "uid": "u"}}}
	raw, err = resourceOf(bare)
	require.NoError(t, err)
	require.JSONEq(t, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","uid":"u","labels":{}}}`, string(raw))
}

func wantedStack(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	raw, err := resourceOf(newOwner())
	require.NoError(t, err)
	want, err := desired(newOwner(), "clusters", "team", "cluster-prod", v1alpha1.StackSpec{
		Root: "leaf", Resource: &apiextensionsv1.JSON{Raw: raw},
		Parameters:   map[string]apiextensionsv1.JSON{"none": {Raw: []byte("null")}, "l": {Raw: []byte(`[1,{"a":2.5}]`)}},
		Remotes:      []v1alpha1.Remote{{Name: "w"}},
		Provisioners: []v1alpha1.Node{{Name: "leaf", Module: &v1alpha1.ModuleNode{Ref: "cni"}}},
	})
	require.NoError(t, err)
	return want
}

// TestApplied: what is as it was applied is not written again; what is not, is.
func TestApplied(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*v1alpha1.Stack)
		want   bool
	}{
		"same":       {reason: "nothing has changed", change: func(*v1alpha1.Stack) {}, want: true},
		"default":    {reason: "the API fills in fields", change: func(s *v1alpha1.Stack) { s.Spec.Remotes[0].Teardown = "Drain" }, want: true},
		"null":       {reason: "the API may drop it", change: func(s *v1alpha1.Stack) { delete(s.Spec.Parameters, "none") }, want: true},
		"edited":     {reason: "somebody else changed a field of ours", change: func(s *v1alpha1.Stack) { s.Spec.Root = "other" }},
		"suspended":  {reason: "a field that we do not have is another's", change: func(s *v1alpha1.Stack) { s.Spec.Suspend = true }, want: true},
		"removed":    {reason: "somebody else removed a parameter", change: func(s *v1alpha1.Stack) { delete(s.Spec.Parameters, "l") }},
		"more nodes": {reason: "lists are as long as they are", change: func(s *v1alpha1.Stack) { s.Spec.Provisioners = append(s.Spec.Provisioners, v1alpha1.Node{Name: "x"}) }},
		"resource":   {reason: "the owner has changed", change: func(s *v1alpha1.Stack) { s.Spec.Resource.Raw = []byte(`{"spec":{"big":9007199254740992}}`) }},
		"digest":     {reason: "a field of ours is to go", change: func(s *v1alpha1.Stack) { s.Annotations[v1alpha1.SpecDigestAnnotation] = "other" }},
		"label":      {reason: "another Blueprint has taken over", change: func(s *v1alpha1.Stack) { s.Labels = nil }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			want := wantedStack(t)
			raw, err := want.MarshalJSON()
			require.NoError(t, err)
			stack := &v1alpha1.Stack{}
			require.NoError(t, json.Unmarshal(raw, stack))
			c.change(stack)
			got, err := applied(want, stack)
			require.NoError(t, err)
			require.Equal(t, c.want, got, c.reason)
		})
	}
}

func TestDesired(t *testing.T) {
	want := wantedStack(t)
	require.Equal(t, "clusters", want.GetLabels()[v1alpha1.BlueprintLabel])
	references := want.GetOwnerReferences()
	require.Len(t, references, 1)
	require.True(t, *references[0].Controller)
	require.Nil(t, references[0].BlockOwnerDeletion, "whoever may not set finalizers could not make the Stack otherwise")
	big, _, err := unstructured.NestedInt64(want.Object, "spec", "resource", "spec", "big")
	require.NoError(t, err)
	require.Equal(t, int64(9007199254740993), big)
	require.Equal(t, want.GetAnnotations(), wantedStack(t).GetAnnotations(), "the digest is of the content")

	long := labelValue(strings.Repeat("b", 253))
	require.Empty(t, validation.IsValidLabelValue(long))
	require.NotEqual(t, long, labelValue(strings.Repeat("b", 252)))
}
