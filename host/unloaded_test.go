package host_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
)

// TestNeverLoadedModuleLetsGo: whoever names a registry that is not there can delete the
// Stack again, long before the time is over that a removal waits for a module.
func TestNeverLoadedModuleLetsGo(t *testing.T) {
	r := needRig(t)
	namespace := r.tenant(t, "unloaded")
	r.module(t, "unloaded", "reference: 127.0.0.1:1/modules/nowhere:1"+anyGrant)
	key := r.stack(t, namespace, "web", hostileStack("unloaded", "ok"))
	r.awaitModule(t, "unloaded", "False/RegistryUnavailable")
	r.awaitNode(t, key, "leaf", abi.Retry.String(), abi.ReasonModuleNotReady)
	stack := r.get(t, key)
	require.NoError(t, r.admin.Delete(t.Context(), stack))
	r.awaitGone(t, key)
	r.requireNothingKept(t, string(stack.UID))
}
