package remotecluster

import (
	"context"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// node runs one child on the remote of its bracket.
type node struct {
	provisioner.Metadata

	bracket *Bracket
	child   provisioner.Provisioner
}

var _ provisioner.Provisioner = (*node)(nil)

// Provision implements provisioner.Provisioner. The child is called once the remote is
// resolved, answers, and is registered if owned; until then the error says what is
// missing.
func (n *node) Provision(ctx context.Context) error {
	enclosing, err := enclosingScope(ctx)
	if err != nil {
		return err
	}
	pass := n.bracket.current()
	found := pass.resolve(ctx, n.bracket, enclosing)
	if found.connection == nil {
		return found.err
	}
	if err := pass.register(ctx, n.bracket, found.connection); err != nil {
		return err
	}
	inside := scope.NewContext(ctx, n.bracket.scopeOf(enclosing, abi.ScopeReady, found.connection))
	return provisioner.At(n.child, 0, provisioner.Settle(ctx, n.child.Provision(inside)))
}

// Deprovision implements provisioner.Provisioner. The child is called with the state of
// the remote in its scope, unless nothing can ever have been installed.
func (n *node) Deprovision(ctx context.Context) error {
	enclosing, err := enclosingScope(ctx)
	if err != nil {
		return err
	}
	pass := n.bracket.current()
	left := pass.remains(ctx, n.bracket, enclosing)
	if left.err != nil {
		return provisioner.Unpark(left.err)
	}
	if left.unused {
		pass.report(n, nil)
		return nil
	}
	inside := scope.NewContext(ctx, n.bracket.scopeOf(enclosing, left.state, left.connection))
	err = provisioner.Settle(ctx, n.child.Deprovision(inside))
	pass.report(n, err)
	placed := provisioner.At(n.child, 0, provisioner.Unpark(err))
	if placed == nil || left.cause == nil {
		return placed
	}
	// The child waits for the remote, and what is wrong with that is the better headline.
	return provisioner.Fold(provisioner.Unpark(left.cause), placed)
}

// scopeOf derives the scope of the remote; the connection may be nil.
func (b *Bracket) scopeOf(enclosing scope.Scope, state abi.ScopeState, connection *scope.Connection) scope.Scope {
	remote := scope.RemoteCluster{ID: b.id, State: state, Teardown: b.options.Teardown}
	if connection != nil {
		remote.Config = connection.Config()
		remote.Client = connection.Client()
		remote.Host, remote.Port = connection.Address()
	}
	return enclosing.Remote(remote)
}

func enclosingScope(ctx context.Context) (scope.Scope, error) {
	enclosing, ok := scope.FromContext(ctx)
	if !ok {
		return scope.Scope{}, provisioner.Retry(abi.ReasonUnexpected, "a remote was entered without a scope in the context")
	}
	return enclosing, nil
}
