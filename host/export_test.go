package host

import (
	"context"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/controller"
	"github.com/caisson-dev/caisson/host/sandbox"
)

// LoadModuleObject loads what a Module object means in the way of the operator.
func LoadModuleObject(ctx context.Context, box *sandbox.Sandbox, o Options, object *v1alpha1.Module, wasm []byte) (controller.LoadedModule, error) {
	return (&loader{box: box, policy: o.limitPolicy()}).Load(ctx, object, wasm)
}
