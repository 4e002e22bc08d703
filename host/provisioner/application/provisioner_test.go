package application_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/application"
	"github.com/caisson-dev/caisson/host/scope"
)

// driver records what it is asked for and answers as told.
type driver struct {
	trace  []string
	app    *cd.Application
	ensure error
	remove error
}

func (d *driver) Ensure(_ context.Context, to scope.Scope, app *cd.Application) error {
	d.trace = append(d.trace, "ensure "+to.ID()+" "+app.ID.Path+" "+app.Version)
	d.app = app
	return d.ensure
}

func (d *driver) Remove(_ context.Context, from scope.Scope, id scope.ResourceIdentifier) error {
	d.trace = append(d.trace, "remove "+from.ID()+" "+id.Path)
	return d.remove
}

func (d *driver) List(context.Context, scope.Owner) ([]cd.Installed, error) { return nil, nil }

func owner() scope.Owner {
	return scope.Owner{APIVersion: "caisson.dev/v1alpha1", Kind: "Stack", Namespace: "team", Name: "s", UID: "u1", Generation: 1}
}

func identity() scope.ResourceIdentifier {
	return scope.ResourceIdentifier{Owner: owner(), Path: "all/metrics", Name: "metrics"}
}

func home(t *testing.T) context.Context {
	t.Helper()
	return scope.NewContext(t.Context(), scope.NewHome(owner(), nil, nil))
}

func TestProvision(t *testing.T) {
	yield := provisioner.Yield(abi.ReasonApplicationInstalling, "")
	broken := provisioner.Terminal(abi.ReasonVersionNotFound, "")
	cases := map[string]struct {
		reason string
		spec   error
		ensure error
		want   error
		trace  []string
	}{
		"Ready":      {reason: "the driver's nil is the node's nil", trace: []string{"ensure home all/metrics 1.0.0"}},
		"Yield":      {reason: "the driver's error is returned as it is", ensure: yield, want: yield, trace: []string{"ensure home all/metrics 1.0.0"}},
		"BrokenSpec": {reason: "without a spec there is nothing to ask the driver for", spec: broken, want: broken},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := &driver{ensure: tc.ensure}
			shared := &cd.Application{Version: "1.0.0", ID: scope.ResourceIdentifier{Path: "forged"}}
			p := application.New(application.Options{Name: "metrics", ID: identity(), Applications: d,
				Spec: func(context.Context) (*cd.Application, error) { return shared, tc.spec }})
			err := p.Provision(home(t))
			require.Equal(t, tc.want, err, tc.reason)
			require.Equal(t, tc.trace, d.trace, tc.reason)
			require.Equal(t, "forged", shared.ID.Path, "the spec belongs to whoever made it and is not written to")
		})
	}
}

func TestSpecSeesTheScope(t *testing.T) {
	p := application.New(application.Options{Name: "metrics", ID: identity(), Applications: &driver{},
		Spec: func(ctx context.Context) (*cd.Application, error) {
			s, ok := scope.FromContext(ctx)
			require.True(t, ok)
			require.Equal(t, scope.HomeID, s.ID())
			return &cd.Application{}, nil
		}})
	require.NoError(t, p.Provision(home(t)))
	require.Equal(t, "metrics", p.ProvisionerName())
	require.Equal(t, "metrics", p.PathSegment())
}

// Cases 48, 92 and 96: what is needed to install must not be needed to remove.
func TestCase092DeprovisionNeedsIdentityOnly(t *testing.T) {
	spec := func(context.Context) (*cd.Application, error) {
		t.Error("the spec is evaluated in a deprovision")
		return nil, errors.New("never")
	}
	deleting := provisioner.Yield(abi.ReasonApplicationDeleting, "")
	d := &driver{remove: deleting}
	p := application.New(application.Options{Name: "metrics", ID: identity(), Applications: d, Spec: spec})
	require.Equal(t, error(deleting), p.Deprovision(home(t)))
	d.remove = nil
	require.NoError(t, p.Deprovision(home(t)))
	require.Equal(t, []string{"remove home all/metrics", "remove home all/metrics"}, d.trace)
}

func TestRemoteScopeIsTheDestination(t *testing.T) {
	remote := scope.NewHome(owner(), nil, nil).Remote(scope.RemoteCluster{ID: scope.ResourceIdentifier{Owner: owner(), Path: "workload"}, State: abi.ScopeReady})
	d := &driver{}
	p := application.New(application.Options{Name: "metrics", ID: identity(), Applications: d,
		Spec: func(context.Context) (*cd.Application, error) { return &cd.Application{Version: "1"}, nil }})
	require.NoError(t, p.Provision(scope.NewContext(t.Context(), remote)))
	require.Equal(t, []string{"ensure " + remote.ID() + " all/metrics 1"}, d.trace)
}

func TestNoScopeIsAnErrorNotAPanic(t *testing.T) {
	p := application.New(application.Options{Name: "metrics", Applications: &driver{}})
	require.ErrorContains(t, p.Provision(t.Context()), "no scope")
	require.ErrorContains(t, p.Deprovision(t.Context()), "no scope")
	require.Equal(t, abi.Retry, provisioner.OutcomeOf(p.Provision(t.Context())).Class)
}
