package plan

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/application"
	"github.com/caisson-dev/caisson/host/provisioner/module"
	"github.com/caisson-dev/caisson/host/provisioner/remotecluster"
	"github.com/caisson-dev/caisson/host/scope"
)

// KindNative is the kind of a node that a program brings itself.
const KindNative = "native"

// Kit makes the leaves of a tree that a program builds in Go, for one pass over one owner.
// What a Stack's tree does beyond running its nodes holds for it as well: outcomes are
// recorded by node, applications that no leaf stands for any more are removed, and
// remotes are deregistered when nothing needs them. It is for one goroutine; the tree is
// not.
type Kit struct {
	builder *builder
	found   findings
}

// NewKit returns the kit of an owner, which is described as a Stack: its type and
// metadata, and in its status what the passes before left. Its spec does not matter. The
// remotes are declared as a Stack declares them, and with all that may be in use: one
// that is left out while something is installed on it can no longer be cleaned up. Of the
// dependencies, Modules is not used.
func NewKit(owner *v1alpha1.Stack, remotes []v1alpha1.Remote, deps Dependencies) *Kit {
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Inputs == nil {
		deps.Inputs = provisioner.InputRecorderFunc(func(provisioner.Input) {})
	}
	k := &Kit{}
	made := &structure{
		spec:    &v1alpha1.StackSpec{Remotes: slices.Clone(remotes)},
		nodes:   map[string]*v1alpha1.Node{},
		remotes: map[string]*v1alpha1.Remote{},
		paths:   map[string]string{},
	}
	made.indexRemotes(&k.found)
	made.orderRemotes(&k.found)
	identity := ownerOf(owner)
	if owner.Kind != "" {
		identity.APIVersion, identity.Kind = owner.APIVersion, owner.Kind
	}
	k.builder = &builder{
		compiled: &compiled{structure: made},
		stack:    owner,
		deps:     deps,
		owner:    identity,
		facts:    newFacts(givenFacts(owner)),
		record:   newRecord(nil, deps.Now),
		givenUp:  &givenUp{},
		brackets: map[string]*remotecluster.Bracket{},
	}
	if len(k.found.structure) > 0 {
		return k
	}
	for _, name := range made.remoteOrder {
		k.builder.brackets[name] = k.builder.bracket(made.remotes[name])
	}
	return k
}

// Owner is the object that the tree is for.
func (k *Kit) Owner() scope.Owner { return k.builder.owner }

// Inputs takes note of what a native leaf reads, so that its change wakes the owner.
func (k *Kit) Inputs() provisioner.InputRecorder { return k.builder.deps.Inputs }

// Facts are what nodes have published, in this pass and before; a native leaf may publish
// some, too.
func (k *Kit) Facts() module.Facts { return k.builder.facts }

// Module makes a leaf that calls a Wasm module. The name identifies it and what it
// installs, over all passes; instance finds the module, and config makes its config,
// whenever the leaf is called.
func (k *Kit) Module(name string, instance func(ctx context.Context) (*module.Instance, error),
	config func(ctx context.Context) (json.RawMessage, error),
) provisioner.Provisioner {
	node := &v1alpha1.Node{Name: name, Module: &v1alpha1.ModuleNode{Ref: name}}
	return k.leaf(name, node.Kind(), node, func() provisioner.Provisioner { return k.builder.leaf(name, instance, config) })
}

// Application makes a leaf that installs an application, as described by spec whenever
// the leaf is provisioned. The name identifies it over all passes; ID need not be set.
func (k *Kit) Application(name string, spec func(ctx context.Context) (*cd.Application, error)) provisioner.Provisioner {
	node := &v1alpha1.Node{Name: name, Application: &v1alpha1.ApplicationNode{}}
	return k.leaf(name, node.Kind(), node, func() provisioner.Provisioner {
		return application.New(application.Options{Name: name, ID: k.builder.identity(name), Applications: k.builder.deps.Driver, Spec: k.named(name, spec)})
	})
}

// named gives an application that names no release the one of its leaf.
func (k *Kit) named(name string, spec func(ctx context.Context) (*cd.Application, error)) func(ctx context.Context) (*cd.Application, error) {
	id := k.builder.identity(name)
	return func(ctx context.Context) (*cd.Application, error) {
		described, err := spec(ctx)
		if err != nil {
			return nil, err
		}
		app := *described
		app.Release, err = cd.ReleaseName(app.Release, id)
		return &app, err
	}
}

// Native names a leaf of the program's own: its outcome is recorded, errors have its name
// in their path, and a panic is a Retry. A provisioner may as well be put into a tree as
// it is.
func (k *Kit) Native(name string, inner provisioner.Provisioner) provisioner.Provisioner {
	return k.leaf(name, KindNative, nil, func() provisioner.Provisioner { return inner })
}

// On makes a node that runs a child on a declared remote. What is on a remote that is
// within another must stand in a node on that one.
func (k *Kit) On(remote string, child provisioner.Provisioner) provisioner.Provisioner {
	bracket, ok := k.builder.brackets[remote]
	if !ok {
		k.found.addf("remotes", "", "there is no remote named %q", clip(remote))
		return child
	}
	return bracket.On(remote, child)
}

func (k *Kit) leaf(name, kind string, node *v1alpha1.Node, inner func() provisioner.Provisioner) provisioner.Provisioner {
	b := k.builder
	switch {
	case !validName(name):
		k.found.addf("tree", "", "the name %q is not made of at most %d lower-case letters, digits and dashes", clip(name), maxNameLength)
	case b.paths[name] != "":
		k.found.addf("tree", name, "there is another leaf named %s", name)
	}
	b.paths[name] = name
	b.nodes[name] = node
	if node == nil {
		b.nodes[name] = &v1alpha1.Node{Name: name}
	}
	made := Node{Name: name, Path: name, Kind: kind}
	b.record.set(Result{Node: made, State: v1alpha1.NodeWaiting})
	return &recorded{node: made, inner: inner(), record: b.record}
}

// Tree makes the tree of a root, when all its leaves have been made. Names that do not
// serve and remotes that are not valid are a Terminal invalid_stack; its cause is an
// [InvalidError].
func (k *Kit) Tree(root provisioner.Provisioner) (*Tree, error) {
	if err := k.found.terminal(); err != nil {
		return nil, err
	}
	if root == nil {
		return nil, provisioner.Retry(abi.ReasonUnexpected, "the tree of "+k.builder.owner.Kind+" has no root")
	}
	ordered := make([]*remotecluster.Bracket, 0, len(k.builder.remoteOrder))
	for _, name := range k.builder.remoteOrder {
		ordered = append(ordered, k.builder.brackets[name])
	}
	body := k.builder.pruned(guardedRoot{root})
	return &Tree{
		root:      remotecluster.Around(body, ordered...),
		record:    k.builder.record,
		facts:     k.builder.facts,
		abandoned: k.builder.abandoned(body, ordered),
	}, nil
}

// guardedRoot turns a panic of a node that is not the kit's into an error, and reads what
// the root returns in the light of its context, as a combinator above it would.
type guardedRoot struct{ provisioner.Provisioner }

// Provision implements provisioner.Provisioner.
func (g guardedRoot) Provision(ctx context.Context) error {
	return g.run(ctx, g.Provisioner.Provision)
}

// Deprovision implements provisioner.Provisioner.
func (g guardedRoot) Deprovision(ctx context.Context) error {
	return g.run(ctx, g.Provisioner.Deprovision)
}

func (g guardedRoot) run(ctx context.Context, call func(context.Context) error) error {
	return g.placed(provisioner.Settle(ctx, (&recorded{}).guarded(ctx, call)))
}

// placed names a root that is itself a leaf.
func (g guardedRoot) placed(err error) error {
	if named, ok := g.Provisioner.(provisioner.Segmented); ok {
		return provisioner.Under(named.PathSegment(), err)
	}
	return err
}
