package guesttest

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/caisson-dev/caisson/abi"
)

// objects are Kubernetes objects by cluster, API version, kind, namespace and name.
type objects map[objectKey]map[string]any

type objectKey struct {
	cluster, apiVersion, kind, namespace, name string
}

// PutObject puts an object into the cluster of that ID ("home" is the host's own). It is
// a struct or a map with apiVersion, kind and metadata.name; one with that name is
// replaced, whatever a real API server would say.
func (h *Harness) PutObject(cluster string, object any) {
	h.t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		h.t.Fatalf("guesttest: encode the object: %v", err)
	}
	content, key, err := parseObject(cluster, raw)
	if err != nil {
		h.t.Fatalf("guesttest: %v", err)
	}
	h.trace.notef("%s %s is written", key.kind, key.path())
	h.objects[key] = content
}

// DeleteObject removes an object at once.
func (h *Harness) DeleteObject(cluster string, ref abi.ObjectRef) {
	key := keyOf(cluster, ref)
	h.trace.notef("%s %s is deleted", key.kind, key.path())
	delete(h.objects, key)
}

// Object returns an object, and whether it exists.
func (h *Harness) Object(cluster string, ref abi.ObjectRef) (map[string]any, bool) {
	object, ok := h.objects[keyOf(cluster, ref)]
	return object, ok
}

func (k objectKey) path() string { return k.cluster + "/" + k.namespace + "/" + k.name }

func keyOf(cluster string, ref abi.ObjectRef) objectKey {
	return objectKey{cluster, ref.APIVersion, ref.Kind, ref.Namespace, ref.Name}
}

func parseObject(cluster string, raw []byte) (map[string]any, objectKey, error) {
	var content map[string]any
	if err := json.Unmarshal(raw, &content); err != nil {
		return nil, objectKey{}, errors.New("the object is not a JSON object")
	}
	metadata, _ := content["metadata"].(map[string]any)
	key := objectKey{cluster: cluster}
	key.apiVersion, _ = content["apiVersion"].(string)
	key.kind, _ = content["kind"].(string)
	key.namespace, _ = metadata["namespace"].(string)
	key.name, _ = metadata["name"].(string)
	if key.apiVersion == "" || key.kind == "" {
		return nil, key, errors.New("the object has no apiVersion or no kind")
	}
	if key.name == "" {
		return nil, key, errNotNamed
	}
	return content, key, nil
}

// allowed resolves the scope and checks a request against the manifest's rules, which
// are the most that a grant can cover. Secrets have a function of their own.
func (s *host) allowed(scope abi.KubeScope, verb, apiVersion, kind, namespace string) (string, *abi.CallError) {
	s.h.t.Helper()
	cluster, f := s.scope(scope)
	if f != nil {
		return "", f
	}
	if apiVersion == "" || kind == "" {
		return "", failure(abi.CodeInvalid, "apiVersion and kind are needed")
	}
	group, _, grouped := strings.Cut(apiVersion, "/")
	if !grouped {
		group = ""
	}
	if group == "" && kind == "Secret" {
		return "", failure(abi.CodeDenied, "Secrets are read with secret_read")
	}
	for _, rule := range s.h.manifest.Kube {
		covers := rule.APIGroup == group && slices.Contains(rule.Kinds, kind) && slices.Contains(rule.Verbs, verb) &&
			(len(rule.Namespaces) == 0 || slices.Contains(rule.Namespaces, namespace))
		if covers {
			return cluster, nil
		}
	}
	s.h.t.Errorf("guesttest: no rule of the manifest covers %s %s of group %q in namespace %q", verb, kind, group, namespace)
	return "", failure(abi.CodeDenied, "no rule covers it")
}

func (s *host) kubeGet(request *abi.KubeGetRequest) (any, *abi.CallError) {
	cluster, f := s.allowed(request.Scope, "get", request.APIVersion, request.Kind, request.Namespace)
	if f != nil {
		return nil, f
	}
	key := keyOf(cluster, request.ObjectRef)
	object, ok := s.h.objects[key]
	if !ok {
		return nil, failure(abi.CodeAbsent, request.Kind+" "+key.path())
	}
	return map[string]any{"object": object}, nil
}

func (s *host) kubeList(request *abi.KubeListRequest) (any, *abi.CallError) {
	cluster, f := s.allowed(request.Scope, "list", request.APIVersion, request.Kind, request.Namespace)
	if f != nil {
		return nil, f
	}
	if request.Name != "" {
		return nil, failure(abi.CodeInvalid, "a list has no name; use kube_get")
	}
	const byDefault, most = 100, 500
	limit := request.Limit
	if limit == 0 {
		limit = byDefault
	}
	matches, err := parseSelector(request.LabelSelector)
	start := 0
	if err == nil && request.Continue != "" {
		start, err = strconv.Atoi(request.Continue)
	}
	if err != nil || limit < 1 || limit > most || start < 0 {
		return nil, failure(abi.CodeInvalid, "labelSelector, limit or continue")
	}
	found := []map[string]any{}
	for _, key := range slices.SortedFunc(maps.Keys(s.h.objects), compareKeys) {
		same := key.cluster == cluster && key.apiVersion == request.APIVersion && key.kind == request.Kind &&
			(request.Namespace == "" || request.Namespace == key.namespace)
		if same && matches(labelsOf(s.h.objects[key])) {
			found = append(found, s.h.objects[key])
		}
	}
	start = min(start, len(found))
	end := min(start+limit, len(found))
	page := map[string]any{"items": found[start:end]}
	if end < len(found) {
		page["continue"] = strconv.Itoa(end)
	}
	return page, nil
}

func compareKeys(a, b objectKey) int { return strings.Compare(a.path(), b.path()) }

func (s *host) kubeApply(request *abi.KubeApplyRequest) (any, *abi.CallError) {
	content, key, err := parseObject("", request.Object)
	if err != nil {
		return nil, failure(abi.CodeInvalid, err.Error())
	}
	if metadata, _ := content["metadata"].(map[string]any); metadata["generateName"] != nil {
		return nil, failure(abi.CodeInvalid, "generateName would make another object in each call")
	}
	cluster, f := s.allowed(request.Scope, "apply", key.apiVersion, key.kind, key.namespace)
	if f != nil {
		return nil, f
	}
	if handlePattern.MatchString(allStrings(request.Object)) {
		return nil, failure(abi.CodeInvalid, "handles are replaced in the values of applications only")
	}
	key.cluster = cluster
	s.h.objects[key] = merge(s.h.objects[key], content)
	return map[string]any{"object": s.h.objects[key]}, nil
}

// merge lays applied fields over an object: objects field by field, anything else whole.
// That is server-side apply for a single owner that never drops a field.
func merge(old, applied map[string]any) map[string]any {
	out := maps.Clone(old)
	if out == nil {
		out = map[string]any{}
	}
	for name, value := range applied {
		inner, isObject := value.(map[string]any)
		before, wasObject := out[name].(map[string]any)
		if isObject && wasObject {
			out[name] = merge(before, inner)
			continue
		}
		out[name] = value
	}
	return out
}

func (s *host) kubeDelete(request *abi.KubeDeleteRequest) (any, *abi.CallError) {
	cluster, f := s.allowed(request.Scope, "delete", request.APIVersion, request.Kind, request.Namespace)
	if f != nil {
		return nil, f
	}
	key := keyOf(cluster, request.ObjectRef)
	object, ok := s.h.objects[key]
	if !ok {
		return abi.KubeDeleteResult{Gone: true}, nil
	}
	metadata, _ := object["metadata"].(map[string]any)
	if uid, _ := metadata["uid"].(string); request.UID != "" && request.UID != uid {
		return nil, failure(abi.CodeConflict, "the object has another uid")
	}
	if finalizers, _ := metadata["finalizers"].([]any); len(finalizers) > 0 {
		metadata["deletionTimestamp"] = s.in.Now
		return abi.KubeDeleteResult{Gone: false}, nil
	}
	// It is gone now, but a host only says so of what it does not find.
	delete(s.h.objects, key)
	return abi.KubeDeleteResult{Gone: false}, nil
}

func labelsOf(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	return labels
}
