package conditional

import (
	"context"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// Decision is what a predicate comes to. The zero value is unknown.
type Decision struct {
	verdict verdict
	err     error
}

type verdict int

const (
	unknown verdict = iota
	yes
	no
)

// True decides that the child is to be there.
func True() Decision { return Decision{verdict: yes} }

// False decides that the child is not to be there.
func False() Decision { return Decision{verdict: no} }

// Unknown decides nothing. The error says why and what comes next: a Yield for a fact
// that is still to come, a Terminal for an expression that will never evaluate. An
// error without a disposition becomes a Retry, a nil one a Yield facts_missing.
func Unknown(err error) Decision { return Decision{err: err} }

// Predicate decides whether the child of a conditional is to be there. It is asked once
// in every provision and never in a deprovision.
type Predicate func(ctx context.Context) Decision

// Provisioner runs its child while its predicate is true. It is immutable and can be
// used for any number of passes.
type Provisioner struct {
	provisioner.Metadata

	when  Predicate
	child provisioner.Provisioner
}

var _ provisioner.Provisioner = (*Provisioner)(nil)

// New returns a conditional of a child. A nil predicate is always unknown.
func New(name string, when Predicate, child provisioner.Provisioner) *Provisioner {
	if when == nil {
		when = func(context.Context) Decision { return Unknown(nil) }
	}
	return &Provisioner{Metadata: provisioner.Metadata{Name: name}, when: when, child: child}
}

// Provision provisions the child if the predicate is true, and deprovisions it if it is
// false: then it is OK once the child is gone, and what the removal returns never
// parks. If the predicate is unknown, the child is not called and the reason of that is
// returned.
func (p *Provisioner) Provision(ctx context.Context) error {
	decision := p.when(ctx)
	switch decision.verdict {
	case yes:
		return provisioner.At(p.child, 0, provisioner.Settle(ctx, p.child.Provision(ctx)))
	case no:
		return p.remove(ctx)
	case unknown:
		return provisioner.Settle(ctx, decision.reason())
	default:
		return decision.reason()
	}
}

// Deprovision deprovisions the child, whatever the predicate would say: the facts that
// it asks for may be gone already. What it returns never parks.
func (p *Provisioner) Deprovision(ctx context.Context) error { return p.remove(ctx) }

func (p *Provisioner) remove(ctx context.Context) error {
	err := provisioner.Settle(ctx, p.child.Deprovision(ctx))
	return provisioner.At(p.child, 0, provisioner.Unpark(err))
}

func (d Decision) reason() error {
	if d.err == nil {
		return provisioner.Yield(abi.ReasonFactsMissing, "the condition gave no reason for being unknown")
	}
	return d.err
}
