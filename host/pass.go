package host

import (
	"context"
	"encoding/json"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/plan"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/application"
	"github.com/caisson-dev/caisson/host/provisioner/module"
	"github.com/caisson-dev/caisson/host/scope"
)

// Pass makes the leaves of one object's tree, for one pass. The name of a leaf identifies
// it and what it installs, over all passes: it is unique in the tree, made of lower-case
// letters, digits and dashes, and renaming it is a removal and an installation. A leaf
// that is left out of the tree has its applications removed; what a native leaf made is
// removed only by its own Deprovision, so leave a native one in the tree, below a
// conditional.
type Pass struct {
	kit       *plan.Kit
	catalogue application.Catalogue
}

// Owner is the object that the pass is for.
func (p *Pass) Owner() scope.Owner { return p.kit.Owner() }

// Inputs takes note of the Secrets and ConfigMaps that a native leaf reads, so that a
// change of one wakes the object.
func (p *Pass) Inputs() provisioner.InputRecorder { return p.kit.Inputs() }

// Facts are what modules have published, in this pass and before.
func (p *Pass) Facts() module.Facts { return p.kit.Facts() }

// Module makes a leaf that calls a module with a config: anything that marshals to a JSON
// object, or nil. A config that does not is a Terminal invalid_config.
func (p *Pass) Module(name string, m *Module, config any) provisioner.Provisioner {
	return p.kit.Module(name,
		func(ctx context.Context) (*module.Instance, error) {
			return m.instance(ctx, p.kit.Owner().Namespace, p.kit.Inputs())
		},
		func(context.Context) (json.RawMessage, error) { return encodeConfig(config) },
	)
}

func encodeConfig(config any) (json.RawMessage, error) {
	if config == nil {
		return nil, nil
	}
	raw, err := json.Marshal(config)
	if err != nil {
		return nil, provisioner.Terminal(abi.ReasonInvalidConfig, "").WithCause(err)
	}
	return raw, nil
}

// Application makes a leaf that installs an application as it is described. ID need not
// be set, and Release is derived from the leaf if it is empty.
func (p *Pass) Application(name string, app cd.Application) provisioner.Provisioner {
	return p.kit.Application(name, func(context.Context) (*cd.Application, error) { return &app, nil })
}

// ApplicationObject makes a leaf that installs what the Application object of that name
// describes, over which the node has its say. [Host.UseObjects] must have been called;
// without it the leaf is a Retry unexpected, whose why says so.
func (p *Pass) ApplicationObject(name, object string, node application.Node) provisioner.Provisioner {
	return p.kit.Application(name, func(ctx context.Context) (*cd.Application, error) {
		if p.catalogue == nil {
			return nil, errNoObjects()
		}
		current, ok := scope.FromContext(ctx)
		if !ok {
			return nil, provisioner.Retry(abi.ReasonUnexpected, "the context carries no scope")
		}
		id := scope.ResourceIdentifier{Owner: p.kit.Owner(), Path: name, Name: name}
		return application.Build(ctx, p.catalogue, p.kit.Inputs(), current, id, object, node)
	})
}

// errNoObjects is the answer of leaves that need the objects of Caisson in a program that
// does not use them. Nobody would load a module, or wake the object for a catalogue.
func errNoObjects() *provisioner.Error {
	return provisioner.Retry(abi.ReasonUnexpected, "the program does not use the objects of Caisson; see UseObjects")
}

// Native makes a leaf of a provisioner of the program's own, which acts in the scope of
// its context: its client is the tenant's, or the remote's.
func (p *Pass) Native(name string, inner provisioner.Provisioner) provisioner.Provisioner {
	return p.kit.Native(name, inner)
}

// On makes a node that runs a child on a remote, which Kind.Remotes declares. A remote
// with a within stands in the tree below a node on that one.
func (p *Pass) On(remote string, child provisioner.Provisioner) provisioner.Provisioner {
	return p.kit.On(remote, child)
}
