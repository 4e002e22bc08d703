package cdtest

import (
	"context"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/scope"
)

// Harness is what the suite needs to know of a driver.
type Harness struct {
	// Admin reaches a cluster with every right. Every case makes namespaces of its own.
	Admin *rest.Config
	// New makes a driver as an operator would that has just started: operator is the
	// client with the operator's rights, and namespace is the operator's own. It ends
	// with the test.
	New func(t *testing.T, operator client.Client, namespace string) cd.Driver
	// Check looks at what only the driver's author can judge, after another process took
	// over from one that was killed, and did its work; it may be nil.
	Check func(t *testing.T, env *Env, tenant *Tenant)
}

// fixture is one case's place to work in.
type fixture struct {
	*Env
	harness Harness
	driver  cd.Driver
	tenant  *Tenant
	// home is the tenant's, as the driver's process reaches it.
	home scope.Scope
	// process is the driver's, in cases that kill it.
	process *Process
	// restart returns a driver that knows nothing yet.
	restart func() cd.Driver
}

// ensure is one pass for an application at the tenant's home.
func (f *fixture) ensure(ctx context.Context, app *cd.Application) func() error {
	return func() error { return f.driver.Ensure(ctx, f.home, app) }
}

// remove is one deletion pass for an application at the tenant's home.
func (f *fixture) remove(ctx context.Context, app *cd.Application) func() error {
	return func() error { return f.driver.Remove(ctx, f.home, app.ID) }
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for _, group := range []map[string]func(*testing.T, *fixture){ensureCases(), removeCases(), clusterCases(), killCases()} {
		for _, name := range sortedKeys(group) {
			t.Run(name, func(t *testing.T) {
				env := NewEnv(t, h.Admin)
				restart := func() cd.Driver { return h.New(t, env.Operator, env.Namespace) }
				tenant := env.NewTenant(t)
				group[name](t, &fixture{Env: env, harness: h, driver: restart(), tenant: tenant, home: tenant.Scope(), restart: restart})
			})
		}
	}
}
