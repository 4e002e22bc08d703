package helm

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/release/common"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/cd/cdtest"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// shiftedClock is the real clock, moved.
type shiftedClock struct {
	mu    sync.Mutex
	shift time.Duration
}

func (c *shiftedClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.shift)
}

func (c *shiftedClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shift += d
}

// bench is a driver with a tenant, a clock to move, and a view of Helm's records.
type bench struct {
	*cdtest.Env
	driver *Driver
	tenant *cdtest.Tenant
	clock  *shiftedClock
	at     *cluster
}

func newBench(t *testing.T) *bench {
	t.Helper()
	env := cdtest.NewEnv(t, admin(t))
	b := &bench{Env: env, tenant: env.NewTenant(t), clock: &shiftedClock{}}
	b.driver = newDriver(t, env.Operator, env.Namespace, func(o *Options) { o.Now = b.clock.now })
	at, err := newCluster("test", env.Config, time.Minute)
	require.NoError(t, err)
	b.at = at
	return b
}

func (b *bench) ensure(t *testing.T, app *cd.Application) func() error {
	return func() error { return b.driver.Ensure(t.Context(), b.tenant.Scope(), app) }
}

func (b *bench) remove(t *testing.T, app *cd.Application) func() error {
	return func() error { return b.driver.Remove(t.Context(), b.tenant.Scope(), app.ID) }
}

// records are the releases as Helm stored them, oldest first.
func (b *bench) records(t *testing.T) []*release.Release {
	t.Helper()
	releases, err := b.at.history(t.Context(), b.tenant.Namespace, "app")
	require.NoError(t, err)
	for i := range releases {
		for j := i + 1; j < len(releases); j++ {
			if releases[j].Version < releases[i].Version {
				releases[i], releases[j] = releases[j], releases[i]
			}
		}
	}
	return releases
}

// rewrite changes the newest record, as a process that died would have left it.
func (b *bench) rewrite(t *testing.T, change func(*release.Release)) {
	t.Helper()
	records := b.records(t)
	last := records[len(records)-1]
	change(last)
	require.NoError(t, storage.Init(b.at.records(t.Context(), b.tenant.Namespace)).Update(last))
}

func (b *bench) status(t *testing.T) []common.Status {
	t.Helper()
	var statuses []common.Status
	for _, rel := range b.records(t) {
		statuses = append(statuses, rel.Info.Status)
	}
	return statuses
}

func TestInstallLeavesOneLabelledRevision(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	cdtest.Ready(t, b.ensure(t, app))
	records := b.records(t)
	require.Len(t, records, 1)
	want, err := identify(app)
	require.NoError(t, err)
	require.True(t, want.describes(records[0].Labels), "%v", records[0].Labels)
	cm := &corev1.ConfigMap{}
	require.NoError(t, b.Admin.Get(t.Context(), client.ObjectKey{Namespace: b.tenant.Namespace, Name: "app-settings"}, cm))
	require.Equal(t, "caisson", cm.ManagedFields[0].Manager)
	require.Equal(t, metav1.ManagedFieldsOperationApply, cm.ManagedFields[0].Operation)
}

func TestNothingToDoCostsFewReads(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	cdtest.Ready(t, b.ensure(t, app))
	require.NoError(t, b.ensure(t, app)())
	requests, writes := b.Requests(), b.Writes()
	require.NoError(t, b.ensure(t, app)())
	require.Equal(t, int64(1+2), b.Requests()-requests, "release, and its two objects; the inventory and the kinds are known")
	require.Equal(t, writes, b.Writes())
}

func TestPendingYoungIsLeftAlone_B14(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	cdtest.Ready(t, b.ensure(t, app))
	b.rewrite(t, func(r *release.Release) { r.SetStatus(common.StatusPendingUpgrade, "Preparing upgrade") })
	before := b.Writes()
	outcome := provisioner.OutcomeOf(b.ensure(t, app)())
	require.Equal(t, abi.Yield, outcome.Class)
	require.Equal(t, abi.ReasonApplicationLocked, outcome.Headline.Reason)
	require.Equal(t, abi.ReasonApplicationLocked, provisioner.OutcomeOf(b.remove(t, app)()).Headline.Reason, "nor is it uninstalled")
	require.Equal(t, before, b.Writes())
}

func TestPendingStaleIsUnlocked_B14(t *testing.T) {
	for _, status := range []common.Status{common.StatusPendingInstall, common.StatusPendingUpgrade, common.StatusPendingRollback} {
		t.Run(string(status), func(t *testing.T) {
			b := newBench(t)
			app := b.tenant.Application()
			cdtest.Ready(t, b.ensure(t, app))
			b.rewrite(t, func(r *release.Release) { r.SetStatus(status, "") })
			b.clock.advance(6 * time.Minute)
			cdtest.Ready(t, b.ensure(t, app))
			require.Equal(t, []common.Status{common.StatusSuperseded, common.StatusDeployed}, replaceFailed(b.status(t)))
		})
	}
}

// replaceFailed takes a failed first revision for superseded: which of the two Helm
// writes depends on whether another was deployed.
func replaceFailed(statuses []common.Status) []common.Status {
	for i, s := range statuses {
		if s == common.StatusFailed {
			statuses[i] = common.StatusSuperseded
		}
	}
	return statuses
}

func TestPendingStaleIsUninstalled(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	cdtest.Ready(t, b.ensure(t, app))
	b.rewrite(t, func(r *release.Release) { r.SetStatus(common.StatusPendingUpgrade, "") })
	b.clock.advance(6 * time.Minute)
	cdtest.Ready(t, b.remove(t, app))
	require.Empty(t, b.records(t))
}

func TestUninstallingAndDesired_B15(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	cdtest.Ready(t, b.ensure(t, app))
	b.rewrite(t, func(r *release.Release) { r.SetStatus(common.StatusUninstalling, "") })
	cdtest.Ready(t, b.ensure(t, app))
	require.Equal(t, common.StatusDeployed, b.status(t)[len(b.status(t))-1])
	require.NotEmpty(t, b.tenant.Settings(t))
}

func TestUninstalledHistoryIsReplaced(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	cdtest.Ready(t, b.ensure(t, app))
	require.NoError(t, b.at.uninstall(t.Context(), releaseKey{namespace: b.tenant.Namespace, name: "app"}, uninstallOptions{timeout: time.Minute, propagation: foreground}))
	require.Equal(t, []common.Status{common.StatusUninstalled}, b.status(t))
	cdtest.Ready(t, b.ensure(t, app))
	require.Equal(t, []common.Status{common.StatusSuperseded, common.StatusDeployed}, b.status(t))
	cdtest.Ready(t, b.remove(t, app))
	require.Empty(t, b.records(t), "the history goes with the release")
}

func TestFailedFirstRevisionIsUpgraded_B60(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	cdtest.Ready(t, b.ensure(t, app))
	b.rewrite(t, func(r *release.Release) { r.SetStatus(common.StatusFailed, "") })
	cdtest.Ready(t, b.ensure(t, app))
	require.Equal(t, 2, b.records(t)[len(b.records(t))-1].Version)
}

func TestReleaseDeletedByHandIsInstalled_B23(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	cdtest.Ready(t, b.ensure(t, app))
	require.NoError(t, b.at.purge(t.Context(), b.tenant.Namespace, "app"))
	cdtest.Ready(t, b.ensure(t, app))
	require.Len(t, b.records(t), 1)
}

func TestRemoveWithoutRecordsVerifiesInventory_B34(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	cdtest.Ready(t, b.ensure(t, app))
	require.NoError(t, b.at.purge(t.Context(), b.tenant.Namespace, "app"))
	require.ErrorIs(t, b.remove(t, app)(), provisioner.ErrYield, "no release is no proof")
	cdtest.Ready(t, b.remove(t, app))
	require.Nil(t, b.tenant.Settings(t), "what Helm forgot is deleted by the inventory")
}

func TestCancelledReconcileMakesOneRevision_B57(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	for range 20 {
		require.ErrorIs(t, b.ensure(t, app)(), provisioner.ErrYield)
		if _, busy := b.driver.runner.running(releaseKey{scope: "home", namespace: b.tenant.Namespace, name: "app"}); !busy {
			break
		}
	}
	cdtest.Ready(t, b.ensure(t, app))
	require.Len(t, b.records(t), 1)
}

func TestUnreadableRecord(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	cdtest.Ready(t, b.ensure(t, app))
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: b.tenant.Namespace, Name: "sh.helm.release.v1.app.v1"}
	require.NoError(t, b.Admin.Get(t.Context(), key, secret))
	secret.Data["release"] = []byte("not a release")
	require.NoError(t, b.Admin.Update(t.Context(), secret))
	for _, step := range []func() error{b.ensure(t, app), b.remove(t, app)} {
		outcome := provisioner.OutcomeOf(step())
		require.Equal(t, abi.UserActionRequired, outcome.Class)
		require.Equal(t, abi.ReasonApplicationFailed, outcome.Headline.Reason)
	}
}

func TestFieldConflict_B50(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	cdtest.Ready(t, b.ensure(t, app))
	other := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: b.tenant.Namespace, Name: "app-settings"},
		Data:       map[string]string{"greeting": "from another controller"},
	}
	require.NoError(t, b.Admin.Patch(t.Context(), other, client.Apply, client.ForceOwnership, client.FieldOwner("other")))
	app.Values = map[string]any{"greeting": "ours"}
	outcome := cdtest.Settle(t, b.ensure(t, app))
	require.Equal(t, abi.UserActionRequired, outcome.Class)
	require.Equal(t, abi.ReasonFieldConflict, outcome.Headline.Reason)
	require.Contains(t, outcome.Headline.Why, "other", "names the manager")
	require.Contains(t, outcome.Headline.Why, "greeting", "names the field")
	require.Equal(t, "from another controller", b.tenant.Settings(t)["greeting"], "nothing is forced")
	require.Equal(t, common.StatusFailed, b.status(t)[1])
	app.Values = map[string]any{"greeting": "from another controller"}
	cdtest.Ready(t, b.ensure(t, app))
}

func TestHistoryIsBounded(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	for _, greeting := range []string{"1", "2", "3", "4", "5", "6", "7"} {
		app.Values = map[string]any{"greeting": greeting}
		cdtest.Ready(t, b.ensure(t, app))
	}
	records := b.records(t)
	require.LessOrEqual(t, len(records), maxHistory)
	require.Equal(t, 7, records[len(records)-1].Version)
}

func TestRecordsHoldNullAndNumbersAsGiven(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	app.Values = map[string]any{"optional": nil, "n": 3}
	cdtest.Ready(t, b.ensure(t, app))
	secret := &corev1.Secret{}
	require.NoError(t, b.Admin.Get(t.Context(), client.ObjectKey{Namespace: b.tenant.Namespace, Name: "sh.helm.release.v1.app.v1"}, secret))
	zipped, err := base64.StdEncoding.DecodeString(string(secret.Data["release"]))
	require.NoError(t, err)
	reader, err := gzip.NewReader(bytes.NewReader(zipped))
	require.NoError(t, err)
	raw, err := io.ReadAll(reader)
	require.NoError(t, err)
	var stored struct {
		Config map[string]any `json:"config"`
	}
	require.NoError(t, json.Unmarshal(raw, &stored))
	require.Contains(t, stored.Config, "optional")
	require.Nil(t, stored.Config["optional"])
	for key, value := range secret.Labels {
		require.LessOrEqual(t, len(value), 63, key)
	}
}
