package helm

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/cd/cdtest"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// balanced is an application that waits for an address.
func (b *bench) balanced() *cd.Application {
	app := b.tenant.Application()
	app.Values = map[string]any{"balancer": true}
	return app
}

// stall makes the balancer say that it cannot go on.
func (b *bench) stall(t *testing.T, status metav1.ConditionStatus) {
	t.Helper()
	svc := &corev1.Service{}
	require.NoError(t, b.Admin.Get(t.Context(), client.ObjectKey{Namespace: b.tenant.Namespace, Name: "app-balancer"}, svc))
	svc.Status.Conditions = []metav1.Condition{{
		Type: "Stalled", Status: status, Reason: "Quota", Message: "no addresses left", LastTransitionTime: metav1.Now(),
	}}
	require.NoError(t, b.Admin.Status().Update(t.Context(), svc))
}

func TestStuckPastTheDeadline_B52(t *testing.T) {
	b := newBench(t)
	app := b.balanced()
	cdtest.UntilReason(t, b.ensure(t, app), abi.ReasonApplicationWaiting)
	b.clock.advance(11 * time.Minute)
	outcome := provisioner.OutcomeOf(b.ensure(t, app)())
	require.Equal(t, abi.UserActionRequired, outcome.Class)
	require.Equal(t, abi.ReasonApplicationStuck, outcome.Headline.Reason)
	require.Contains(t, outcome.Headline.Why, "Service/app-balancer", "names the object")
	b.tenant.GiveAddress(t)
	require.NoError(t, b.ensure(t, app)(), "an address that comes at minute 11 is an address")
}

func TestCase083Degraded(t *testing.T) {
	b := newBench(t)
	app := b.balanced()
	cdtest.UntilReason(t, b.ensure(t, app), abi.ReasonApplicationWaiting)
	b.stall(t, metav1.ConditionTrue)
	outcome := provisioner.OutcomeOf(b.ensure(t, app)())
	require.Equal(t, abi.Yield, outcome.Class, "crash loops recover")
	require.Equal(t, abi.ReasonApplicationDegraded, outcome.Headline.Reason)
	b.clock.advance(3 * time.Minute)
	outcome = provisioner.OutcomeOf(b.ensure(t, app)())
	require.Equal(t, abi.UserActionRequired, outcome.Class)
	require.Equal(t, abi.ReasonApplicationDegraded, outcome.Headline.Reason)
	require.Contains(t, outcome.Headline.Why, "no addresses left")
	app.AllowDegraded = true
	require.NoError(t, b.ensure(t, app)(), "Synced and Degraded, and that is allowed")
	app.Values = map[string]any{"balancer": true, "greeting": "moin"}
	outcome = provisioner.OutcomeOf(b.ensure(t, app)())
	require.Equal(t, abi.Yield, outcome.Class, "OutOfSync: what is allowed of a revision says nothing of the next")
	require.Equal(t, abi.ReasonApplicationUpgrading, outcome.Headline.Reason)
	cdtest.Ready(t, b.ensure(t, app))
	require.Equal(t, "moin", b.tenant.Settings(t)["greeting"])
	app.AllowDegraded = false
	b.stall(t, metav1.ConditionFalse)
	b.tenant.GiveAddress(t)
	require.NoError(t, b.ensure(t, app)())
}

func TestDriftThatComesBackIsReported(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	cdtest.Ready(t, b.ensure(t, app))
	spoil := func() {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.tenant.Namespace, Name: "app-settings"}}
		require.NoError(t, client.IgnoreNotFound(b.Admin.Delete(t.Context(), cm)))
	}
	var last provisioner.Outcome
	cdtest.Poll(t, func() (bool, string) {
		spoil()
		last = provisioner.OutcomeOf(b.ensure(t, app)())
		if last.Headline.Reason == abi.ReasonApplicationDegraded {
			b.clock.advance(time.Minute) // Past the pause, but only while nothing runs.
		}
		return last.Class == abi.UserActionRequired, last.Headline.Reason
	})
	require.Equal(t, abi.ReasonApplicationDegraded, last.Headline.Reason)
	require.LessOrEqual(t, b.records(t)[len(b.records(t))-1].Version, maxRepairs+1, "no revision for each look")
	b.clock.advance(11 * time.Minute)
	cdtest.Ready(t, b.ensure(t, app))
}

func TestMissingPermissionToLook(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	cdtest.Ready(t, b.ensure(t, app))
	poor := b.NewPoorTenant(t)
	blind := scope.NewHome(b.tenant.Owner(), poor.Config(), nil)
	outcome := provisioner.OutcomeOf(b.driver.Ensure(t.Context(), blind, app))
	require.Equal(t, abi.UserActionRequired, outcome.Class)
	require.Equal(t, abi.ReasonForbidden, outcome.Headline.Reason)
}

func TestStuckFinalizerIsNamed(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	cdtest.Ready(t, b.ensure(t, app))
	release := b.tenant.Hold(t)
	cdtest.Until(t, b.remove(t, app), func(o provisioner.Outcome) bool {
		return o.Headline.Why != "" && o.Headline.Why != "step uninstall is running"
	})
	b.clock.advance(16 * time.Minute)
	outcome := provisioner.OutcomeOf(b.remove(t, app)())
	require.Equal(t, abi.UserActionRequired, outcome.Class)
	require.Equal(t, abi.ReasonApplicationStuck, outcome.Headline.Reason)
	require.Contains(t, outcome.Headline.Why, "ConfigMap/app-settings")
	require.Contains(t, outcome.Headline.Why, "example.com/hold")
	release()
	cdtest.Ready(t, b.remove(t, app))
}

func TestWatchesComeAndGo(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told := make(chan scope.Owner, 1)
	b.driver.Subscribe(ctx, func(o scope.Owner) {
		select {
		case told <- o:
		default:
		}
	})
	app := b.balanced()
	key := releaseKey{scope: scope.HomeID, namespace: b.tenant.Namespace, name: "app"}
	outcome := cdtest.UntilReason(t, b.ensure(t, app), abi.ReasonApplicationWaiting)
	require.Contains(t, []time.Duration{pollInterval, watchedInterval}, outcome.RetryAfter)
	cdtest.Poll(t, func() (bool, string) { return b.driver.hub.watching(key), "no watch" })
	outcome = provisioner.OutcomeOf(b.ensure(t, app)())
	require.Equal(t, watchedInterval, outcome.RetryAfter, "who is told need not ask often")
	b.tenant.GiveAddress(t)
	cdtest.Poll(t, func() (bool, string) {
		select {
		case owner := <-told:
			return owner == b.tenant.Owner(), "another owner"
		default:
			return false, "nobody was told"
		}
	})
	cdtest.Ready(t, b.ensure(t, app))
	cdtest.Ready(t, b.remove(t, app))
	b.driver.hub.mu.Lock()
	defer b.driver.hub.mu.Unlock()
	require.Empty(t, b.driver.hub.watchers)
	require.Empty(t, b.driver.hub.releases)
}

func TestRemovedReleaseIsForgotten(t *testing.T) {
	for _, teardown := range []abi.Teardown{abi.Drain, abi.Discard, abi.Orphan} {
		t.Run(string(teardown), func(t *testing.T) {
			b := newBench(t)
			app := b.tenant.Application()
			cdtest.Ready(t, b.ensure(t, app))
			going := b.tenant.Scope().WithTeardown(teardown)
			cdtest.Ready(t, func() error { return b.driver.Remove(t.Context(), going, app.ID) })
			cdtest.Poll(t, func() (bool, string) {
				b.driver.runner.mu.Lock()
				defer b.driver.runner.mu.Unlock()
				return len(b.driver.runner.releases) == 0, "still remembered"
			})
			secret := &corev1.Secret{}
			key := client.ObjectKey{Namespace: b.Namespace, Name: inventoryName(app.ID.Owner.UID)}
			require.Error(t, b.Admin.Get(t.Context(), key, secret), "the inventory goes with its last entry")
			require.Empty(t, b.records(t))
		})
	}
}
