package remotecluster

import (
	"context"
	"errors"
	"sync"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// pass is what one pass finds out about a remote. Each question is answered once, for
// the first node that asks; the others wait for it and get the same.
type pass struct {
	resolved   sync.Once
	resolution resolution

	registered   sync.Once
	registration error

	remained sync.Once
	remnant  remnant

	mu      sync.Mutex
	removed map[*node]bool
}

// resolution is what the resolver and the cluster said.
type resolution struct {
	// connection is set if the remote can be used.
	connection *scope.Connection
	// gone says that there is evidence of the remote's end.
	gone bool
	// err says why there is no connection.
	err error
}

// remnant is what a removal has to work with.
type remnant struct {
	state      abi.ScopeState
	connection *scope.Connection
	// unused says that nothing can ever have been installed.
	unused bool
	// cause is why the state is pending, where that is more than waiting.
	cause error
	// err says that the rest could not be found out.
	err error
}

func newPass() *pass {
	// A question whose answer panicked has these for the other nodes.
	broken := provisioner.Retry(abi.ReasonUnexpected, "another node of the pass broke off while it looked the remote up")
	return &pass{
		resolution:   resolution{err: broken},
		registration: broken,
		remnant:      remnant{err: broken},
		removed:      map[*node]bool{},
	}
}

// resolve finds the remote, in the scope of the context.
func (p *pass) resolve(ctx context.Context, b *Bracket, enclosing scope.Scope) resolution {
	p.resolved.Do(func() { p.resolution = b.resolve(ctx, enclosing) })
	return p.resolution
}

// register records an owned remote with the driver.
func (p *pass) register(ctx context.Context, b *Bracket, connection *scope.Connection) error {
	p.registered.Do(func() { p.registration = b.register(ctx, connection) })
	return p.registration
}

// remains finds out what a removal has to work with.
func (p *pass) remains(ctx context.Context, b *Bracket, enclosing scope.Scope) remnant {
	p.remained.Do(func() {
		p.remnant = b.remains(ctx, p.resolve(ctx, b, enclosing), enclosing)
	})
	return p.remnant
}

// report notes how the removal of a node ended. A node that is called twice has ended
// well if it did so both times.
func (p *pass) report(n *node, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, seen := p.removed[n]
	p.removed[n] = err == nil && (before || !seen)
}

// removedAll reports whether every node was called and ended well.
func (p *pass) removedAll(nodes []*node) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range nodes {
		if !p.removed[n] {
			return false
		}
	}
	return true
}

func (b *Bracket) resolve(ctx context.Context, enclosing scope.Scope) resolution {
	if err := provisioner.Interrupted(ctx); err != nil {
		return resolution{err: err}
	}
	if b.id == (scope.ResourceIdentifier{}) {
		return resolution{err: provisioner.Retry(abi.ReasonUnexpected, "the resolver does not say which remote it finds")}
	}
	if enclosing.State() == abi.ScopeGone {
		return resolution{err: provisioner.Retry(abi.ReasonRemoteGone, "the cluster that remote "+b.id.Path+" is found through is gone")}
	}
	kubeconfig, err := b.options.Remote.Config(ctx)
	switch {
	case errors.Is(err, provisioner.ErrNotFound):
		return resolution{gone: true, err: provisioner.Retry(abi.ReasonRemoteGone, "").WithCause(err)}
	case err != nil:
		return resolution{err: provisioner.OrRetry(provisioner.Settle(ctx, err), abi.ReasonUnexpected)}
	case kubeconfig == nil:
		return resolution{err: provisioner.Yield(abi.ReasonRemotePending, "the resolver returned no kubeconfig")}
	}
	connection, err := b.connect(ctx, kubeconfig)
	return resolution{connection: connection, err: err}
}

// connect returns a connection to a cluster that answers, or why there is none.
func (b *Bracket) connect(ctx context.Context, kubeconfig *clientcmdapi.Config) (*scope.Connection, error) {
	connection, err := b.options.Clients.Remote(kubeconfig)
	if err != nil {
		return nil, refused(err)
	}
	err = b.options.Clients.Reachable(ctx, connection)
	if err == nil {
		return connection, nil
	}
	if stop := provisioner.Interrupted(ctx); stop != nil {
		return nil, stop
	}
	if errors.Is(err, scope.ErrUnauthorized) {
		// A Retry and not a request to the user: while a cluster comes up it may refuse for
		// a moment what it will accept.
		return nil, provisioner.Retry(abi.ReasonForbidden, "").WithCause(err)
	}
	return nil, provisioner.Yield(abi.ReasonRemoteUnreachable, "").WithCause(err)
}

// refused maps the error of a kubeconfig that no client can be made of.
func refused(err error) error {
	var kubeconfigError *scope.KubeconfigError
	if errors.As(err, &kubeconfigError) {
		return provisioner.Terminal(abi.ReasonInvalidKubeconfig, "").WithCause(err)
	}
	return provisioner.OrRetry(err, abi.ReasonUnexpected)
}

func (b *Bracket) register(ctx context.Context, connection *scope.Connection) error {
	if b.options.Ownership != Owned {
		return nil
	}
	err := b.options.Clusters.Register(ctx, b.id, connection.Kubeconfig())
	return provisioner.OrRetry(provisioner.Settle(ctx, err), abi.ReasonRegistrationFailed)
}

func (b *Bracket) remains(ctx context.Context, found resolution, enclosing scope.Scope) remnant {
	if found.gone {
		return remnant{state: abi.ScopeGone}
	}
	if found.connection != nil {
		return remnant{state: abi.ScopeReady, connection: found.connection}
	}
	if err := provisioner.Interrupted(ctx); err != nil {
		return remnant{err: err}
	}
	stored, err := b.stored(ctx, b.id)
	if err != nil {
		return remnant{err: err}
	}
	if stored != nil {
		if connection, err := b.connect(ctx, stored); err == nil {
			return remnant{state: abi.ScopeReady, connection: connection}
		}
	}
	if stored == nil {
		used, err := b.used(ctx)
		if err != nil {
			return remnant{err: err}
		}
		if !used {
			return remnant{unused: true}
		}
	}
	if enclosing.State() == abi.ScopeGone {
		// Where the remote would be found is gone for good, and what was recorded of the
		// remote does not answer: nobody can ever reach it again.
		return remnant{state: abi.ScopeGone}
	}
	left := remnant{state: abi.ScopePending}
	if provisioner.OutcomeOf(found.err).Class != abi.Yield {
		left.cause = found.err
	}
	return left
}

// used reports whether something was installed on the remote, or on one inside it.
func (b *Bracket) used(ctx context.Context) (bool, error) {
	if used, err := b.hasApplications(ctx, b.id); used || err != nil {
		return used, err
	}
	for _, id := range b.options.Nested {
		if used, err := b.hasApplications(ctx, id); used || err != nil {
			return used, err
		}
		stored, err := b.options.stored(ctx, id)
		if stored != nil || err != nil {
			return stored != nil, err
		}
	}
	return false, nil
}

// stored returns the registered kubeconfig of an owned remote, or nil if there is none.
func (b *Bracket) stored(ctx context.Context, id scope.ResourceIdentifier) (*clientcmdapi.Config, error) {
	if b.options.Ownership != Owned {
		return nil, nil
	}
	return b.options.stored(ctx, id)
}

func (o Options) stored(ctx context.Context, id scope.ResourceIdentifier) (*clientcmdapi.Config, error) {
	config, err := o.Clusters.Registered(ctx, id)
	if errors.Is(err, provisioner.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, provisioner.OrRetry(provisioner.Settle(ctx, err), abi.ReasonRegistrationFailed)
	}
	return config, nil
}
