package helm

import (
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"

	"helm.sh/helm/v4/pkg/kube"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// object is one object of a release, as its manifest names it. Namespace is empty for
// cluster-wide kinds, and for objects that leave it to the release.
type object struct {
	Group     string `json:"group,omitempty"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// GroupVersionKind returns the object's kind.
func (o object) GroupVersionKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: o.Group, Version: o.Version, Kind: o.Kind}
}

// String returns kind/namespace/name for people.
func (o object) String() string {
	if o.Namespace == "" {
		return o.Kind + "/" + o.Name
	}
	return o.Kind + "/" + o.Namespace + "/" + o.Name
}

// manifestObject is an object with what its manifest says about its life.
type manifestObject struct {
	object
	// keep says that an uninstall leaves it.
	keep bool
	// vanishes says that its absence is no drift: a Job that deletes itself when done.
	vanishes bool
}

// manifestBuffer is the size of the decoder's look-ahead; documents may be larger.
const manifestBuffer = 4096

// parseManifest lists the objects of a rendered manifest, lists expanded. Objects
// without a name of their own (generateName) cannot be found again and are left out.
func parseManifest(manifest string) ([]manifestObject, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), manifestBuffer)
	var objects []manifestObject
	for {
		var document map[string]any
		if err := decoder.Decode(&document); err != nil {
			if errors.Is(err, io.EOF) {
				return objects, nil
			}
			return nil, fmt.Errorf("reading the manifest of the release: %w", err)
		}
		if len(document) == 0 {
			continue
		}
		expanded, err := expandList(&unstructured.Unstructured{Object: document})
		if err != nil {
			return nil, err
		}
		objects = append(objects, expanded...)
	}
}

func expandList(u *unstructured.Unstructured) ([]manifestObject, error) {
	if !u.IsList() {
		return describe(u), nil
	}
	var objects []manifestObject
	err := u.EachListItem(func(item runtime.Object) error {
		if child, ok := item.(*unstructured.Unstructured); ok {
			objects = append(objects, describe(child)...)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading a list in the manifest of the release: %w", err)
	}
	return objects, nil
}

func describe(u *unstructured.Unstructured) []manifestObject {
	gvk := u.GroupVersionKind()
	if u.GetName() == "" || gvk.Kind == "" {
		return nil
	}
	_, ttl, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "ttlSecondsAfterFinished")
	policy := strings.ToLower(strings.TrimSpace(u.GetAnnotations()[kube.ResourcePolicyAnno]))
	return []manifestObject{{
		object:   object{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: u.GetNamespace(), Name: u.GetName()},
		keep:     policy == kube.KeepPolicy,
		vanishes: ttl && gvk.Kind == "Job" && gvk.Group == "batch",
	}}
}

// split separates what an uninstall deletes from the names of what it keeps.
func split(objects []manifestObject) (owned []object, kept []string) {
	for _, o := range objects {
		if o.keep {
			kept = append(kept, o.String())
			continue
		}
		owned = append(owned, o.object)
	}
	return owned, kept
}

// union merges two lists of objects, without doubles, in a stable order.
func union(a, b []object) []object {
	seen := make(map[object]bool, len(a)+len(b))
	merged := make([]object, 0, len(a)+len(b))
	for _, list := range [][]object{a, b} {
		for _, o := range list {
			if !seen[o] {
				seen[o] = true
				merged = append(merged, o)
			}
		}
	}
	if len(merged) == 0 {
		return nil // What is written into the inventory and read back is equal then.
	}
	sort.Slice(merged, func(i, j int) bool { return less(merged[i], merged[j]) })
	return merged
}

func less(a, b object) bool {
	if a.Kind != b.Kind {
		return a.Kind < b.Kind
	}
	if a.Namespace != b.Namespace {
		return a.Namespace < b.Namespace
	}
	if a.Name != b.Name {
		return a.Name < b.Name
	}
	return a.Group+"/"+a.Version < b.Group+"/"+b.Version
}
