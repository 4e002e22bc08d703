package plan

import (
	"context"
	"encoding/json"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/module"
	"github.com/caisson-dev/caisson/host/scope"
)

// Modules finds modules. It must be safe for concurrent use.
type Modules interface {
	// Module returns the module of that name for a Stack in the namespace. Its errors are
	// those of host/provisioner, with the reasons module_not_found, module_not_ready,
	// module_not_allowed and module_faulted.
	Module(ctx context.Context, namespace, name string) (*module.Instance, error)
}

// ModulesFunc adapts a function to [Modules].
type ModulesFunc func(ctx context.Context, namespace, name string) (*module.Instance, error)

// Module implements Modules.
func (f ModulesFunc) Module(ctx context.Context, namespace, name string) (*module.Instance, error) {
	return f(ctx, namespace, name)
}

var _ Modules = ModulesFunc(nil)

// module makes the leaf of a Wasm module. On the way up its config is evaluated in full,
// on the way down as far as possible; the way is known here, by the call, and
// nowhere below.
func (b *builder) module(node *v1alpha1.Node) provisioner.Provisioner {
	leaf := func(purpose removal) provisioner.Provisioner {
		return b.leaf(node.Name,
			func(ctx context.Context) (*module.Instance, error) { return b.instance(ctx, node.Module.Ref) },
			func(ctx context.Context) (json.RawMessage, error) {
				return b.evaluate.document(ctx, node.Name, purpose)
			},
		)
	}
	return &twoWay{up: leaf(forProvision), down: leaf(forRemoval)}
}

// leaf makes a leaf that calls a module, with what the tree's owner has.
func (b *builder) leaf(name string, instance func(ctx context.Context) (*module.Instance, error),
	config func(ctx context.Context) (json.RawMessage, error),
) provisioner.Provisioner {
	return module.New(module.Options{
		Node:      abi.Node{Name: name, Path: b.paths[name]},
		ID:        b.identity(name),
		Instance:  instance,
		Config:    config,
		Driver:    b.deps.Driver,
		Facts:     b.facts,
		State:     b.deps.State,
		Inputs:    b.deps.Inputs,
		Events:    b.deps.Events,
		Catalogue: b.deps.Catalogue,
		Abandoned: b.abandonsModule(name),
		Memo:      b.deps.Memo,
		Clock:     b.deps.Now,
		SecretKey: b.deps.SecretKey,
	})
}

func (b *builder) instance(ctx context.Context, ref string) (*module.Instance, error) {
	return FindModule(ctx, b.deps.Modules, b.owner.Namespace, ref, b.deps.Inputs)
}

// FindModule finds a module for an owner in a namespace and records it, so that another
// artifact wakes the owner. Its errors are those of [Modules].
func FindModule(ctx context.Context, modules Modules, namespace, name string, inputs provisioner.InputRecorder) (*module.Instance, error) {
	input := provisioner.Input{ScopeID: scope.HomeID, Kind: "Module", Name: name}
	instance, err := modules.Module(ctx, namespace, name)
	if err != nil {
		input.Absent = provisioner.OutcomeOf(err).Headline.Reason == abi.ReasonModuleNotFound
		inputs.RecordInput(input)
		return nil, err
	}
	input.Version = instance.Digest
	inputs.RecordInput(input)
	return instance, nil
}

// twoWay provisions with one provisioner and deprovisions with another.
type twoWay struct {
	up, down provisioner.Provisioner
}

var _ provisioner.Provisioner = (*twoWay)(nil)

// ProvisionerName implements provisioner.Provisioner.
func (t *twoWay) ProvisionerName() string { return t.up.ProvisionerName() }

// Provision implements provisioner.Provisioner.
func (t *twoWay) Provision(ctx context.Context) error { return t.up.Provision(ctx) }

// Deprovision implements provisioner.Provisioner.
func (t *twoWay) Deprovision(ctx context.Context) error { return t.down.Deprovision(ctx) }
