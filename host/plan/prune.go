package plan

import (
	"context"
	"slices"
	"strings"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// pruned runs a tree and removes what no node of it stands for any more: applications
// of nodes that were dropped from the spec, or moved in it. It is for one pass.
type pruned struct {
	root   provisioner.Provisioner
	driver cd.Applications
	owner  scope.Owner
	// leaves are the paths of the application and module nodes.
	leaves []string
	// remotes remove what is left on each declared remote, the outermost first.
	remotes []prunedRemote
	// listed is what the driver knew of at the beginning of the pass, and leftovers are
	// those of it that no leaf stands for.
	listed, leftovers []cd.Installed
}

// prunedRemote removes what is left on one remote. Its node is part of the bracket, so
// that the remote is not deregistered before it has been through.
type prunedRemote struct {
	name string
	left *leftover
	node provisioner.Provisioner
}

var _ provisioner.Provisioner = (*pruned)(nil)

// pruned wraps a root. Brackets must not have been run yet.
func (b *builder) pruned(root provisioner.Provisioner) *pruned {
	p := &pruned{root: root, driver: b.deps.Driver, owner: b.owner}
	for name, path := range b.paths {
		if kind := b.nodes[name]; kind.Application != nil || kind.Module != nil {
			p.leaves = append(p.leaves, path)
		}
	}
	for _, name := range b.remoteOrder {
		left := &leftover{pruned: p, scopeID: RemoteID(b.owner, name).Hash()}
		p.remotes = append(p.remotes, prunedRemote{name: name, left: left, node: b.within(name, left)})
	}
	return p
}

// within puts a node onto a remote, through those that the remote is within.
func (b *builder) within(remote string, node provisioner.Provisioner) provisioner.Provisioner {
	for remote != "" {
		node = b.brackets[remote].On(remote, node)
		remote = b.remotes[remote].Within
	}
	return node
}

// ProvisionerName implements provisioner.Provisioner.
func (p *pruned) ProvisionerName() string { return p.root.ProvisionerName() }

// Provision implements provisioner.Provisioner. What is left is removed whatever the
// tree comes to: it may be what the tree waits for.
func (p *pruned) Provision(ctx context.Context) error {
	if err := p.look(ctx); err != nil {
		return err
	}
	results := []error{p.root.Provision(ctx), p.removeAtHome(ctx)}
	for _, remote := range p.remotes {
		if p.has(remote.left.scopeID) {
			results = append(results, remote.remove(ctx))
		}
	}
	return provisioner.Fold(append(results, p.undeclared())...)
}

// Deprovision implements provisioner.Provisioner.
func (p *pruned) Deprovision(ctx context.Context) error {
	if err := p.look(ctx); err != nil {
		return err
	}
	results := []error{p.root.Deprovision(ctx), p.removeAtHome(ctx)}
	for _, remote := range p.remotes {
		results = append(results, remote.remove(ctx))
	}
	return provisioner.Fold(append(results, p.undeclared())...)
}

// remove visits the remote. What an application answered stands under the path that its
// node had, and what the remote itself did under its name.
func (r prunedRemote) remove(ctx context.Context) error {
	err := r.node.Deprovision(ctx)
	if r.left.err != nil {
		return r.left.err
	}
	return provisioner.Under(r.name, provisioner.Unpark(err))
}

// look finds out what no leaf stands for. The last in the order of paths goes first.
func (p *pruned) look(ctx context.Context) error {
	installed, err := p.driver.List(ctx, p.owner)
	if err != nil {
		return provisioner.OrRetry(provisioner.Settle(ctx, err), abi.ReasonUnexpected)
	}
	p.listed = installed
	p.leftovers = slices.DeleteFunc(slices.Clone(installed), func(i cd.Installed) bool { return p.claimed(i.ID.Path) })
	slices.SortFunc(p.leftovers, func(a, b cd.Installed) int { return strings.Compare(b.ID.Path, a.ID.Path) })
	return nil
}

// claimed reports whether a leaf stands for an application: its own path, or one below
// it for a module with several.
func (p *pruned) claimed(path string) bool {
	return slices.ContainsFunc(p.leaves, func(leaf string) bool { return path == leaf || strings.HasPrefix(path, leaf+"/") })
}

func (p *pruned) has(scopeID string) bool {
	return slices.ContainsFunc(p.leftovers, func(i cd.Installed) bool { return i.ScopeID == scopeID })
}

func (p *pruned) removeAtHome(ctx context.Context) error {
	return (&leftover{pruned: p, scopeID: scope.HomeID}).Deprovision(ctx)
}

// undeclared complains of applications in scopes that cannot be reached any more. It is
// a Retry, because removals never park, and an edit of the spec mends it.
func (p *pruned) undeclared() error {
	var results []error
	for _, i := range p.leftovers {
		known := i.ScopeID == scope.HomeID || slices.ContainsFunc(p.remotes, func(r prunedRemote) bool { return r.left.scopeID == i.ScopeID })
		if !known {
			results = append(results, provisioner.Under(i.ID.Path, provisioner.Retry(abi.ReasonRemoteUndeclared, "release "+i.Namespace+"/"+i.Release)))
		}
	}
	return provisioner.Fold(results...)
}

// leftover removes what is left in one scope.
type leftover struct {
	pruned  *pruned
	scopeID string
	// err is what came of it, placed in the tree.
	err error
}

var _ provisioner.Provisioner = (*leftover)(nil)

// ProvisionerName implements provisioner.Provisioner.
func (l *leftover) ProvisionerName() string { return "leftover" }

// Provision implements provisioner.Provisioner: what is left is never wanted.
func (l *leftover) Provision(ctx context.Context) error { return l.Deprovision(ctx) }

// Deprovision implements provisioner.Provisioner.
func (l *leftover) Deprovision(ctx context.Context) error {
	current, ok := scope.FromContext(ctx)
	if !ok {
		return provisioner.Retry(abi.ReasonUnexpected, "the context carries no scope")
	}
	var results []error
	for _, i := range l.pruned.leftovers {
		if i.ScopeID != l.scopeID {
			continue
		}
		err := provisioner.OrRetry(provisioner.Settle(ctx, l.pruned.driver.Remove(ctx, current, i.ID)), abi.ReasonUnexpected)
		results = append(results, provisioner.Under(i.ID.Path, err))
	}
	l.err = provisioner.Unpark(provisioner.Fold(results...))
	return l.err
}
