package serial

import (
	"context"
	"slices"

	"github.com/caisson-dev/caisson/host/provisioner"
)

// Provisioner runs its children in order. It is immutable and can be used for any
// number of passes, also at once if its children can.
type Provisioner struct {
	provisioner.Metadata

	children []provisioner.Provisioner
}

var _ provisioner.Provisioner = (*Provisioner)(nil)

// New returns a serial of children. One without children is always OK.
func New(name string, children ...provisioner.Provisioner) *Provisioner {
	return &Provisioner{Metadata: provisioner.Metadata{Name: name}, children: slices.Clone(children)}
}

// Provision provisions the children in order and stops at the first that is not OK,
// whose error it returns. Between two children it stops if the context has ended.
func (p *Provisioner) Provision(ctx context.Context) error {
	for i, child := range p.children {
		if err := provisioner.Interrupted(ctx); err != nil {
			return err
		}
		if err := provisioner.Settle(ctx, child.Provision(ctx)); err != nil {
			return provisioner.At(child, i, err)
		}
	}
	return nil
}

// Deprovision deprovisions all children in reverse order, those that were never
// provisioned included, and stops at the first that is not gone. What it returns never
// parks: a Terminal of a child becomes a Retry.
func (p *Provisioner) Deprovision(ctx context.Context) error {
	for i, child := range slices.Backward(p.children) {
		if err := provisioner.Interrupted(ctx); err != nil {
			return err
		}
		if err := provisioner.Settle(ctx, child.Deprovision(ctx)); err != nil {
			return provisioner.At(child, i, provisioner.Unpark(err))
		}
	}
	return nil
}
