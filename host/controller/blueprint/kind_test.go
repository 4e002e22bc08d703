package blueprint

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// served is what an API server says that it serves, by group and version.
type served struct {
	groups    []metav1.APIGroup
	resources map[string][]metav1.APIResource
	err       error
}

func (s served) ServerGroups() (*metav1.APIGroupList, error) {
	return &metav1.APIGroupList{Groups: s.groups}, s.err
}

func (s served) ServerResourcesForGroupVersion(gv string) (*metav1.APIResourceList, error) {
	list, ok := s.resources[gv]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, gv)
	}
	return &metav1.APIResourceList{APIResources: list}, nil
}

func group(name string, versions ...string) metav1.APIGroup {
	g := metav1.APIGroup{Name: name, PreferredVersion: metav1.GroupVersionForDiscovery{Version: versions[0]}}
	for _, v := range versions {
		g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{Version: v})
	}
	return g
}

func TestResolve(t *testing.T) {
	watchable := metav1.Verbs{"get", "list", "watch"}
	clusters := metav1.APIResource{Name: "clusters", Kind: "Cluster", Namespaced: true, Verbs: watchable}
	cases := map[string]struct {
		reason string
		wanted v1alpha1.ResourceKind
		served served
		want   *kind
		fails  bool
	}{
		"preferred": {
			reason: "no version asked for", wanted: v1alpha1.ResourceKind{Group: "example.com", Kind: "Cluster"},
			served: served{groups: []metav1.APIGroup{group("other.com", "v9"), group("example.com", "v2", "v1")}, resources: map[string][]metav1.APIResource{"example.com/v1": {clusters}, "example.com/v2": {clusters}}},
			want:   &kind{gvk: schema.GroupVersionKind{Group: "example.com", Version: "v2", Kind: "Cluster"}, plural: "clusters", namespaced: true},
		},
		"older": {
			reason: "the preferred version of the group does not have the kind", wanted: v1alpha1.ResourceKind{Group: "example.com", Kind: "Cluster"},
			served: served{groups: []metav1.APIGroup{group("example.com", "v2", "v1")}, resources: map[string][]metav1.APIResource{"example.com/v1": {clusters}, "example.com/v2": {}}},
			want:   &kind{gvk: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Cluster"}, plural: "clusters", namespaced: true},
		},
		"asked for": {
			reason: "the version that was asked for, and no other", wanted: v1alpha1.ResourceKind{Group: "example.com", Kind: "Cluster", Version: "v1"},
			served: served{resources: map[string][]metav1.APIResource{"example.com/v1": {clusters}}},
			want:   &kind{gvk: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Cluster"}, plural: "clusters", namespaced: true},
		},
		"core": {
			reason: "a kind that is built in", wanted: v1alpha1.ResourceKind{Kind: "Node"},
			served: served{groups: []metav1.APIGroup{group("", "v1")}, resources: map[string][]metav1.APIResource{"v1": {{Name: "nodes/status", Kind: "Node", Verbs: watchable}, {Name: "nodes", Kind: "Node", Verbs: watchable}}}},
			want:   &kind{gvk: schema.GroupVersionKind{Version: "v1", Kind: "Node"}, plural: "nodes"},
		},
		"version":   {reason: "near miss", wanted: v1alpha1.ResourceKind{Group: "example.com", Kind: "Cluster", Version: "v3"}, served: served{resources: map[string][]metav1.APIResource{"example.com/v1": {clusters}}}},
		"no group":  {reason: "not installed", wanted: v1alpha1.ResourceKind{Group: "example.com", Kind: "Cluster"}},
		"unwatched": {reason: "such as a review", wanted: v1alpha1.ResourceKind{Group: "example.com", Kind: "Cluster", Version: "v1"}, served: served{resources: map[string][]metav1.APIResource{"example.com/v1": {{Name: "clusters", Kind: "Cluster", Verbs: metav1.Verbs{"create"}}}}}},
		"away":      {reason: "no answer is not a no", wanted: v1alpha1.ResourceKind{Group: "example.com", Kind: "Cluster"}, served: served{err: errors.New("away")}, fails: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := &resolver{discovery: c.served, live: fake.NewClientBuilder().WithScheme(runtime.NewScheme()).Build()}
			got, err := r.resolve(t.Context(), c.wanted)
			require.Equal(t, c.fails, err != nil, c.reason)
			require.Equal(t, c.want, got, c.reason)
		})
	}
}

// TestMissing: what the operator may not do is named as an admin would write it.
func TestMissing(t *testing.T) {
	k := &kind{gvk: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Cluster"}, plural: "clusters"}
	cases := map[string]struct {
		reason  string
		shape   shape
		allowed map[string]bool
		want    []string
	}{
		"nothing":        {reason: "all are named", shape: shape{list: listKeyed, subresource: true}, want: []string{"list clusters.example.com", "watch clusters.example.com", "patch clusters.example.com", "patch clusters/status.example.com"}},
		"status":         {reason: "the one that is often forgotten", shape: shape{list: listKeyed, subresource: true}, allowed: map[string]bool{"list": true, "watch": true, "patch": true}, want: []string{"patch clusters/status.example.com"}},
		"no conditions":  {reason: "nothing is written there", shape: shape{subresource: true}, allowed: map[string]bool{"list": true, "watch": true, "patch": true}},
		"no subresource": {reason: "the status is a part of the object", shape: shape{list: listPlain}, allowed: map[string]bool{"list": true, "watch": true, "patch": true}},
		"read only":      {reason: "the finalizer needs patch", shape: shape{}, allowed: map[string]bool{"list": true, "watch": true}, want: []string{"patch clusters.example.com"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			k.shape = c.shape
			api := fakeReviews(t, func(a *authorizationv1.ResourceAttributes) bool { return a.Subresource == "" && c.allowed[a.Verb] })
			got, err := missing(t.Context(), api, k)
			require.NoError(t, err)
			require.Equal(t, c.want, got, c.reason)
			if len(got) > 0 {
				require.Contains(t, remedy(got), got[0])
				require.Contains(t, remedy(got), AggregationLabel)
			}
		})
	}
}

// fakeReviews answers questions for rights.
func fakeReviews(t *testing.T, allows func(*authorizationv1.ResourceAttributes) bool) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, authorizationv1.AddToScheme(scheme))
	return fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			review, ok := o.(*authorizationv1.SelfSubjectAccessReview)
			require.True(t, ok)
			review.Status.Allowed = allows(review.Spec.ResourceAttributes)
			return nil
		},
	}).Build()
}
