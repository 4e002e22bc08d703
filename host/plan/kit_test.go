package plan

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/provisionertest"
	"github.com/caisson-dev/caisson/host/provisioner/serial"
	"github.com/caisson-dev/caisson/host/scope"
)

// inventory is a driver that installs at once and remembers.
type inventory struct {
	cd.Driver

	installed []cd.Installed
	releases  []string
}

func (i *inventory) Ensure(_ context.Context, to scope.Scope, app *cd.Application) error {
	i.installed = append(i.installed, cd.Installed{ID: app.ID, ScopeID: to.ID()})
	i.releases = append(i.releases, app.Release)
	return nil
}

func (i *inventory) Remove(_ context.Context, _ scope.Scope, id scope.ResourceIdentifier) error {
	var left []cd.Installed
	for _, known := range i.installed {
		if known.ID.Path != id.Path {
			left = append(left, known)
		}
	}
	i.installed = left
	return nil
}

func (i *inventory) List(context.Context, scope.Owner) ([]cd.Installed, error) {
	return i.installed, nil
}

func (i *inventory) paths() []string {
	paths := []string{}
	for _, known := range i.installed {
		paths = append(paths, known.ID.Path)
	}
	return paths
}

func widget() *v1alpha1.Stack {
	owner := &v1alpha1.Stack{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", UID: "1"}}
	owner.APIVersion, owner.Kind = "example.com/v1", "Widget"
	return owner
}

func atHome(t *testing.T, k *Kit) context.Context {
	t.Helper()
	return scope.NewContext(t.Context(), scope.NewHome(k.Owner(), nil, nil))
}

func chart(context.Context) (*cd.Application, error) { return &cd.Application{Chart: "nginx"}, nil }

// TestKitRemovesWhatNoLeafStandsFor: a leaf that an edit of the program left out.
func TestKitRemovesWhatNoLeafStandsFor(t *testing.T) {
	driver := &inventory{}
	kit := NewKit(widget(), nil, Dependencies{Driver: driver})
	require.Equal(t, "Widget", kit.Owner().Kind)
	tree, err := kit.Tree(serial.New("all", kit.Application("one", chart), kit.Application("two", chart)))
	require.NoError(t, err)
	require.NoError(t, tree.Provision(atHome(t, kit)))
	require.Equal(t, []string{"one", "two"}, driver.paths())
	require.Regexp(t, `^one-[0-9a-f]{8}$`, driver.releases[0], "a release is named by its leaf")

	kit = NewKit(widget(), nil, Dependencies{Driver: driver})
	tree, err = kit.Tree(kit.Native("mine", provisionertest.New("mine", nil)))
	require.NoError(t, err)
	require.NoError(t, tree.Provision(atHome(t, kit)))
	require.Empty(t, driver.paths())
}

func TestKitRecordsLeaves(t *testing.T) {
	trace := &provisionertest.Trace{}
	kit := NewKit(widget(), nil, Dependencies{Driver: &inventory{}})
	panics := panicking{}
	tree, err := kit.Tree(serial.New("all",
		kit.Native("fine", provisionertest.New("fine", trace)),
		kit.Native("broken", panics),
		kit.Native("after", provisionertest.New("after", trace)),
	))
	require.NoError(t, err)
	outcome := provisioner.OutcomeOf(tree.Provision(atHome(t, kit)))
	require.Equal(t, abi.Retry, outcome.Class)
	require.Equal(t, "broken", outcome.Headline.Path)
	require.NotContains(t, outcome.Headline.Sentence, "boom")
	states := map[string]string{}
	for _, r := range tree.Results() {
		require.Equal(t, KindNative, r.Kind)
		states[r.Path] = r.State
	}
	require.Equal(t, map[string]string{"fine": "OK", "broken": "Retry", "after": v1alpha1.NodeWaiting}, states)

	t.Run("also those that are not its own", func(t *testing.T) {
		tree, err := NewKit(widget(), nil, Dependencies{Driver: &inventory{}}).Tree(serial.New("all", panics))
		require.NoError(t, err)
		require.Equal(t, abi.ReasonUnexpected, provisioner.OutcomeOf(tree.Provision(atHome(t, kit))).Headline.Reason)
		require.False(t, provisioner.OutcomeOf(tree.Deprovision(atHome(t, kit))).Parks())
	})
}

type panicking struct{}

func (panicking) ProvisionerName() string           { return "panicking" }
func (panicking) Provision(context.Context) error   { panic(errors.New("boom")) }
func (panicking) Deprovision(context.Context) error { panic(errors.New("boom")) }

func TestKitRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		build  func(k *Kit) provisioner.Provisioner
		want   string
	}{
		"Twice": {"identities are unique", func(k *Kit) provisioner.Provisioner {
			return serial.New("all", k.Application("one", chart), k.Application("one", chart))
		}, "another leaf named one"},
		"Name": {"names become parts of object names", func(k *Kit) provisioner.Provisioner {
			return k.Application("One/Two", chart)
		}, "lower-case"},
		"Remote": {"a remote must be declared", func(k *Kit) provisioner.Provisioner {
			return k.On("nowhere", k.Application("one", chart))
		}, "no remote named"},
	} {
		t.Run(name, func(t *testing.T) {
			kit := NewKit(widget(), nil, Dependencies{Driver: &inventory{}})
			_, err := kit.Tree(test.build(kit))
			require.True(t, provisioner.IsTerminal(err), test.reason)
			require.ErrorContains(t, err, test.want)
		})
	}
	t.Run("NoRoot", func(t *testing.T) {
		_, err := NewKit(widget(), nil, Dependencies{Driver: &inventory{}}).Tree(nil)
		require.Error(t, err)
		require.False(t, provisioner.IsTerminal(err), "a mistake of the program, and not of the object")
	})
}
