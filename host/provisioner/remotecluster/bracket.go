package remotecluster

import (
	"context"
	"slices"
	"sync"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// Ownership says who looks after a remote's registration.
type Ownership string

const (
	// External remotes are only used: they are never registered nor deregistered. It is
	// the zero value's meaning.
	External Ownership = "External"
	// Owned remotes are registered with the driver before anything is installed on them,
	// and deregistered when nothing is left.
	Owned Ownership = "Owned"
)

// Clients connects to clusters. *scope.ClientCache implements it.
type Clients interface {
	// Remote returns the connection for a kubeconfig, without a request. An error that
	// is a *scope.KubeconfigError says that the kubeconfig must be replaced.
	Remote(kubeconfig *clientcmdapi.Config) (*scope.Connection, error)
	// Reachable returns nil if the cluster answers, and an error that Is
	// scope.ErrUnauthorized if it answers and refuses the credential.
	Reachable(ctx context.Context, connection *scope.Connection) error
	// AskAgainIn is how long what Reachable said last still holds; 0 if it would ask now.
	AskAgainIn(connection *scope.Connection) time.Duration
}

var _ Clients = (*scope.ClientCache)(nil)

// Options are what a bracket is made of. Remote, Clusters, Applications and Clients are
// required.
type Options struct {
	// Remote resolves the kubeconfig, in the scope that encloses the nodes.
	Remote provisioner.RemoteCluster
	// Clusters keeps the registration.
	Clusters cd.Clusters
	// Applications tells what is still installed on the remote.
	Applications cd.Applications
	// Clients connects to it.
	Clients Clients
	// Ownership is External if empty.
	Ownership Ownership
	// Teardown is how what runs on the remote is removed; Drain if empty.
	Teardown abi.Teardown
	// Deletion is set while the owner is being deleted, and nil otherwise. Without it only
	// the resolver's evidence counts.
	Deletion *Deletion
	// Nested identifies the remotes that are declared on this one, however deep. While
	// one of them is in use, a deletion visits the nodes of this one too, though nothing
	// was ever installed on this one itself.
	Nested []scope.ResourceIdentifier
}

// Bracket is a remote cluster in a tree. It is safe for concurrent use within a pass;
// two passes at once need two brackets.
type Bracket struct {
	options Options
	id      scope.ResourceIdentifier

	mu    sync.Mutex
	nodes []*node
	pass  *pass
	// evidence is that of the current or last pass.
	evidence Evidence
}

// New returns the bracket of a remote, at the beginning of a pass.
func New(o Options) *Bracket {
	o.Nested = slices.Clone(o.Nested)
	b := &Bracket{options: o, pass: newPass()}
	if id := o.Remote.ID(); id != nil {
		b.id = *id
	}
	return b
}

// On returns a node that runs a child on the remote. All nodes of a tree must have been
// made before its first pass.
func (b *Bracket) On(name string, child provisioner.Provisioner) provisioner.Provisioner {
	n := &node{Metadata: provisioner.Metadata{Name: name}, bracket: b, child: child}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nodes = append(b.nodes, n)
	return n
}

// Begin starts a pass: what the last one found out is forgotten.
func (b *Bracket) Begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pass, b.evidence = newPass(), EvidenceNone
}

// Finish ends a deletion pass and must not be called in another one. If the bracket
// owns its remote and every node on it reported OK in this pass, the remote is
// deregistered, unless the driver still lists an application on it: that is a Yield
// remote_in_use. If some node did not report OK, Finish does nothing and returns nil,
// since that node's own error already says what is being waited for. What it returns
// never parks.
func (b *Bracket) Finish(ctx context.Context) error {
	b.mu.Lock()
	finished, nodes := b.pass, slices.Clone(b.nodes)
	b.pass = newPass()
	b.mu.Unlock()

	if b.options.Ownership != Owned || !finished.removedAll(nodes) {
		return nil
	}
	if err := provisioner.Interrupted(ctx); err != nil {
		return err
	}
	return provisioner.Under(b.id.Name, provisioner.Unpark(b.deregister(ctx)))
}

func (b *Bracket) deregister(ctx context.Context) error {
	used, err := b.hasApplications(ctx, b.id)
	if err != nil {
		return err
	}
	if used {
		return provisioner.Yield(abi.ReasonRemoteInUse, "the driver lists applications on remote "+b.id.Path)
	}
	err = provisioner.Settle(ctx, b.options.Clusters.Deregister(ctx, b.id))
	return provisioner.OrRetry(err, abi.ReasonRegistrationFailed)
}

// hasApplications reports whether the driver lists an application on a remote.
func (b *Bracket) hasApplications(ctx context.Context, id scope.ResourceIdentifier) (bool, error) {
	installed, err := b.options.Applications.List(ctx, b.id.Owner)
	if err != nil {
		return false, provisioner.OrRetry(provisioner.Settle(ctx, err), abi.ReasonUnexpected)
	}
	scopeID := id.Hash()
	return slices.ContainsFunc(installed, func(i cd.Installed) bool { return i.ScopeID == scopeID }), nil
}

func (b *Bracket) current() *pass {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pass
}
