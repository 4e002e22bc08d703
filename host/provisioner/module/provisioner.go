package module

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// Provisioner is one module as a node of a tree. It keeps nothing between calls.
type Provisioner struct {
	provisioner.Metadata

	options Options
}

var (
	_ provisioner.Provisioner = (*Provisioner)(nil)
	_ provisioner.Segmented   = (*Provisioner)(nil)
)

// New returns a leaf. Options without an Instance or a Driver give one that always fails.
func New(o Options) *Provisioner {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Provisioner{Metadata: provisioner.Metadata{Name: o.Node.Name}, options: o}
}

// Both are faults of whoever built the tree or the context, never of a user.
var (
	errNoScope    = errors.New("the context carries no scope")
	errIncomplete = errors.New("a module node needs an instance and a driver")
)

// PathSegment implements provisioner.Segmented.
func (p *Provisioner) PathSegment() string { return p.Name }

// Provision calls the module's provision export, unless a memo says that nothing has
// changed, and returns what the module, or its fault, amounts to.
func (p *Provisioner) Provision(ctx context.Context) error {
	s, err := p.begin(ctx)
	if err != nil {
		return err
	}
	instance, err := p.options.Instance(ctx)
	if err != nil {
		return err
	}
	_, err = p.run(ctx, s, instance, abi.ExportProvision)
	return err
}

// Deprovision calls the module's deprovision export, and then removes the applications
// that the module has left. Its result never parks.
//
// A module that cannot be had must not block a removal: if Instance fails with an error
// that parks, with module_not_found or with [ErrNeverLoaded], or for longer than ten minutes with another
// reason of the module's own state, the applications that are recorded for the node are
// removed without it. The wait is there because a module that is only being loaded may
// have to free things that no driver knows of. A module that does not come to an end on a
// cluster that is gone is given up in the same way, see Options.Abandoned.
func (p *Provisioner) Deprovision(ctx context.Context) error {
	return provisioner.Unpark(p.deprovision(ctx))
}

func (p *Provisioner) deprovision(ctx context.Context) error {
	s, err := p.begin(ctx)
	if err != nil {
		return err
	}
	instance, err := p.options.Instance(ctx)
	if err != nil {
		if !p.abandons(err) {
			return err
		}
		log.FromContext(ctx).Error(err, "removing the applications of a module that cannot be called", "node", p.options.Node.Path)
		return p.sweep(ctx, s)
	}
	return p.remove(ctx, s, instance)
}

// remove calls the module and sweeps up behind it.
func (p *Provisioner) remove(ctx context.Context, s scope.Scope, instance *Instance) error {
	p.options.Memo.available(p.key())
	if instance.Manifest.RequiresDrain {
		s = s.WithTeardown(abi.Drain)
		ctx = scope.NewContext(ctx, s)
	}
	clean, err := p.run(ctx, s, instance, abi.ExportDeprovision)
	switch {
	case err != nil && !p.givesUp(s, err):
		return err
	case err != nil:
		log.FromContext(ctx).Error(err, "giving up a module that does not come to an end on a cluster that is gone", "node", p.options.Node.Path)
		p.options.Abandoned()
	case clean:
		return p.dropState(ctx)
	}
	return p.sweep(ctx, s)
}

func (p *Provisioner) begin(ctx context.Context) (scope.Scope, error) {
	s, ok := scope.FromContext(ctx)
	if !ok {
		return s, errNoScope
	}
	if p.options.Instance == nil || p.options.Driver == nil {
		return s, errIncomplete
	}
	return s, provisioner.Interrupted(ctx)
}

// run makes one pass over the module. clean says that the driver knows no application of
// the node and that none was asked for, so that there is nothing to sweep.
func (p *Provisioner) run(ctx context.Context, s scope.Scope, instance *Instance, operation string) (clean bool, err error) {
	logger := log.FromContext(ctx).WithValues("module", instance.Name, "digest", instance.Digest, "node", p.options.Node.Path, "scope", s.ID())
	ctx = log.IntoContext(ctx, logger)
	input, err := p.envelope(ctx, s, instance, operation)
	if err != nil {
		return false, err
	}
	token := p.options.Memo.begin(p.key())
	defer token.end()
	digest, err := envelopeDigest(input, instance)
	if err != nil {
		return false, err
	}
	if o, hit := p.replay(ctx, s, instance, token.recall(digest)); hit {
		logger.V(1).Info("nothing changed, the module is not called", "operation", operation)
		return !input.Installed && !o.session.ensured(), p.conclude(ctx, instance, input, o)
	}
	o, err := p.call(ctx, s, instance, input)
	if err != nil {
		return false, err
	}
	err = p.conclude(ctx, instance, input, o)
	if err != nil && errors.Is(provisioner.Interrupted(ctx), provisioner.ErrShutdown) {
		// What the module made of a host that was going away says nothing.
		return false, provisioner.ErrShutdown
	}
	if kept := o.entry(digest, p.options.Clock()); kept != nil {
		token.store(kept)
	}
	return !input.Installed && !o.session.ensured(), err
}

func (p *Provisioner) key() memoKey {
	return memoKey{owner: p.options.ID.Owner.UID, path: p.options.Node.Path}
}

// unavailableGrace is how long a deprovision waits for a module that exists but cannot be
// called: longer than a registry's hiccup or a restart of the operator.
const unavailableGrace = 10 * time.Minute

// ErrNeverLoaded is wrapped by the error of [Options.Instance] if the module cannot be had
// now and, as far as is known, never could. Nobody has called it, so it has made nothing
// that a removal would have to wait for.
var ErrNeverLoaded = errors.New("the module has never been loaded")

// abandons reports whether a deprovision goes on without a module that Instance refuses.
func (p *Provisioner) abandons(err error) bool {
	outcome := provisioner.OutcomeOf(err)
	if outcome.Cancelled {
		return false
	}
	if outcome.Parks() || errors.Is(err, ErrNeverLoaded) {
		return true
	}
	switch outcome.Headline.Reason {
	case abi.ReasonModuleNotFound:
		return true
	case abi.ReasonModuleNotReady, abi.ReasonModuleNotAllowed, abi.ReasonModuleFaulted:
		now := p.options.Clock()
		return now.Sub(p.options.Memo.unavailableSince(p.key(), now)) >= unavailableGrace
	default:
		return false
	}
}

// goneGrace is how long a module may be busy with what it made elsewhere once its own
// cluster is gone: twice what a silent cluster is given by default, and far longer than a
// module that heeds the ABI needs, which then waits for nothing on that cluster.
const goneGrace = 30 * time.Minute

// givesUp reports whether a removal goes on though the module has not come to an end.
// Nobody could make it: there is no cluster to mend.
func (p *Provisioner) givesUp(s scope.Scope, err error) bool {
	if s.State() != abi.ScopeGone || p.options.Abandoned == nil || provisioner.OutcomeOf(err).Cancelled {
		return false
	}
	now := p.options.Clock()
	return now.Sub(p.options.Memo.stuckSince(p.key(), now)) >= goneGrace
}

// sweep removes every application that the driver has recorded for the node in s, last
// path first, and then what is kept of the node. Those in another scope are left to the bracket of that scope, which can
// reach it.
func (p *Provisioner) sweep(ctx context.Context, s scope.Scope) error {
	installed, err := p.applications(ctx, s)
	if err != nil {
		return err
	}
	var results []error
	for i := len(installed) - 1; i >= 0; i-- {
		results = append(results, p.options.Driver.Remove(ctx, s, installed[i].ID))
	}
	if err := provisioner.Fold(results...); err != nil {
		return err
	}
	return p.dropState(ctx)
}

func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
