package plan

import (
	"context"
	"encoding/json"
	"time"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/application"
	"github.com/caisson-dev/caisson/host/provisioner/concurrent"
	"github.com/caisson-dev/caisson/host/provisioner/conditional"
	"github.com/caisson-dev/caisson/host/provisioner/module"
	"github.com/caisson-dev/caisson/host/provisioner/remotecluster"
	"github.com/caisson-dev/caisson/host/provisioner/serial"
	"github.com/caisson-dev/caisson/host/scope"
)

// Dependencies are what a tree needs while it runs. Driver is required, as are Clients,
// Catalogue and Modules for Stacks with remotes, applications and modules.
type Dependencies struct {
	// Driver installs applications and keeps registrations.
	Driver cd.Driver
	// Clients connects to remotes.
	Clients remotecluster.Clients
	// Catalogue finds applications.
	Catalogue application.Catalogue
	// Modules finds Wasm modules.
	Modules Modules
	// State keeps what modules ask to keep for the Stack's owner; nil keeps nothing.
	State module.State
	// Memo saves calls of modules, over all passes and Stacks; nil saves none.
	Memo *module.Memo
	// Events emits events of modules; nil emits none.
	Events module.EventRecorder
	// SecretKey keys the digests of secrets that modules get to see; see module.Options.
	SecretKey []byte
	// Inputs takes note of what is read; may be nil.
	Inputs provisioner.InputRecorder
	// Now is the clock; time.Now if nil.
	Now func() time.Time
	// Cache remembers what was compiled; if nil, every Build compiles.
	Cache *Cache
}

// Build makes the tree of a Stack, for one pass, and calls nothing of the dependencies.
//
// A Stack that is not valid is a Terminal error whose cause is an [InvalidError] with all
// that was found: its reason is invalid_stack if the structure is wrong, and
// invalid_expression if only expressions are. For a Stack that is being deleted the
// latter do not count, since a removal does without them. Any other error is none of the
// Stack's, and may be retried.
func Build(stack *v1alpha1.Stack, deps Dependencies) (*Tree, error) {
	plan, err := deps.Cache.compile(stack)
	if err != nil {
		return nil, err
	}
	found := plan.found
	if stack.DeletionTimestamp != nil {
		found.expressions = nil
	}
	if err := found.terminal(); err != nil {
		return nil, err
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Inputs == nil {
		deps.Inputs = provisioner.InputRecorderFunc(func(provisioner.Input) {})
	}
	published := newFacts(givenFacts(stack))
	b := &builder{
		compiled: plan,
		stack:    stack,
		deps:     deps,
		owner:    ownerOf(stack),
		facts:    published,
		evaluate: &evaluator{compiled: plan, facts: published},
		givenUp:  &givenUp{},
		brackets: map[string]*remotecluster.Bracket{},
	}
	return b.tree(), nil
}

// builder makes one tree.
type builder struct {
	*compiled
	// stack is read while the tree is built, and not changed.
	stack    *v1alpha1.Stack
	deps     Dependencies
	owner    scope.Owner
	facts    *facts
	evaluate *evaluator
	record   *record
	givenUp  *givenUp
	brackets map[string]*remotecluster.Bracket
}

func (b *builder) tree() *Tree {
	nodes := make([]Node, 0, len(b.paths))
	for name, path := range b.paths {
		nodes = append(nodes, Node{Name: name, Path: path, Kind: b.nodes[name].Kind()})
	}
	b.record = newRecord(nodes, b.deps.Now)
	ordered := make([]*remotecluster.Bracket, 0, len(b.remoteOrder))
	for _, name := range b.remoteOrder {
		bracket := b.bracket(b.remotes[name])
		b.brackets[name] = bracket
		ordered = append(ordered, bracket)
	}
	root := b.pruned(rooted{b.node(b.spec.Root)})
	return &Tree{
		root:      remotecluster.Around(root, ordered...),
		record:    b.record,
		facts:     b.facts,
		abandoned: b.abandoned(root, ordered),
	}
}

// node makes the provisioner of a node and of everything below it.
func (b *builder) node(name string) *recorded {
	node := b.nodes[name]
	return &recorded{
		node:   Node{Name: name, Path: b.paths[name], Kind: node.Kind()},
		inner:  b.kind(node),
		record: b.record,
	}
}

func (b *builder) kind(node *v1alpha1.Node) provisioner.Provisioner {
	switch {
	case node.Serial != nil:
		return serial.New(node.Name, b.nodesOf(node.Serial.Children)...)
	case node.Concurrent != nil:
		options := concurrent.Options{Limit: node.Concurrent.Limit, Down: concurrent.Concurrent}
		if node.Concurrent.UpConcurrentDownSerial {
			options.Down = concurrent.Serial
		}
		return concurrent.New(node.Name, options, b.nodesOf(node.Concurrent.Children)...)
	case node.Conditional != nil:
		return conditional.New(node.Name, b.evaluate.condition(node.Name), b.node(node.Conditional.Child))
	case node.RemoteCluster != nil:
		return b.brackets[node.RemoteCluster.Remote].On(node.Name, b.node(node.RemoteCluster.Child))
	case node.Module != nil:
		return b.module(node)
	default:
		return b.application(node)
	}
}

func (b *builder) nodesOf(names []string) []provisioner.Provisioner {
	children := make([]provisioner.Provisioner, len(names))
	for i, name := range names {
		children[i] = b.node(name)
	}
	return children
}

// identity returns the identity of what a node makes: the owner and the node's path. A
// node that is moved within its tree is thus another one.
func (b *builder) identity(node string) scope.ResourceIdentifier {
	return scope.ResourceIdentifier{Owner: b.owner, Path: b.paths[node], Name: node}
}

func (b *builder) application(node *v1alpha1.Node) provisioner.Provisioner {
	declared := node.Application
	id := b.identity(node.Name)
	return application.New(application.Options{
		Name:         node.Name,
		ID:           id,
		Applications: b.deps.Driver,
		Spec: func(ctx context.Context) (*cd.Application, error) {
			current, ok := scope.FromContext(ctx)
			if !ok {
				return nil, provisioner.Retry(abi.ReasonUnexpected, "the context carries no scope")
			}
			document, err := b.evaluate.document(ctx, node.Name, forProvision)
			if err != nil {
				return nil, err
			}
			values, err := application.DecodeValues(document)
			if err != nil {
				return nil, provisioner.Terminal(abi.ReasonInvalidConfig, "").WithCause(err)
			}
			return application.Build(ctx, b.deps.Catalogue, b.deps.Inputs, current, id, declared.Ref, application.Node{
				Version:         declared.Version,
				Release:         declared.Release,
				Namespace:       declared.Namespace,
				CreateNamespace: declared.CreateNamespace,
				AllowDegraded:   declared.AllowDegraded,
				ValuesFrom:      valuesFrom(declared.ValuesFrom),
				Values:          values,
				Parameters:      parameters(declared.Parameters),
			})
		},
	})
}

func valuesFrom(references []v1alpha1.ValuesReference) []application.ValuesReference {
	result := make([]application.ValuesReference, len(references))
	for i, r := range references {
		result[i] = application.ValuesReference{Kind: r.Kind, Name: r.Name, Key: r.Key, Optional: r.Optional}
	}
	return result
}

func parameters(list []v1alpha1.Parameter) []cd.Parameter {
	result := make([]cd.Parameter, len(list))
	for i, p := range list {
		result[i] = cd.Parameter{Name: p.Name, Value: p.Value}
	}
	return result
}

func ownerOf(stack *v1alpha1.Stack) scope.Owner {
	return scope.Owner{
		APIVersion: v1alpha1.GroupVersion().String(),
		Kind:       stackKind,
		Namespace:  stack.Namespace,
		Name:       stack.Name,
		UID:        string(stack.UID),
		Generation: stack.Generation,
	}
}

func givenFacts(stack *v1alpha1.Stack) map[string]json.RawMessage {
	given := make(map[string]json.RawMessage, len(stack.Status.Facts))
	for name, value := range stack.Status.Facts {
		given[name] = rawOf(value)
	}
	return given
}
