package remotecluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// askAgainMin keeps a pass that ends just before a silent cluster may be asked again from
// being followed by another at once.
const askAgainMin = time.Second

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
	attempt

	// connection is set if the remote can be used.
	connection *scope.Connection
	// evidence is that of the remote's end.
	evidence Evidence
}

// attempt is how one way to the remote ended.
type attempt struct {
	// asked is the cluster that was asked; nil if it did not come to that.
	asked *scope.Connection
	// err says why the remote cannot be used.
	err error
}

// failed is a resolution that did not come to asking.
func failed(err error) resolution { return resolution{attempt: attempt{err: err}} }

// gone is a resolution with evidence of the remote's end.
func gone(why Evidence, cause error) resolution {
	found := failed(provisioner.Retry(abi.ReasonRemoteGone, "").WithCause(cause))
	found.evidence = why
	return found
}

// remnant is what a removal has to work with.
type remnant struct {
	state      abi.ScopeState
	connection *scope.Connection
	// unused says that nothing can ever have been installed.
	unused bool
	// cause is why the state is pending, where what runs on the remote cannot tell.
	cause error
	// err says that the rest could not be found out.
	err error
}

func newPass() *pass {
	// A question whose answer panicked has these for the other nodes.
	broken := provisioner.Retry(abi.ReasonUnexpected, "another node of the pass broke off while it looked the remote up")
	return &pass{
		resolution:   failed(broken),
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
		return failed(err)
	}
	if b.id == (scope.ResourceIdentifier{}) {
		return failed(provisioner.Retry(abi.ReasonUnexpected, "the resolver does not say which remote it finds"))
	}
	if b.declared() {
		return gone(EvidenceDeclared, fmt.Errorf("remote %s was declared gone: %w", b.id.Path, provisioner.ErrNotFound))
	}
	if enclosing.State() == abi.ScopeGone {
		return failed(provisioner.Retry(abi.ReasonRemoteGone, "the cluster that remote "+b.id.Path+" is found through is gone"))
	}
	kubeconfig, err := b.options.Remote.Config(ctx)
	switch {
	case errors.Is(err, provisioner.ErrNotFound):
		return gone(EvidenceResolved, err)
	case err != nil:
		return failed(provisioner.OrRetry(provisioner.Settle(ctx, err), abi.ReasonUnexpected))
	case kubeconfig == nil:
		return failed(provisioner.Yield(abi.ReasonRemotePending, "the resolver returned no kubeconfig"))
	}
	found := resolution{attempt: b.connect(ctx, kubeconfig)}
	if found.err == nil {
		found.connection = found.asked
	}
	return found
}

// connect asks a cluster whether it answers.
func (b *Bracket) connect(ctx context.Context, kubeconfig *clientcmdapi.Config) attempt {
	connection, err := b.options.Clients.Remote(kubeconfig)
	if err != nil {
		return attempt{err: refused(err)}
	}
	err = b.options.Clients.Reachable(ctx, connection)
	if err == nil {
		return attempt{asked: connection}
	}
	if stop := provisioner.Interrupted(ctx); stop != nil {
		return attempt{asked: connection, err: stop}
	}
	if errors.Is(err, scope.ErrUnauthorized) {
		// A Retry and not a request to the user: while a cluster comes up it may refuse for
		// a moment what it will accept.
		return attempt{asked: connection, err: provisioner.Retry(abi.ReasonForbidden, "").WithCause(err)}
	}
	// No event tells that it answers again, and a pass before it is asked again would
	// only hear what this one does.
	again := max(askAgainMin, b.options.Clients.AskAgainIn(connection))
	return attempt{asked: connection, err: provisioner.Yield(abi.ReasonRemoteUnreachable, "").WithCause(err).WithRetryAfter(again)}
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
