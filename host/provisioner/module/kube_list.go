package module

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
)

const (
	// defaultPage and maxPage are promised by the ABI.
	defaultPage = 100
	maxPage     = 500
	// maxSelector and maxContinue bound what goes into a URL.
	maxSelector = 4 << 10
	maxContinue = 4 << 10
)

// kubeList reads one page of objects.
func kubeList(ctx context.Context, s *session, r *abi.KubeListRequest) (*abi.KubeListResult, *abi.CallError) {
	options, callError := listOptions(r)
	if callError != nil {
		return nil, callError
	}
	t, callError := s.reach(ctx, r.ObjectRef, "list")
	if callError != nil {
		return nil, callError
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(t.gvk.GroupVersion().WithKind(t.gvk.Kind + "List"))
	if err := t.client.List(ctx, list, options); err != nil {
		return nil, kubeFailure(ctx, "list "+r.Kind, err)
	}
	result := &abi.KubeListResult{Items: make([]json.RawMessage, 0, len(list.Items)), Continue: list.GetContinue()}
	size := 0
	for i := range list.Items {
		strip(&list.Items[i])
		raw, err := json.Marshal(list.Items[i].Object)
		if err != nil {
			return nil, fail(abi.CodeUnavailable, "an object cannot be encoded")
		}
		if size += len(raw); size > s.limits.HostCallBytes {
			return nil, fail(abi.CodeTooLarge, "the page has more than %d bytes; ask with a limit below %d", s.limits.HostCallBytes, len(list.Items))
		}
		result.Items = append(result.Items, raw)
	}
	return result, nil
}

func listOptions(r *abi.KubeListRequest) (*client.ListOptions, *abi.CallError) {
	switch {
	case r.Name != "":
		return nil, fail(abi.CodeInvalid, "name: a list has none; use kube_get")
	case r.Limit < 0 || r.Limit > maxPage:
		return nil, fail(abi.CodeInvalid, "limit: is %d and must be 1 to %d", r.Limit, maxPage)
	case len(r.LabelSelector) > maxSelector:
		return nil, fail(abi.CodeTooLarge, "labelSelector has %d bytes and %d are allowed", len(r.LabelSelector), maxSelector)
	case len(r.Continue) > maxContinue:
		return nil, fail(abi.CodeTooLarge, "continue has %d bytes and %d are allowed", len(r.Continue), maxContinue)
	}
	selector, err := labels.Parse(r.LabelSelector)
	if err != nil {
		return nil, fail(abi.CodeInvalid, "labelSelector: %v", err)
	}
	limit := r.Limit
	if limit == 0 {
		limit = defaultPage
	}
	return &client.ListOptions{Namespace: r.Namespace, LabelSelector: selector, Limit: int64(limit), Continue: r.Continue}, nil
}
