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
		return module.New(module.Options{
			Node:     abi.Node{Name: node.Name, Path: b.paths[node.Name]},
			ID:       b.identity(node.Name),
			Instance: func(ctx context.Context) (*module.Instance, error) { return b.instance(ctx, node.Module.Ref) },
			Config: func(ctx context.Context) (json.RawMessage, error) {
				return b.evaluate.document(ctx, node.Name, purpose)
			},
			Driver:    b.deps.Driver,
			Facts:     b.facts,
			State:     b.deps.State,
			Inputs:    b.deps.Inputs,
			Events:    b.deps.Events,
			Catalogue: b.deps.Catalogue,
			Abandoned: b.abandonsModule(node.Name),
			Memo:      b.deps.Memo,
			Clock:     b.deps.Now,
			SecretKey: b.deps.SecretKey,
		})
	}
	return &twoWay{up: leaf(forProvision), down: leaf(forRemoval)}
}

// instance finds a module and records it, so that another artifact wakes the Stack.
func (b *builder) instance(ctx context.Context, ref string) (*module.Instance, error) {
	input := provisioner.Input{ScopeID: scope.HomeID, Kind: "Module", Name: ref}
	instance, err := b.deps.Modules.Module(ctx, b.owner.Namespace, ref)
	if err != nil {
		input.Absent = provisioner.OutcomeOf(err).Headline.Reason == abi.ReasonModuleNotFound
		b.deps.Inputs.RecordInput(input)
		return nil, err
	}
	input.Version = instance.Digest
	b.deps.Inputs.RecordInput(input)
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
