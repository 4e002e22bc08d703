package cdtest

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

func removeCases() map[string]func(*testing.T, *fixture) {
	return map[string]func(*testing.T, *fixture){
		"RemoveLeavesOnlyTheRetained":   removeLeavesOnlyTheRetained,
		"RemoveNeverInstalled":          removeNeverInstalled,
		"RemoveAfterFailedInstall":      removeAfterFailedInstall,
		"RemoveVerifiesInventory/B32":   removeVerifiesInventory,
		"RemoveAfterRestart/B31":        removeAfterRestart,
		"RemoveNeedsNoChart/B39":        removeNeedsNoChart,
		"RemoveThenInstallAgain":        removeThenInstallAgain,
		"DesiredAgainWhileRemoving/B15": desiredAgainWhileRemoving,
		"DiscardDoesNotWait":            discardDoesNotWait,
		"OrphanLeavesWorkloads":         orphanLeavesWorkloads,
		"GoneDropsTheRecord/B27":        goneDropsTheRecord,
		"PendingYields":                 pendingYields,
		"ScopesAreApart":                scopesAreApart,
		"UnreachableIsNotGone":          unreachableIsNotGone,
		"ListErrorIsNoEmptyList/B38":    listErrorIsNoEmptyList,
		"ConcurrentApplications":        concurrentApplications,
	}
}

func (f *fixture) requireNothingListed(t *testing.T) {
	t.Helper()
	listed, err := f.driver.List(t.Context(), f.tenant.Owner())
	require.NoError(t, err)
	require.Empty(t, listed)
}

func removeLeavesOnlyTheRetained(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	Ready(t, f.ensure(t.Context(), app))
	first := provisioner.OutcomeOf(f.driver.Remove(t.Context(), f.tenant.Scope(), app.ID))
	require.Equal(t, abi.Yield, first.Class)
	require.Equal(t, abi.ReasonApplicationDeleting, first.Headline.Reason)
	Ready(t, f.remove(t.Context(), app))
	require.Nil(t, f.tenant.Settings(t))
	require.NotNil(t, f.tenant.configMap(t, "app-kept"), "what the chart wants kept is kept")
	f.requireNothingListed(t)
	before := f.Writes()
	require.NoError(t, f.driver.Remove(t.Context(), f.tenant.Scope(), app.ID))
	require.Equal(t, before, f.Writes())
}

func removeNeverInstalled(t *testing.T, f *fixture) {
	unreachable := scope.NewHome(f.tenant.Owner(), &rest.Config{Host: "https://127.0.0.1:1"}, nil)
	require.NoError(t, f.driver.Remove(t.Context(), unreachable, f.tenant.Application().ID), "the cluster is not even asked")
}

func removeAfterFailedInstall(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	app.Version = "9.9.9"
	require.Equal(t, abi.Terminal, Settle(t, f.ensure(t.Context(), app)).Class)
	Ready(t, f.remove(t.Context(), app))
	f.requireNothingListed(t)
}

func removeVerifiesInventory(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	Ready(t, f.ensure(t.Context(), app))
	release := f.tenant.Hold(t)
	Until(t, f.remove(t.Context(), app), func(o provisioner.Outcome) bool {
		require.False(t, o.OK(), "not gone while an object is there")
		require.Equal(t, abi.ReasonApplicationDeleting, o.Headline.Reason)
		cm := f.tenant.configMap(t, "app-settings")
		require.NotNil(t, cm)
		return cm.DeletionTimestamp != nil
	})
	for range 5 {
		err := f.driver.Remove(t.Context(), f.tenant.Scope(), app.ID)
		require.ErrorIs(t, err, provisioner.ErrYield, "a second look is not fooled either")
	}
	listed, err := f.driver.List(t.Context(), f.tenant.Owner())
	require.NoError(t, err)
	require.Len(t, listed, 1, "what may still be there is listed")
	release()
	Ready(t, f.remove(t.Context(), app))
	f.requireNothingListed(t)
}

func removeAfterRestart(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	Ready(t, f.ensure(t.Context(), app))
	release := f.tenant.Hold(t)
	require.ErrorIs(t, f.driver.Remove(t.Context(), f.tenant.Scope(), app.ID), provisioner.ErrYield)
	Poll(t, func() (bool, string) {
		return f.tenant.configMap(t, "app-settings").DeletionTimestamp != nil, "no deletion"
	})
	f.driver = f.restart()
	require.ErrorIs(t, f.driver.Remove(t.Context(), f.tenant.Scope(), app.ID), provisioner.ErrYield, "a new process knows what is left")
	release()
	Ready(t, f.remove(t.Context(), app))
	f.requireNothingListed(t)
}

func removeNeedsNoChart(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	Ready(t, f.ensure(t.Context(), app))
	f.Repository.Down()
	f.driver = f.restart()
	Ready(t, f.remove(t.Context(), app))
	require.Nil(t, f.tenant.Settings(t))
}

func removeThenInstallAgain(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	Ready(t, f.ensure(t.Context(), app))
	Ready(t, f.remove(t.Context(), app))
	Ready(t, f.ensure(t.Context(), app))
	require.Equal(t, "hello", f.tenant.Settings(t)["greeting"])
}

func desiredAgainWhileRemoving(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	Ready(t, f.ensure(t.Context(), app))
	release := f.tenant.Hold(t)
	Until(t, f.remove(t.Context(), app), func(provisioner.Outcome) bool {
		return f.tenant.configMap(t, "app-settings").DeletionTimestamp != nil
	})
	UntilReason(t, f.ensure(t.Context(), app), abi.ReasonApplicationDeleting)
	release()
	Ready(t, f.ensure(t.Context(), app))
	cm := f.tenant.configMap(t, "app-settings")
	require.NotNil(t, cm)
	require.Nil(t, cm.DeletionTimestamp)
}

func discardDoesNotWait(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	Ready(t, f.ensure(t.Context(), app))
	release := f.tenant.Hold(t)
	defer release()
	going := f.tenant.Scope().WithTeardown(abi.Discard)
	require.NoError(t, f.driver.Remove(t.Context(), going, app.ID), "triggered is enough")
	Poll(t, func() (bool, string) {
		cm := f.tenant.configMap(t, "app-settings")
		listed, err := f.driver.List(t.Context(), f.tenant.Owner())
		require.NoError(t, err)
		return cm.DeletionTimestamp != nil && len(listed) == 0, "not triggered, or still listed"
	})
	require.NoError(t, f.driver.Remove(t.Context(), going, app.ID))
}

func orphanLeavesWorkloads(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	Ready(t, f.ensure(t.Context(), app))
	left := f.tenant.Scope().WithTeardown(abi.Orphan)
	Ready(t, func() error { return f.driver.Remove(t.Context(), left, app.ID) })
	require.Equal(t, "hello", f.tenant.Settings(t)["greeting"])
	require.Nil(t, f.tenant.configMap(t, "app-settings").DeletionTimestamp)
	f.requireNothingListed(t)
}

// remote is a ready remote scope of the tenant's.
func (f *fixture) remote() scope.Scope {
	return f.tenant.Remote(scope.RemoteCluster{
		Config: f.tenant.Config(), Client: f.tenant.Client(), State: abi.ScopeReady, Teardown: abi.Drain,
	})
}

func goneDropsTheRecord(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	Ready(t, func() error { return f.driver.Ensure(t.Context(), f.remote(), app) })
	gone := f.tenant.Remote(scope.RemoteCluster{State: abi.ScopeGone, Teardown: abi.Drain})
	require.NoError(t, f.driver.Remove(t.Context(), gone, app.ID))
	f.requireNothingListed(t)
}

func pendingYields(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	Ready(t, func() error { return f.driver.Ensure(t.Context(), f.remote(), app) })
	pending := f.tenant.Remote(scope.RemoteCluster{State: abi.ScopePending, Teardown: abi.Drain})
	outcome := provisioner.OutcomeOf(f.driver.Remove(t.Context(), pending, app.ID))
	require.Equal(t, abi.Yield, outcome.Class)
	require.Equal(t, abi.ReasonRemoteUnreachable, outcome.Headline.Reason)
	listed, err := f.driver.List(t.Context(), f.tenant.Owner())
	require.NoError(t, err)
	require.Len(t, listed, 1)
	require.Equal(t, pending.ID(), listed[0].ScopeID)
}

func scopesAreApart(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	Ready(t, f.ensure(t.Context(), app))
	require.NoError(t, f.driver.Remove(t.Context(), f.remote(), app.ID), "there is nothing in that scope")
	require.NotNil(t, f.tenant.Settings(t))
}

func unreachableIsNotGone(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	Ready(t, f.ensure(t.Context(), app))
	unreachable := scope.NewHome(f.tenant.Owner(), &rest.Config{Host: "https://127.0.0.1:1"}, nil)
	outcome := provisioner.OutcomeOf(f.driver.Remove(t.Context(), unreachable, app.ID))
	require.Contains(t, []abi.Disposition{abi.Yield, abi.Retry}, outcome.Class, "%+v", outcome)
	require.Equal(t, abi.ReasonRemoteUnreachable, outcome.Headline.Reason)
	listed, err := f.driver.List(t.Context(), f.tenant.Owner())
	require.NoError(t, err)
	require.Len(t, listed, 1)
}
