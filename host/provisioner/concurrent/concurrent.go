package concurrent

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
)

const (
	// DefaultLimit is how many children run at once unless the options say otherwise;
	// the API documents it for Stacks.
	DefaultLimit = 8
	// maxStack is how much of a panic's stack is kept, in bytes: its upper end, with the
	// frames of the child, is what its author needs.
	maxStack = 2048
)

// Order is how children are taken down.
type Order string

const (
	// Concurrent takes the children down side by side. It is the zero value's meaning.
	Concurrent Order = "Concurrent"
	// Serial takes them down one by one, the last one first, for children that come up
	// independently and still must not outlive each other, as an add-on that frees load
	// balancers before its cluster goes.
	Serial Order = "Serial"
)

// Options are the knobs of [New]. The zero value is usable.
type Options struct {
	// Limit is how many children run at once; [DefaultLimit] if it is not positive.
	Limit int
	// Down is how children are taken down; Concurrent if empty.
	Down Order
}

// Provisioner runs its children side by side. It is immutable and can be used for any
// number of passes, also at once if its children can.
type Provisioner struct {
	provisioner.Metadata

	limit    int
	down     Order
	children []provisioner.Provisioner
}

var _ provisioner.Provisioner = (*Provisioner)(nil)

// New returns a concurrent of children. One without children is always OK.
func New(name string, o Options, children ...provisioner.Provisioner) *Provisioner {
	limit := o.Limit
	if limit <= 0 {
		limit = DefaultLimit
	}
	return &Provisioner{
		Metadata: provisioner.Metadata{Name: name},
		limit:    limit,
		down:     o.Down,
		children: slices.Clone(children),
	}
}

// Provision provisions all children, waits for all of them, and folds their results.
// Children that have not started when the context ends are not called. A panic of a
// child is a Retry with the reason module_trap.
func (p *Provisioner) Provision(ctx context.Context) error {
	return p.run(ctx, provision)
}

// Deprovision deprovisions all children in the order of the options: side by side, or
// one by one from the last, stopping at the first that is not gone. What it returns
// never parks.
func (p *Provisioner) Deprovision(ctx context.Context) error {
	if p.down == Serial {
		return p.downSerial(ctx)
	}
	return p.run(ctx, deprovision)
}

func (p *Provisioner) run(ctx context.Context, call callFunc) error {
	results := make([]error, len(p.children))
	slots := make(chan struct{}, p.limit)
	var wait sync.WaitGroup
	for i, child := range p.children {
		if err := acquire(ctx, slots); err != nil {
			results[i] = provisioner.At(child, i, err)
			continue
		}
		wait.Go(func() {
			defer func() { <-slots }()
			// This stands if the child ends the goroutine, which nothing can recover from.
			results[i] = provisioner.At(child, i, trap("the child ended its goroutine"))
			err := guard(ctx, child, call)
			results[i] = provisioner.At(child, i, err)
		})
	}
	wait.Wait()
	return provisioner.Fold(results...)
}

func (p *Provisioner) downSerial(ctx context.Context) error {
	for i, child := range slices.Backward(p.children) {
		if err := provisioner.Interrupted(ctx); err != nil {
			return err
		}
		if err := guard(ctx, child, deprovision); err != nil {
			return provisioner.At(child, i, err)
		}
	}
	return nil
}

// callFunc is one of the two things that can be asked of a child.
type callFunc func(ctx context.Context, child provisioner.Provisioner) error

func provision(ctx context.Context, child provisioner.Provisioner) error {
	return child.Provision(ctx)
}

func deprovision(ctx context.Context, child provisioner.Provisioner) error {
	return provisioner.Unpark(child.Deprovision(ctx))
}

// acquire waits for a slot, or returns why the context ended first.
func acquire(ctx context.Context, slots chan<- struct{}) error {
	if err := provisioner.Interrupted(ctx); err != nil {
		return err
	}
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return provisioner.Interrupted(ctx)
	}
}

// guard calls a child and turns a panic into an error.
func guard(ctx context.Context, child provisioner.Provisioner, call callFunc) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = trap(fmt.Sprintf("panic: %v\n%s", fault, stackOfPanic()))
		}
	}()
	return provisioner.Settle(ctx, call(ctx, child))
}

func trap(why string) error { return provisioner.Retry(abi.ReasonModuleTrap, why) }

func stackOfPanic() string {
	stack := string(debug.Stack())
	// Everything above the panic is the recovery's own.
	if _, below, ok := strings.Cut(stack, "\npanic("); ok {
		stack = "panic(" + below
	}
	if len(stack) > maxStack {
		stack = stack[:maxStack] + "…"
	}
	return stack
}
