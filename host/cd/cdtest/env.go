package cdtest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/scope"
)

// Env is an operator's place in a cluster.
type Env struct {
	// Admin may do everything; the tests look at the cluster with it.
	Admin client.Client
	// Config is Admin's.
	Config *rest.Config
	// Operator is the client that a driver gets. Its writes are counted.
	Operator client.Client
	// Namespace is the operator's own.
	Namespace string
	// Repository holds DemoChart in the versions 1.0.0 and 2.0.0.
	Repository *Repository

	requests atomic.Int64
	writes   atomic.Int64
}

// NewEnv makes an operator's namespace that goes with the test.
func NewEnv(t *testing.T, admin *rest.Config) *Env {
	t.Helper()
	admin = rest.CopyConfig(admin)
	admin.QPS = -1 // The limits of client-go only make tests slow.
	c, err := client.New(admin, client.Options{})
	require.NoError(t, err)
	e := &Env{Admin: c, Config: admin, Repository: NewRepository(t)}
	e.Operator, err = client.New(e.counted(admin), client.Options{})
	require.NoError(t, err)
	e.Namespace = e.makeNamespace(t, "operator-")
	e.Repository.Publish(t, DemoChart("1.0.0"))
	e.Repository.Publish(t, DemoChart("2.0.0"))
	return e
}

func (e *Env) makeNamespace(t *testing.T, prefix string) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}
	require.NoError(t, e.Admin.Create(t.Context(), ns))
	t.Cleanup(func() {
		// The test's own context has ended by now.
		_ = e.Admin.Delete(context.WithoutCancel(t.Context()), ns)
	})
	return ns.Name
}

// counted returns a config whose requests are counted.
func (e *Env) counted(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			e.requests.Add(1)
			if r.Method != http.MethodGet && r.Method != http.MethodHead {
				e.writes.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	return config
}

// Writes is how many writes driver and tenants have sent so far.
func (e *Env) Writes() int64 { return e.writes.Load() }

// Requests is how many requests driver and tenants have sent so far.
func (e *Env) Requests() int64 { return e.requests.Load() }

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Tenant is a namespace with a service account.
type Tenant struct {
	Namespace string

	env     *Env
	owner   scope.Owner
	config  *rest.Config
	client  client.Client
	account string
}

// NewTenant makes a tenant whose service account may do everything in its namespace.
func (e *Env) NewTenant(t *testing.T) *Tenant {
	t.Helper()
	tenant := e.NewPoorTenant(t)
	tenant.Grant(t)
	return tenant
}

// NewPoorTenant makes a tenant whose service account may do nothing.
func (e *Env) NewPoorTenant(t *testing.T) *Tenant {
	t.Helper()
	const account = "tenant"
	tn := &Tenant{Namespace: e.makeNamespace(t, "tenant-"), env: e, account: account}
	tn.config = e.counted(e.Config)
	tn.config.Impersonate = rest.ImpersonationConfig{
		UserName: fmt.Sprintf("system:serviceaccount:%s:%s", tn.Namespace, account),
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	var err error
	tn.client, err = client.New(tn.config, client.Options{})
	require.NoError(t, err)
	tn.owner = scope.Owner{
		APIVersion: "caisson.dev/v1alpha1", Kind: "Stack", Namespace: tn.Namespace, Name: "platform",
		UID: strings.ReplaceAll(tn.Namespace, "tenant-", "uid-"),
	}
	return tn
}

// Grant gives the service account every right in its namespace.
func (tn *Tenant) Grant(t *testing.T) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: tn.Namespace, Name: "tenant"}
	require.NoError(t, tn.env.Admin.Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
	}}))
	require.NoError(t, tn.env.Admin.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tenant"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: tn.Namespace, Name: tn.account}},
	}))
}

// Owner is the object whose tree the tenant's applications are in.
func (tn *Tenant) Owner() scope.Owner { return tn.owner }

// Scope is the home cluster as the tenant's service account.
func (tn *Tenant) Scope() scope.Scope { return scope.NewHome(tn.owner, tn.config, tn.client) }

// Remote is the same cluster as the scope of a remote of the tenant's.
func (tn *Tenant) Remote(r scope.RemoteCluster) scope.Scope {
	if r.ID == (scope.ResourceIdentifier{}) {
		r.ID = scope.ResourceIdentifier{Owner: tn.owner, Path: "workload", Name: "workload"}
	}
	return tn.Scope().Remote(r)
}

// Config is what reaches the cluster as the tenant.
func (tn *Tenant) Config() *rest.Config { return rest.CopyConfig(tn.config) }

// Client is Config's.
func (tn *Tenant) Client() client.Client { return tn.client }

// Application is DemoChart 1.0.0 as the release "app" in the tenant's namespace.
func (tn *Tenant) Application() *cd.Application {
	return &cd.Application{
		ID:   scope.ResourceIdentifier{Owner: tn.owner, Path: "all/app", Name: "app"},
		Repo: tn.env.Repository.URL, Chart: "demo", Version: "1.0.0",
		Release: "app", Namespace: tn.Namespace, Values: map[string]any{},
	}
}
