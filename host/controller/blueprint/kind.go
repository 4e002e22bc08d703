package blueprint

import (
	"context"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// kind is a kind as the API serves it.
type kind struct {
	gvk        schema.GroupVersionKind
	plural     string
	namespaced bool
	shape      shape
}

// Discovery lists what an API server serves, uncached: a kind comes and goes with its CRD.
// client-go's discovery client is one.
type Discovery interface {
	ServerGroups() (*metav1.APIGroupList, error)
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

// resolver finds kinds.
type resolver struct {
	discovery Discovery
	// live reads from the API server.
	live client.Reader
}

// resolve returns a kind, or nil if it is not installed.
func (r *resolver) resolve(ctx context.Context, wanted v1alpha1.ResourceKind) (*kind, error) {
	versions, err := r.versions(wanted)
	if err != nil {
		return nil, err
	}
	for _, version := range versions {
		gv := schema.GroupVersion{Group: wanted.Group, Version: version}
		served, err := r.discovery.ServerResourcesForGroupVersion(gv.String())
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list the resources of %s: %w", gv, err)
		}
		found := slices.IndexFunc(served.APIResources, func(a metav1.APIResource) bool {
			// While a CRD is being deleted, patch is not listed. It works, and is needed to let
			// go of the objects.
			return a.Kind == wanted.Kind && !isSubresource(a.Name) && slices.Contains(a.Verbs, "watch")
		})
		if found < 0 {
			continue
		}
		k := &kind{gvk: gv.WithKind(wanted.Kind), plural: served.APIResources[found].Name, namespaced: served.APIResources[found].Namespaced}
		k.shape, err = r.shape(ctx, k)
		return k, err
	}
	return nil, nil //nolint:nilnil // Not installed is an answer.
}

// versions returns the versions to look in, in order.
func (r *resolver) versions(wanted v1alpha1.ResourceKind) ([]string, error) {
	if wanted.Version != "" {
		return []string{wanted.Version}, nil
	}
	groups, err := r.discovery.ServerGroups()
	if err != nil {
		return nil, fmt.Errorf("list the groups of the API: %w", err)
	}
	for _, group := range groups.Groups {
		if group.Name != wanted.Group {
			continue
		}
		versions := []string{group.PreferredVersion.Version}
		for _, v := range group.Versions {
			if v.Version != group.PreferredVersion.Version {
				versions = append(versions, v.Version)
			}
		}
		return versions, nil
	}
	return nil, nil
}

// shape reads the schema of a kind's CRD, if it has one.
func (r *resolver) shape(ctx context.Context, k *kind) (shape, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(crdKind())
	err := r.live.Get(ctx, client.ObjectKey{Name: k.plural + "." + k.gvk.Group}, object)
	if apierrors.IsNotFound(err) {
		return shape{}, nil
	}
	if err != nil {
		return shape{}, fmt.Errorf("read the CRD of %s: %w", k.gvk.Kind, err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, crd); err != nil {
		return shape{}, fmt.Errorf("decode the CRD of %s: %w", k.gvk.Kind, err)
	}
	return shapeOf(crd, k.gvk.Version), nil
}

func crdKind() schema.GroupVersionKind {
	return apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")
}

func isSubresource(name string) bool {
	return slices.Contains([]byte(name), '/')
}

// same says whether a controller for one of the two watches what one for the other would.
func (k *kind) same(other *kind) bool {
	return k.gvk == other.gvk && k.plural == other.plural && k.namespaced == other.namespaced
}

// mapper knows this kind and no other. It never asks the API server, and never is stale.
func (k *kind) mapper() meta.RESTMapper {
	scope := meta.RESTScopeRoot
	if k.namespaced {
		scope = meta.RESTScopeNamespace
	}
	resource := k.gvk.GroupVersion().WithResource(k.plural)
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{k.gvk.GroupVersion()})
	m.AddSpecific(k.gvk, resource, resource, scope)
	return m
}

// object returns an empty object of the kind.
func (k *kind) object() *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(k.gvk)
	return o
}

// objects returns an empty list of the kind.
func (k *kind) objects() *unstructured.UnstructuredList {
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(k.gvk.GroupVersion().WithKind(k.gvk.Kind + "List"))
	return l
}

// String is how messages name the kind.
func (k *kind) String() string {
	return resourceName(k.plural, k.gvk.Group)
}

func resourceName(plural, group string) string {
	if group == "" {
		return plural
	}
	return plural + "." + group
}
