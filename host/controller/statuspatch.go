package controller

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// statusPatch replaces the status of a Stack as it was read. A merge patch would not do:
// it takes a null for a removal, and facts may hold some; and over a Stack that has
// changed since, it would leave fields in place that the pass never saw, such as a park.
// If the Stack has changed, the API server answers with a conflict.
type statusPatch struct {
	status v1alpha1.StackStatus
}

var _ client.Patch = statusPatch{}

// Type implements client.Patch.
func (statusPatch) Type() types.PatchType { return types.JSONPatchType }

// Data implements client.Patch. The object is the Stack as it was read.
func (p statusPatch) Data(object client.Object) ([]byte, error) {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	data, err := json.Marshal([]operation{
		{Op: "replace", Path: "/metadata/resourceVersion", Value: object.GetResourceVersion()},
		{Op: "add", Path: "/status", Value: p.status},
	})
	if err != nil {
		return nil, fmt.Errorf("encode status: %w", err)
	}
	return data, nil
}
