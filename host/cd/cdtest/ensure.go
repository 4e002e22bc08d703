package cdtest

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

func ensureCases() map[string]func(*testing.T, *fixture) {
	return map[string]func(*testing.T, *fixture){
		"InstallUntilReady":               installUntilReady,
		"NothingToDoWritesNothing":        nothingToDoWritesNothing,
		"RestartWritesNothing":            restartWritesNothing,
		"UpgradeByVersion/B01":            upgradeByVersion,
		"UpgradeByValues":                 upgradeByValues,
		"UpgradeBySecretDigest":           upgradeBySecretDigest,
		"NumbersAreStable/B55":            numbersAreStable,
		"NullIsKept":                      nullIsKept,
		"ParametersOverrideInOrder":       parametersOverrideInOrder,
		"SecretsAreExpandedAndHidden":     secretsAreExpandedAndHidden,
		"MissingVersionThenFixed":         missingVersionThenFixed,
		"BrokenVersionThenFixed":          brokenVersionThenFixed,
		"RepositoryDown":                  repositoryDown,
		"ForbiddenThenGranted":            forbiddenThenGranted,
		"DriftIsRepaired/B23":             driftIsRepaired,
		"TwoOwnersOfOneName/B51":          twoOwnersOfOneName,
		"ForeignObjectIsNotAdopted/B33":   foreignObjectIsNotAdopted,
		"CancelledReconcileKeepsWork/B57": cancelledReconcileKeepsWork,
		"WorkloadRollsOut":                workloadRollsOut,
		"WaitsForAnAddress/B52":           waitsForAnAddress,
		"ClusterGoneInstallsNothing/B37":  clusterGoneInstallsNothing,
		"NewReleaseNameReplacesOld/B41":   newReleaseNameReplacesOld,
		"InvalidReleaseName":              invalidReleaseName,
		"TellsWhenToLookAgain":            tellsWhenToLookAgain,
	}
}

func installUntilReady(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	first := provisioner.OutcomeOf(f.driver.Ensure(t.Context(), f.tenant.Scope(), app))
	require.Equal(t, abi.Yield, first.Class, "nothing is ready at once: %+v", first)
	require.Equal(t, abi.ReasonApplicationInstalling, first.Headline.Reason)
	require.Positive(t, first.RetryAfter)
	Ready(t, f.ensure(t.Context(), app))
	require.Equal(t, "1.0.0", f.tenant.Settings(t)["version"])
	require.Equal(t, "hello", f.tenant.Settings(t)["greeting"])
	listed, err := f.driver.List(t.Context(), f.tenant.Owner())
	require.NoError(t, err)
	require.Len(t, listed, 1)
	require.Equal(t, app.ID, listed[0].ID)
	require.Equal(t, scope.HomeID, listed[0].ScopeID)
	require.Equal(t, "app", listed[0].Release)
	require.Equal(t, f.tenant.Namespace, listed[0].Namespace)
	require.Equal(t, "1.0.0", listed[0].Version)
	require.Contains(t, strings.Join(listed[0].Retained, " "), "app-kept")
}

func nothingToDoWritesNothing(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	Ready(t, f.ensure(t.Context(), app))
	require.NoError(t, f.driver.Ensure(t.Context(), f.tenant.Scope(), app))
	before := f.Writes()
	for range 20 {
		require.NoError(t, f.driver.Ensure(t.Context(), f.tenant.Scope(), app))
	}
	require.Equal(t, before, f.Writes())
}

func restartWritesNothing(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	Ready(t, f.ensure(t.Context(), app))
	before := f.Writes()
	f.driver = f.restart()
	require.NoError(t, f.driver.Ensure(t.Context(), f.tenant.Scope(), app))
	require.Equal(t, before, f.Writes())
}

func upgradeByVersion(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	Ready(t, f.ensure(t.Context(), app))
	app.Version = "2.0.0"
	first := provisioner.OutcomeOf(f.driver.Ensure(t.Context(), f.tenant.Scope(), app))
	require.Equal(t, abi.Yield, first.Class, "the health of the old version is no answer")
	Until(t, f.ensure(t.Context(), app), func(o provisioner.Outcome) bool {
		if o.OK() {
			require.Equal(t, "2.0.0", f.tenant.Settings(t)["version"], "ready before the new version was there")
		}
		return o.OK()
	})
}

func upgradeByValues(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	Ready(t, f.ensure(t.Context(), app))
	app.Values = map[string]any{"greeting": "moin", "nested": map[string]any{"inner": "deep"}}
	require.ErrorIs(t, f.driver.Ensure(t.Context(), f.tenant.Scope(), app), provisioner.ErrYield)
	Ready(t, f.ensure(t.Context(), app))
	require.Equal(t, "moin", f.tenant.Settings(t)["greeting"])
	require.Equal(t, "deep", f.tenant.Settings(t)["nested"])
	app.Values = map[string]any{}
	Ready(t, f.ensure(t.Context(), app))
	require.Equal(t, "hello", f.tenant.Settings(t)["greeting"], "values of before are not reused")
}

func upgradeBySecretDigest(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	app.ValuesDigest = "sha256:of the first secret, with characters that no label has"
	Ready(t, f.ensure(t.Context(), app))
	app.ValuesDigest = "sha256:of the second"
	require.ErrorIs(t, f.driver.Ensure(t.Context(), f.tenant.Scope(), app), provisioner.ErrYield)
	Ready(t, f.ensure(t.Context(), app))
}

func numbersAreStable(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	app.Values = map[string]any{"greeting": "x", "n": 1, "list": []any{1.0, 2.5}}
	Ready(t, f.ensure(t.Context(), app))
	before := f.Writes()
	app.Values = map[string]any{"list": []any{int64(1), 2.5}, "n": 1.0, "greeting": "x"}
	require.NoError(t, f.driver.Ensure(t.Context(), f.tenant.Scope(), app))
	require.Equal(t, before, f.Writes(), "1 and 1.0 are one value, and maps have no order")
}

func nullIsKept(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	Ready(t, f.ensure(t.Context(), app))
	require.Equal(t, "fallback", f.tenant.Settings(t)["optional"])
	app.Values = map[string]any{"optional": nil}
	Ready(t, f.ensure(t.Context(), app))
	require.Equal(t, "absent", f.tenant.Settings(t)["optional"], "a null takes the chart's default away")
	require.Contains(t, app.Values, "optional", "what the caller gave is left alone")
}

func parametersOverrideInOrder(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	app.Values = map[string]any{"greeting": "from values"}
	app.Parameters = []cd.Parameter{
		{Name: "greeting", Value: "first"}, {Name: "greeting", Value: `a,nested.inner=b\`}, {Name: "nested.inner", Value: "deep"},
	}
	Ready(t, f.ensure(t.Context(), app))
	require.Equal(t, `a,nested.inner=b\`, f.tenant.Settings(t)["greeting"], "a value is a value, not more parameters")
	require.Equal(t, "deep", f.tenant.Settings(t)["nested"])
}

func secretsAreExpandedAndHidden(t *testing.T, f *fixture) {
	const handle = "caisson-secret:0123456789abcdef0123456789abcdef:"
	const secret = "correct horse battery staple"
	app := f.tenant.Application()
	app.Values = map[string]any{"greeting": "pw=" + handle}
	app.Secrets = func(text string) (string, error) { return strings.ReplaceAll(text, handle, secret), nil }
	Ready(t, f.ensure(t.Context(), app))
	require.Equal(t, "pw="+secret, f.tenant.Settings(t)["greeting"])
	require.Equal(t, "pw="+handle, app.Values["greeting"], "what the caller gave is left alone")

	failing := DemoChart("3.0.0")
	failing.Files["templates/fail.yaml"] = `{{ fail (printf "cannot use %s" .Values.greeting) }}`
	f.Repository.Publish(t, failing)
	app.Version = "3.0.0"
	outcome := Settle(t, f.ensure(t.Context(), app))
	require.Equal(t, abi.Terminal, outcome.Class)
	require.Contains(t, outcome.Headline.Why, "cannot use")
	require.NotContains(t, outcome.Headline.Why, secret)
}

func missingVersionThenFixed(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	app.Version = "9.9.9"
	outcome := Settle(t, f.ensure(t.Context(), app))
	require.Equal(t, abi.Terminal, outcome.Class, "%+v", outcome)
	require.Equal(t, abi.ReasonChartNotFound, outcome.Headline.Reason)
	app.Version = "1.0.0"
	require.ErrorIs(t, f.driver.Ensure(t.Context(), f.tenant.Scope(), app), provisioner.ErrYield, "a fix is tried at once")
	Ready(t, f.ensure(t.Context(), app))
}

func brokenVersionThenFixed(t *testing.T, f *fixture) {
	broken := DemoChart("1.1.0")
	broken.Files["templates/broken.yaml"] = "{{ .Values.greeting | nosuchfunction }}"
	f.Repository.Publish(t, broken)
	app := f.tenant.Application()
	Ready(t, f.ensure(t.Context(), app))
	app.Version = "1.1.0"
	outcome := Settle(t, f.ensure(t.Context(), app))
	require.Equal(t, abi.Terminal, outcome.Class, "%+v", outcome)
	require.Equal(t, abi.ReasonRenderFailed, outcome.Headline.Reason)
	require.Equal(t, "1.0.0", f.tenant.Settings(t)["version"], "what worked is left alone")
	app.Version = "2.0.0"
	require.ErrorIs(t, f.driver.Ensure(t.Context(), f.tenant.Scope(), app), provisioner.ErrYield, "a fix is tried at once")
	Ready(t, f.ensure(t.Context(), app))
	require.Equal(t, "2.0.0", f.tenant.Settings(t)["version"])
}

func repositoryDown(t *testing.T, f *fixture) {
	f.Repository.Down()
	outcome := UntilReason(t, f.ensure(t.Context(), f.tenant.Application()), abi.ReasonChartUnavailable)
	require.Contains(t, []abi.Disposition{abi.Yield, abi.Retry}, outcome.Class, "a repository comes back by itself")
	require.Positive(t, outcome.RetryAfter)
}

func forbiddenThenGranted(t *testing.T, f *fixture) {
	poor := f.NewPoorTenant(t)
	f.tenant, f.home = poor, poor.Scope()
	outcome := Settle(t, f.ensure(t.Context(), poor.Application()))
	require.Equal(t, abi.UserActionRequired, outcome.Class, "%+v", outcome)
	require.Equal(t, abi.ReasonForbidden, outcome.Headline.Reason)
	require.Nil(t, poor.Settings(t))
	poor.Grant(t)
	Ready(t, f.ensure(t.Context(), poor.Application()))
}

func driftIsRepaired(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	Ready(t, f.ensure(t.Context(), app))
	require.NoError(t, f.Admin.Delete(t.Context(), f.tenant.configMap(t, "app-settings")))
	require.ErrorIs(t, f.driver.Ensure(t.Context(), f.tenant.Scope(), app), provisioner.ErrYield)
	Ready(t, f.ensure(t.Context(), app))
	require.Equal(t, "hello", f.tenant.Settings(t)["greeting"])
}

func twoOwnersOfOneName(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	Ready(t, f.ensure(t.Context(), app))
	second := f.tenant.Application()
	second.ID.Owner.UID, second.ID.Owner.Name = "another-uid", "another"
	second.Values = map[string]any{"greeting": "hijacked"}
	outcome := Settle(t, f.ensure(t.Context(), second))
	require.Equal(t, abi.UserActionRequired, outcome.Class, "%+v", outcome)
	require.Equal(t, abi.ReasonApplicationOwned, outcome.Headline.Reason)
	Ready(t, f.remove(t.Context(), second))
	require.NoError(t, f.driver.Ensure(t.Context(), f.tenant.Scope(), app), "the first is not touched, also by the second's removal")
	require.Equal(t, "hello", f.tenant.Settings(t)["greeting"])
}

func foreignObjectIsNotAdopted(t *testing.T, f *fixture) {
	foreign := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.tenant.Namespace, Name: "app-settings"}, Data: map[string]string{"mine": "yes"},
	}
	require.NoError(t, f.Admin.Create(t.Context(), foreign))
	app := f.tenant.Application()
	outcome := Settle(t, f.ensure(t.Context(), app))
	require.Equal(t, abi.UserActionRequired, outcome.Class, "%+v", outcome)
	require.Equal(t, abi.ReasonApplicationOwned, outcome.Headline.Reason)
	require.Equal(t, map[string]string{"mine": "yes"}, f.tenant.Settings(t))
	Ready(t, f.remove(t.Context(), app))
	require.Equal(t, map[string]string{"mine": "yes"}, f.tenant.Settings(t), "and not deleted either")
}

func cancelledReconcileKeepsWork(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, f.driver.Ensure(ctx, f.tenant.Scope(), app), provisioner.ErrYield)
	cancel()
	Ready(t, f.ensure(t.Context(), app))
	require.Equal(t, "hello", f.tenant.Settings(t)["greeting"])
}

func workloadRollsOut(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	app.Values = map[string]any{"workload": true}
	Ready(t, f.ensure(t.Context(), app))
}

func waitsForAnAddress(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	app.Values = map[string]any{"balancer": true}
	outcome := UntilReason(t, f.ensure(t.Context(), app), abi.ReasonApplicationWaiting)
	require.Equal(t, abi.Yield, outcome.Class)
	require.Contains(t, outcome.Headline.Why, "app-balancer")
	f.tenant.GiveAddress(t)
	Ready(t, f.ensure(t.Context(), app))
}

func clusterGoneInstallsNothing(t *testing.T, f *fixture) {
	before := f.Requests()
	gone := f.tenant.Remote(scope.RemoteCluster{Config: f.tenant.Config(), Client: f.tenant.Client(), State: abi.ScopeGone})
	require.ErrorIs(t, f.driver.Ensure(t.Context(), gone, f.tenant.Application()), provisioner.ErrYield)
	pending := f.tenant.Remote(scope.RemoteCluster{State: abi.ScopePending})
	require.ErrorIs(t, f.driver.Ensure(t.Context(), pending, f.tenant.Application()), provisioner.ErrYield)
	require.Equal(t, before, f.Requests())
}

func newReleaseNameReplacesOld(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	Ready(t, f.ensure(t.Context(), app))
	app.Release = "renamed"
	Ready(t, f.ensure(t.Context(), app))
	require.Nil(t, f.tenant.Settings(t), "the old release is gone")
	require.NotNil(t, f.tenant.configMap(t, "renamed-settings"))
	listed, err := f.driver.List(t.Context(), f.tenant.Owner())
	require.NoError(t, err)
	require.Len(t, listed, 1)
	require.Equal(t, "renamed", listed[0].Release)
}

func invalidReleaseName(t *testing.T, f *fixture) {
	app := f.tenant.Application()
	app.Release = strings.Repeat("x", cd.MaxReleaseName+1)
	outcome := provisioner.OutcomeOf(f.driver.Ensure(t.Context(), f.tenant.Scope(), app))
	require.Equal(t, abi.Terminal, outcome.Class)
	require.Equal(t, abi.ReasonInvalidRelease, outcome.Headline.Reason)
}

func tellsWhenToLookAgain(t *testing.T, f *fixture) {
	notifier, ok := f.driver.(cd.Notifier)
	require.True(t, ok, "the driver does not notify")
	told := make(chan scope.Owner, 64)
	notifier.Subscribe(t.Context(), func(owner scope.Owner) {
		select {
		case told <- owner:
		default: // Nobody reads this fast, and nothing may block.
		}
	})
	app := f.tenant.Application()
	app.Values = map[string]any{"balancer": true}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for given := false; ; {
		outcome := provisioner.OutcomeOf(f.driver.Ensure(t.Context(), f.tenant.Scope(), app))
		if outcome.OK() {
			break
		}
		if outcome.Headline.Reason == abi.ReasonApplicationWaiting && !given {
			given = true
			f.tenant.GiveAddress(t)
		}
		select {
		case owner := <-told:
			require.Equal(t, f.tenant.Owner(), owner)
		case <-ctx.Done():
			require.FailNow(t, "nobody said when to look again", "last seen: %+v", outcome)
		}
	}
}
