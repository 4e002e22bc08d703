package scope

import (
	"context"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
)

// HomeID is the ID of the cluster that the operator runs on.
const HomeID = "home"

// Scope is the cluster that the current provisioner acts on. The zero value is of no
// use; make one with [NewHome] and derive others with [Scope.Remote].
type Scope struct {
	id       string
	owner    Owner
	remote   *ResourceIdentifier
	config   *rest.Config
	client   client.Client
	host     string
	port     int
	state    abi.ScopeState
	teardown abi.Teardown
	parent   *Scope
}

// NewHome returns the scope of the operator's own cluster for one owner. The config
// and the client must already act as the tenant's ServiceAccount: whatever runs in
// the scope uses them as they are.
func NewHome(owner Owner, config *rest.Config, c client.Client) Scope {
	return Scope{id: HomeID, owner: owner, config: config, client: c, state: abi.ScopeReady, teardown: abi.Drain}
}

// RemoteCluster says what a remote scope is made of.
type RemoteCluster struct {
	// ID identifies the remote by its owner and declared name.
	ID ResourceIdentifier
	// Config and Client reach the cluster with the kubeconfig's own identity. They are
	// nil when State is not ready and no registration is left to use.
	Config *rest.Config
	Client client.Client
	// Host and Port are the address of the API server.
	Host string
	Port int
	// State says whether the cluster can be used.
	State abi.ScopeState
	// Teardown is how the children are removed.
	Teardown abi.Teardown
}

// Remote derives the scope of a remote cluster inside s. A teardown can only be
// weakened on the way down: inside Discard there is no Drain.
func (s Scope) Remote(r RemoteCluster) Scope {
	parent := s
	id := r.ID
	return Scope{
		id: id.Hash(), owner: s.owner, remote: &id, config: r.Config, client: r.Client,
		host: r.Host, port: r.Port, state: r.State,
		teardown: weaker(s.teardown, r.Teardown), parent: &parent,
	}
}

// WithTeardown returns a copy with exactly this teardown policy. It is for nodes that
// must drain whatever surrounds them; a bracket uses [Scope.Remote].
func (s Scope) WithTeardown(t abi.Teardown) Scope {
	s.teardown = t
	return s
}

// ID is stable over passes: HomeID, or the hash of the remote's identifier.
func (s Scope) ID() string { return s.id }

// Owner is the object that is being reconciled.
func (s Scope) Owner() Owner { return s.owner }

// Tenant names, as an opaque string, whom the owner's tree works for: its namespace and
// the ServiceAccount that it acts as at home. It is the same in every scope of a tree.
func (s Scope) Tenant() string {
	home := s.Home()
	if home.config == nil {
		return home.owner.Namespace
	}
	return home.owner.Namespace + "/" + home.config.Impersonate.UserName
}

// RemoteID identifies the remote cluster, or is nil at home.
func (s Scope) RemoteID() *ResourceIdentifier { return s.remote }

// IsRemote reports whether the scope is another cluster than the operator's own.
func (s Scope) IsRemote() bool { return s.remote != nil }

// Config returns a copy of the client configuration, or nil if there is none.
func (s Scope) Config() *rest.Config {
	if s.config == nil {
		return nil
	}
	return rest.CopyConfig(s.config)
}

// Client reaches the cluster with the scope's identity; nil if it cannot be reached.
func (s Scope) Client() client.Client { return s.client }

// Address is the API server's host and port; "" and 0 at home.
func (s Scope) Address() (string, int) { return s.host, s.port }

// State says whether the cluster can be used.
func (s Scope) State() abi.ScopeState { return s.state }

// Teardown says how what was made here is to be removed.
func (s Scope) Teardown() abi.Teardown { return s.teardown }

// Parent is the enclosing scope, or nil at home.
func (s Scope) Parent() *Scope { return s.parent }

// Home is the outermost scope.
func (s Scope) Home() Scope {
	for s.parent != nil {
		s = *s.parent
	}
	return s
}

type contextKey struct{}

// NewContext returns a context that carries s.
func NewContext(ctx context.Context, s Scope) context.Context {
	return context.WithValue(ctx, contextKey{}, s)
}

// FromContext returns the scope that the context carries, and whether it does.
func FromContext(ctx context.Context) (Scope, bool) {
	s, ok := ctx.Value(contextKey{}).(Scope)
	return s, ok
}

// weaker returns the policy of the two that waits for less.
func weaker(a, b abi.Teardown) abi.Teardown {
	rank := func(t abi.Teardown) int {
		switch t {
		case abi.Orphan:
			return 2
		case abi.Discard:
			return 1
		case abi.Drain:
			return 0
		default:
			return 0
		}
	}
	if rank(b) > rank(a) {
		return b
	}
	return a
}
