package module_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner/module"
	"github.com/caisson-dev/caisson/host/scope"
)

// tenantRuntime notes whom it was called for.
type tenantRuntime struct{ tenants []string }

func (r *tenantRuntime) Call(_ context.Context, tenant, _ string, _ []byte, _ func(context.Context, string, []byte) []byte) (int32, []byte, error) {
	r.tenants = append(r.tenants, tenant)
	return 0, []byte(`{}`), nil
}

// TestCallNamesTheTenant proves that the runtime learns for whom it runs, at home and on
// a remote, so that it can keep tenants apart.
func TestCallNamesTheTenant(t *testing.T) {
	w := newWorld(nil)
	w.scope = scope.NewHome(owner(), scope.Impersonate(&rest.Config{}, "team", "platform"), nil)
	runtime := &tenantRuntime{}
	o := w.options
	o.Instance = func(context.Context) (*module.Instance, error) {
		return &module.Instance{Name: "cni", Digest: "sha256:aa", Manifest: w.manifest, Grant: w.grant, Runtime: runtime}, nil
	}
	require.NoError(t, module.New(o).Provision(scope.NewContext(t.Context(), w.scope)))
	w.remote(nil, abi.ScopeReady, abi.Drain)
	require.NoError(t, module.New(o).Provision(scope.NewContext(t.Context(), w.scope)))
	require.Equal(t, []string{"team/system:serviceaccount:team:platform", "team/system:serviceaccount:team:platform"}, runtime.tenants)
}
