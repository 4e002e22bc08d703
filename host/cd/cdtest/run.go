package cdtest

import (
	"context"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/cd"
)

// Harness is what the suite needs to know of a driver.
type Harness struct {
	// Admin reaches a cluster with every right. Every case makes namespaces of its own.
	Admin *rest.Config
	// New makes a driver as an operator would that has just started: operator is the
	// client with the operator's rights, and namespace is the operator's own. It ends
	// with the test.
	New func(t *testing.T, operator client.Client, namespace string) cd.Driver
}

// fixture is one case's place to work in.
type fixture struct {
	*Env
	driver cd.Driver
	tenant *Tenant
	// restart returns a driver that knows nothing yet.
	restart func() cd.Driver
}

// ensure is one pass for an application at the tenant's home.
func (f *fixture) ensure(ctx context.Context, app *cd.Application) func() error {
	return func() error { return f.driver.Ensure(ctx, f.tenant.Scope(), app) }
}

// remove is one deletion pass for an application at the tenant's home.
func (f *fixture) remove(ctx context.Context, app *cd.Application) func() error {
	return func() error { return f.driver.Remove(ctx, f.tenant.Scope(), app.ID) }
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for _, group := range []map[string]func(*testing.T, *fixture){ensureCases(), removeCases(), clusterCases()} {
		for _, name := range sortedKeys(group) {
			t.Run(name, func(t *testing.T) {
				env := NewEnv(t, h.Admin)
				restart := func() cd.Driver { return h.New(t, env.Operator, env.Namespace) }
				group[name](t, &fixture{Env: env, driver: restart(), tenant: env.NewTenant(t), restart: restart})
			})
		}
	}
}
