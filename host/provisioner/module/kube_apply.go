package module

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner/application"
)

// maxObjectBytes is a little above what etcd stores of one object.
const maxObjectBytes = 2 << 20

// kubeApply applies one object server-side with the host's field manager. A field that
// another manager owns is a conflict and is never taken by force.
func kubeApply(ctx context.Context, s *session, r *abi.KubeApplyRequest) (*abi.KubeApplyResult, *abi.CallError) {
	object, callError := decodeObject(r.Object)
	if callError != nil {
		return nil, callError
	}
	ref := abi.ObjectRef{
		Scope: r.Scope, APIVersion: object.GetAPIVersion(), Kind: object.GetKind(),
		Namespace: object.GetNamespace(), Name: object.GetName(),
	}
	t, callError := s.reachOne(ctx, ref, "apply")
	if callError != nil {
		return nil, callError
	}
	err := t.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(fieldManager))
	if err != nil {
		return nil, kubeFailure(ctx, "apply "+ref.Kind+" "+ref.Name, err)
	}
	strip(object)
	raw, err := json.Marshal(object.Object)
	if err != nil {
		return nil, fail(abi.CodeUnavailable, "the object cannot be encoded")
	}
	return &abi.KubeApplyResult{Object: raw}, nil
}

func decodeObject(raw json.RawMessage) (*unstructured.Unstructured, *abi.CallError) {
	if len(raw) > maxObjectBytes {
		return nil, fail(abi.CodeTooLarge, "the object has %d bytes and %d are allowed", len(raw), maxObjectBytes)
	}
	content, err := application.DecodeValues(raw)
	if err != nil || content == nil {
		return nil, fail(abi.CodeInvalid, "object: is not a JSON object")
	}
	metadata, ok := content["metadata"].(map[string]any)
	if !ok {
		return nil, fail(abi.CodeInvalid, "object: has no metadata")
	}
	if _, generated := metadata["generateName"]; generated {
		return nil, fail(abi.CodeInvalid, "object: generateName would make another object in each call; name it")
	}
	// The API server refuses an apply that carries them, which would surprise a module
	// that applies what it has read.
	delete(metadata, "managedFields")
	return &unstructured.Unstructured{Object: content}, nil
}
