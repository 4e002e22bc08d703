package scope_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/scope"
)

func errorIs(err, target error) bool { return errors.Is(err, target) }

func owner() scope.Owner {
	return scope.Owner{APIVersion: "caisson.dev/v1alpha1", Kind: "Stack", Namespace: "team-a", Name: "platform", UID: "u-1", Generation: 3}
}

func TestHash(t *testing.T) {
	base := scope.ResourceIdentifier{Owner: owner(), Path: "remotes/workload", Name: "workload"}
	require.Len(t, base.Hash(), 20)
	for name, test := range map[string]struct {
		reason string
		change func(id *scope.ResourceIdentifier)
		same   bool
	}{
		"Name":       {"a renamed entry keeps its identity", func(id *scope.ResourceIdentifier) { id.Name = "other" }, true},
		"Generation": {"an edit is no other owner", func(id *scope.ResourceIdentifier) { id.Owner.Generation++ }, true},
		"Path":       {"another place is another thing", func(id *scope.ResourceIdentifier) { id.Path = "remotes/other" }, false},
		"UID":        {"one made again is another owner", func(id *scope.ResourceIdentifier) { id.Owner.UID = "u-2" }, false},
		"Namespace":  {"namespaces are apart", func(id *scope.ResourceIdentifier) { id.Owner.Namespace = "team-b" }, false},
		"Kind":       {"kinds are apart", func(id *scope.ResourceIdentifier) { id.Owner.Kind = "Blueprint" }, false},
		"Shifted": {
			"fields do not run into each other",
			func(id *scope.ResourceIdentifier) { id.Owner.Namespace, id.Owner.Name = "team-", "aplatform" }, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			other := base
			test.change(&other)
			require.Equal(t, test.same, base.Hash() == other.Hash(), test.reason)
		})
	}
}

func TestHomeScope(t *testing.T) {
	config := &rest.Config{Host: "https://home"}
	home := scope.NewHome(owner(), config, nil)
	require.Equal(t, scope.HomeID, home.ID())
	require.Equal(t, owner(), home.Owner())
	require.False(t, home.IsRemote())
	require.Nil(t, home.RemoteID())
	require.Nil(t, home.Parent())
	require.Equal(t, abi.ScopeReady, home.State())
	require.Equal(t, abi.Drain, home.Teardown())
	home.Config().Host = "changed"
	require.Equal(t, "https://home", home.Config().Host, "callers get a copy")
	host, port := home.Address()
	require.Empty(t, host)
	require.Zero(t, port)
}

func TestRemoteScope(t *testing.T) {
	home := scope.NewHome(owner(), &rest.Config{Host: "https://home"}, nil)
	id := scope.ResourceIdentifier{Owner: owner(), Path: "workload"}
	outer := home.Remote(scope.RemoteCluster{ID: id, Host: "outer", Port: 6443, State: abi.ScopePending})
	inner := outer.Remote(scope.RemoteCluster{ID: scope.ResourceIdentifier{Owner: owner(), Path: "inner"}, State: abi.ScopeGone})

	require.Equal(t, id.Hash(), outer.ID())
	require.Equal(t, id, *outer.RemoteID())
	require.True(t, outer.IsRemote())
	require.Nil(t, outer.Config())
	require.Nil(t, outer.Client())
	require.Equal(t, abi.ScopePending, outer.State())
	require.Equal(t, owner(), inner.Owner())
	require.Equal(t, outer.ID(), inner.Parent().ID())
	require.Equal(t, scope.HomeID, inner.Home().ID())
	require.Equal(t, scope.HomeID, home.Home().ID())
	host, port := outer.Address()
	require.Equal(t, "outer", host)
	require.Equal(t, 6443, port)
}

func TestCase074TeardownOnlyWeakens(t *testing.T) {
	for name, test := range map[string]struct {
		reason       string
		outer, inner abi.Teardown
		want         abi.Teardown
	}{
		"Default":       {"nothing said is Drain", "", "", abi.Drain},
		"Inherit":       {"a nested remote inherits", abi.Discard, "", abi.Discard},
		"Weaken":        {"and may weaken", abi.Drain, abi.Discard, abi.Discard},
		"NoStrengthen":  {"but not strengthen", abi.Discard, abi.Drain, abi.Discard},
		"Orphan":        {"orphaning waits for least", abi.Discard, abi.Orphan, abi.Orphan},
		"OrphanInherit": {"and is inherited", abi.Orphan, abi.Discard, abi.Orphan},
		"Unknown":       {"what is no policy is Drain", abi.Drain, "Explode", abi.Drain},
	} {
		t.Run(name, func(t *testing.T) {
			s := scope.NewHome(owner(), nil, nil).
				Remote(scope.RemoteCluster{Teardown: test.outer}).Remote(scope.RemoteCluster{Teardown: test.inner})
			require.Equal(t, test.want, s.Teardown(), test.reason)
		})
	}
	t.Run("RequiresDrain", func(t *testing.T) {
		discard := scope.NewHome(owner(), nil, nil).WithTeardown(abi.Discard)
		require.Equal(t, abi.Drain, discard.WithTeardown(abi.Drain).Teardown())
		require.Equal(t, abi.Discard, discard.Teardown(), "the original is untouched")
	})
}

func TestContextCarriesTheScope(t *testing.T) {
	_, ok := scope.FromContext(t.Context())
	require.False(t, ok)
	home := scope.NewHome(owner(), nil, nil)
	ctx := scope.NewContext(context.WithoutCancel(t.Context()), home)
	got, ok := scope.FromContext(ctx)
	require.True(t, ok)
	require.Equal(t, home, got)
}

func TestTenantOfScope(t *testing.T) {
	acts := func(o scope.Owner, account string) scope.Scope {
		return scope.NewHome(o, scope.Impersonate(&rest.Config{Host: "https://home"}, o.Namespace, account), nil)
	}
	home := acts(owner(), "platform")
	other := owner()
	other.Namespace = "team-b"
	require.Equal(t, "team-a/system:serviceaccount:team-a:platform", home.Tenant())
	require.NotEqual(t, home.Tenant(), acts(owner(), "other").Tenant(), "another account is another tenant")
	require.NotEqual(t, home.Tenant(), acts(other, "platform").Tenant(), "so is another namespace")
	remote := home.Remote(scope.RemoteCluster{Config: &rest.Config{Host: "https://remote"}, State: abi.ScopeReady})
	require.Equal(t, home.Tenant(), remote.Tenant(), "a remote is the same tenant's")
	require.Equal(t, "team-a", scope.NewHome(owner(), nil, nil).Tenant())
}
