package plan

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/caisson-dev/caisson/host/provisioner"
)

// Tree is the tree of one Stack for one pass: run Provision or Deprovision once, then
// read what came of it. The readers may be called at any time.
type Tree struct {
	root      provisioner.Provisioner
	record    *record
	facts     *facts
	abandoned *abandoned
}

// Provision runs the tree up. The context must carry the home scope of the Stack's
// owner. The error folds those of the nodes, under paths that begin with the root's
// name; read it with provisioner.OutcomeOf.
func (t *Tree) Provision(ctx context.Context) error { return t.root.Provision(ctx) }

// Deprovision runs the tree down, and then deregisters the remotes that nothing needs
// any more, the innermost first, also if other parts are still being removed. It returns
// nil once everything is gone. The error never parks; that of a remote is under its
// name.
func (t *Tree) Deprovision(ctx context.Context) error {
	err := t.root.Deprovision(ctx)
	t.abandoned.look(ctx)
	return provisioner.Unpark(err)
}

// Nodes returns the nodes of the tree, sorted by path.
func (t *Tree) Nodes() []Node {
	results := t.record.list()
	nodes := make([]Node, len(results))
	for i, result := range results {
		nodes[i] = result.Node
	}
	return nodes
}

// Results returns what the pass came to at each node, sorted by path. Nodes that the
// pass did not reach are Waiting; whoever knows what they were before may keep that.
func (t *Tree) Results() []Result { return t.record.list() }

// Abandoned returns what the deletion gave up, in this pass and, from the Stack's status,
// in earlier ones: a line for each remote that counted as gone, with the evidence, and one
// for each release that was recorded there and dropped. The lines are safe to show to
// users, sorted, each there once and the same in every pass; empty if nothing was given
// up, and of a Stack that is not being deleted. Whoever writes the status keeps them, as
// the inventory that they came from is gone after the pass that gave them up.
func (t *Tree) Abandoned() []string { return t.abandoned.lines() }

// Facts returns the facts after the pass: what the Stack's status gave, and over it what
// nodes published.
func (t *Tree) Facts() map[string]json.RawMessage { return maps.Clone(t.facts.Snapshot()) }

// rooted puts the root's own name in front of the paths of its errors.
type rooted struct {
	*recorded
}

var _ provisioner.Provisioner = rooted{}

// Provision implements provisioner.Provisioner.
func (r rooted) Provision(ctx context.Context) error {
	return provisioner.Under(r.PathSegment(), provisioner.Settle(ctx, r.recorded.Provision(ctx)))
}

// Deprovision implements provisioner.Provisioner.
func (r rooted) Deprovision(ctx context.Context) error {
	return provisioner.Under(r.PathSegment(), provisioner.Settle(ctx, r.recorded.Deprovision(ctx)))
}
