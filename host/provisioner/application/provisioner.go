package application

import (
	"context"
	"errors"

	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// Options say what a leaf installs.
type Options struct {
	// Name is the node's name.
	Name string
	// ID identifies the application; it wins over whatever ID the spec carries.
	ID scope.ResourceIdentifier
	// Applications is the driver.
	Applications cd.Applications
	// Spec makes the application. It is called in each Provision and in no Deprovision,
	// with a context that carries the scope. Its errors are returned as they are.
	Spec func(ctx context.Context) (*cd.Application, error)
}

// Provisioner is one application as a node of a tree.
type Provisioner struct {
	provisioner.Metadata

	options Options
}

var (
	_ provisioner.Provisioner = (*Provisioner)(nil)
	_ provisioner.Segmented   = (*Provisioner)(nil)
)

// New returns a leaf. Applications and Spec must be set.
func New(o Options) *Provisioner {
	return &Provisioner{Metadata: provisioner.Metadata{Name: o.Name}, options: o}
}

// errNoScope is a fault of whoever built the context, never of a user.
var errNoScope = errors.New("the context carries no scope")

// PathSegment implements provisioner.Segmented.
func (p *Provisioner) PathSegment() string { return p.Name }

// Provision makes the application so and returns nil once it is deployed and healthy.
func (p *Provisioner) Provision(ctx context.Context) error {
	s, ok := scope.FromContext(ctx)
	if !ok {
		return errNoScope
	}
	spec, err := p.options.Spec(ctx)
	if err != nil {
		return err
	}
	app := *spec
	app.ID = p.options.ID
	return p.options.Applications.Ensure(ctx, s, &app)
}

// Deprovision removes the application by its identity alone.
func (p *Provisioner) Deprovision(ctx context.Context) error {
	s, ok := scope.FromContext(ctx)
	if !ok {
		return errNoScope
	}
	return p.options.Applications.Remove(ctx, s, p.options.ID)
}
