package module

import (
	"context"

	"github.com/caisson-dev/caisson/abi"
)

// maxUID is far longer than any UID.
const maxUID = 128

// kubeDelete triggers the deletion of one object. Only an object that does not exist is
// gone; a module calls again until it is.
func kubeDelete(ctx context.Context, s *session, r *abi.KubeDeleteRequest) (*abi.KubeDeleteResult, *abi.CallError) {
	if len(r.UID) > maxUID {
		return nil, fail(abi.CodeInvalid, "uid: %q is none", clip(r.UID))
	}
	t, callError := s.reachOne(ctx, r.ObjectRef, "delete")
	if callError != nil {
		if callError.Code == abi.CodeAbsent {
			return &abi.KubeDeleteResult{Gone: true}, nil
		}
		return nil, callError
	}
	object := t.object()
	object.SetNamespace(r.Namespace)
	object.SetName(r.Name)
	err := t.client.Delete(ctx, object, preconditions(r.UID)...)
	switch {
	case err == nil:
		return &abi.KubeDeleteResult{}, nil
	case isAbsent(err):
		return &abi.KubeDeleteResult{Gone: true}, nil
	default:
		return nil, kubeFailure(ctx, "delete "+r.Kind+" "+r.Name, err)
	}
}
