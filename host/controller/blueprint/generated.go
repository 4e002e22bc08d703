package blueprint

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// maxStackName is that of a DNS label: names of Stacks become parts of others.
const maxStackName = 63

// stackNames returns the names that the Stack of an owner may have: KIND-NAME, and one
// with a hash for when that is too long, or taken by an owner of another group.
func stackNames(gk schema.GroupKind, owner string) []string {
	plain := strings.ToLower(gk.Kind) + "-" + owner
	sum := sha256.Sum256([]byte(gk.String() + "/" + owner))
	suffix := "-" + hex.EncodeToString(sum[:5])
	stem := strings.TrimRight(plain[:min(len(plain), maxStackName-len(suffix))], "-.")
	hashed := strings.ReplaceAll(stem, ".", "-") + suffix
	if len(plain) > maxStackName || strings.Contains(plain, ".") {
		return []string{hashed}
	}
	return []string{plain, hashed}
}

// resourceOf returns an owner as expressions see it: what it is, what it wants, and its
// labels. Its status is left out, and its generation, because what Caisson writes there
// must not be a change of the Stack; so are its annotations, in which tools keep notes
// that nobody means as input.
func resourceOf(owner *unstructured.Unstructured) (json.RawMessage, error) {
	metadata := map[string]any{"name": owner.GetName(), "uid": string(owner.GetUID()), "labels": map[string]any{}}
	if namespace := owner.GetNamespace(); namespace != "" {
		metadata["namespace"] = namespace
	}
	if labels, ok, _ := unstructured.NestedMap(owner.Object, "metadata", "labels"); ok {
		metadata["labels"] = labels
	}
	resource := map[string]any{}
	for field, value := range owner.Object {
		if field != "status" {
			resource[field] = value
		}
	}
	resource["metadata"] = metadata
	raw, err := json.Marshal(resource)
	if err != nil {
		return nil, fmt.Errorf("encode the owner: %w", err)
	}
	return raw, nil
}

// desired is the Stack of an owner, as it is applied.
func desired(owner *unstructured.Unstructured, blueprint, namespace, name string, spec v1alpha1.StackSpec) (*unstructured.Unstructured, error) {
	fields, err := toMap(spec)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encode the stack: %w", err)
	}
	digest := sha256.Sum256(raw)
	controller := true
	reference, err := toMap(metav1.OwnerReference{
		APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(), Controller: &controller,
	})
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion().String(),
		"kind":       "Stack",
		"metadata": map[string]any{
			"name": name, "namespace": namespace,
			"labels":          map[string]any{v1alpha1.BlueprintLabel: labelValue(blueprint)},
			"annotations":     map[string]any{v1alpha1.SpecDigestAnnotation: hex.EncodeToString(digest[:16])},
			"ownerReferences": []any{reference},
		},
		"spec": fields,
	}}, nil
}

// labelValue cuts a name of up to 253 characters to what a label holds.
func labelValue(name string) string {
	const most = 63
	if len(name) <= most {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return strings.TrimRight(name[:most-11], "-.") + "-" + hex.EncodeToString(sum[:5])
}

// toMap keeps integers as integers, which float64 would not.
func toMap(value any) (map[string]any, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode the stack: %w", err)
	}
	fields := map[string]any{}
	if err := utiljson.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("decode the stack: %w", err)
	}
	return fields, nil
}

// applied says whether a Stack is what would be applied, so that nothing has to be
// written. The digest tells of fields that are to go, and the comparison of those that
// somebody has edited; defaults of the API, and fields that others have added, are
// neither.
func applied(want *unstructured.Unstructured, stack *v1alpha1.Stack) (bool, error) {
	meta := want.GetAnnotations()
	if stack.Annotations[v1alpha1.SpecDigestAnnotation] != meta[v1alpha1.SpecDigestAnnotation] ||
		stack.Labels[v1alpha1.BlueprintLabel] != want.GetLabels()[v1alpha1.BlueprintLabel] {
		return false, nil
	}
	current, err := toMap(stack.Spec)
	if err != nil {
		return false, err
	}
	spec, _, _ := unstructured.NestedMap(want.Object, "spec")
	return covers(current, spec), nil
}

// covers says whether every field of want is in have. Lists are as long as they are.
func covers(have, want any) bool {
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			return false
		}
		for key, value := range w {
			if existing, ok := h[key]; !ok && value != nil || !covers(existing, value) {
				return false
			}
		}
		return true
	case []any:
		h, ok := have.([]any)
		if !ok || len(h) != len(w) {
			return false
		}
		for i := range w {
			if !covers(h[i], w[i]) {
				return false
			}
		}
		return true
	default:
		return have == want
	}
}
