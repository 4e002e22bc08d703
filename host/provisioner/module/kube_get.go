package module

import (
	"context"
	"encoding/json"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
)

// kubeGet reads one object.
func kubeGet(ctx context.Context, s *session, r *abi.KubeGetRequest) (*abi.KubeGetResult, *abi.CallError) {
	t, callError := s.reachOne(ctx, r.ObjectRef, "get")
	if callError != nil {
		return nil, callError
	}
	object := t.object()
	if err := t.client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Name}, object); err != nil {
		return nil, kubeFailure(ctx, "get "+r.Kind+" "+r.Name, err)
	}
	strip(object)
	raw, err := json.Marshal(object.Object)
	if err != nil {
		return nil, fail(abi.CodeUnavailable, "the object cannot be encoded")
	}
	return &abi.KubeGetResult{Object: raw}, nil
}
