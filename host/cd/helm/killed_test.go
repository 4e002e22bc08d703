package helm

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/release/common"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/cd/cdtest"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// restart makes the bench's driver that of a new process.
func (b *bench) restart(t *testing.T) {
	t.Helper()
	b.driver = newDriver(t, b.Operator, b.Namespace, func(o *Options) { o.Now = b.clock.now })
}

// killedWith ensures an application in a process of its own until that is dead.
func (b *bench) killedWith(t *testing.T, app *cd.Application, fate func(*http.Request) bool) {
	t.Helper()
	process := b.NewProcess(t, fate)
	d := newDriver(t, process.Operator, b.Namespace, func(o *Options) { o.Timeouts.Action = 5 * time.Second })
	home := process.Scope(t, b.tenant)
	cdtest.Until(t, func() error { return d.Ensure(t.Context(), home, app) }, func(provisioner.Outcome) bool { return process.Dead() })
}

// recorded is what the inventory has of the application.
func (b *bench) recorded(t *testing.T, app *cd.Application) *entry {
	t.Helper()
	e, err := newInventory(b.Admin, b.Namespace, time.Now).get(t.Context(), app.ID.Owner.UID, entryKey(scope.HomeID, app.ID.Path))
	require.NoError(t, err)
	return e
}

// waitingForHook is the fate of a process that is killed while a hook's Job runs.
func waitingForHook() func(*http.Request) bool {
	began := false
	return func(r *http.Request) bool {
		job := strings.Contains(r.URL.Path, "/jobs")
		if job && (r.Method == http.MethodPatch || r.Method == http.MethodPost) {
			began = true
			return false
		}
		return began && job && r.Method == http.MethodGet
	}
}

func hookedChart(version string) cdtest.Chart {
	c := cdtest.DemoChart(version)
	c.Name = "slow"
	c.Files["templates/hook.yaml"] = `apiVersion: batch/v1
kind: Job
metadata: {name: migrate, annotations: {"helm.sh/hook": "pre-install,pre-upgrade"}}
spec:
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: example.invalid/c:1}]}}
`
	return c
}

func TestKilledInAHook_B14(t *testing.T) {
	b := newBench(t)
	b.Repository.Publish(t, hookedChart("1.0.0"))
	b.Repository.Publish(t, hookedChart("2.0.0"))
	app := b.tenant.Application()
	app.Chart = "slow"

	b.killedWith(t, app, waitingForHook())
	require.Equal(t, []common.Status{common.StatusPendingInstall}, b.status(t))
	require.Equal(t, 1, b.recorded(t, app).Action.Revision)
	require.Equal(t, stepInstall, b.recorded(t, app).Action.Step)
	b.restart(t)
	started := time.Now()
	cdtest.Ready(t, b.ensure(t, app))
	t.Logf("install: ready %s after the restart", time.Since(started).Round(time.Millisecond))
	require.Equal(t, []common.Status{common.StatusSuperseded, common.StatusDeployed}, b.status(t))
	require.Nil(t, b.recorded(t, app).Action)

	app.Version = "2.0.0"
	b.killedWith(t, app, waitingForHook())
	require.Equal(t, common.StatusPendingUpgrade, b.status(t)[2])
	require.Equal(t, 3, b.recorded(t, app).Action.Revision)
	b.restart(t)
	started = time.Now()
	cdtest.Ready(t, b.ensure(t, app))
	t.Logf("upgrade: ready %s after the restart", time.Since(started).Round(time.Millisecond))
	require.Equal(t, []common.Status{common.StatusSuperseded, common.StatusSuperseded, common.StatusFailed, common.StatusDeployed}, b.status(t))
	require.Equal(t, "2.0.0", b.tenant.Settings(t)["version"])
	before := b.Writes()
	require.NoError(t, b.ensure(t, app)())
	require.Equal(t, before, b.Writes())
}

// TestClosedInAHook is a process that is told to end and does not get the time to: Helm
// sees its context end, but what it wants to write then does not get through.
func TestClosedInAHook(t *testing.T) {
	b := newBench(t)
	b.Repository.Publish(t, hookedChart("1.0.0"))
	app := b.tenant.Application()
	app.Chart = "slow"
	var waiting atomic.Bool
	seen := waitingForHook()
	process := b.NewProcess(t, func(r *http.Request) bool {
		if seen(r) {
			waiting.Store(true)
		}
		return false
	})
	closing, err := New(Options{
		Namespace: b.Namespace, Client: process.Operator, CacheDir: t.TempDir(), Timeouts: Timeouts{Action: 5 * time.Second},
	})
	require.NoError(t, err)
	home := process.Scope(t, b.tenant)
	cdtest.Until(t, func() error { return closing.Ensure(t.Context(), home, app) }, func(provisioner.Outcome) bool { return waiting.Load() })
	hurried, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, closing.Close(hurried))
	process.Kill()
	b.restart(t)
	cdtest.Ready(t, b.ensure(t, app))
	require.Equal(t, common.StatusDeployed, b.status(t)[len(b.status(t))-1])
	require.Nil(t, b.recorded(t, app).Action)
}

// TestKilledBeforeTheRecordIsCleared leaves a release that is as desired beside an
// action that seems to be open.
func TestKilledBeforeTheRecordIsCleared(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	b.killedWith(t, app, func(r *http.Request) bool {
		return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "sh.helm.release.v1.app.v1")
	})
	require.Equal(t, []common.Status{common.StatusDeployed}, b.status(t))
	require.NotNil(t, b.recorded(t, app).Action)
	b.restart(t)
	before := b.Writes()
	require.NoError(t, b.ensure(t, app)())
	require.Equal(t, before+1, b.Writes(), "one write mends the record")
	require.Nil(t, b.recorded(t, app).Action)
	require.NoError(t, b.ensure(t, app)())
	require.Equal(t, before+1, b.Writes())
	require.Len(t, b.records(t), 1)
}

// TestPersonsLockIsNotTakenOff is a process that died after it had recorded what it was
// about to do, and before Helm did it. Then a person's helm, which carries our labels
// over, makes a revision of the same number.
func TestPersonsLockIsNotTakenOff(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	cdtest.Ready(t, b.ensure(t, app))
	app.Version = "2.0.0"
	b.killedWith(t, app, cdtest.KilledAtWrite(1))
	require.Len(t, b.records(t), 1)
	require.Equal(t, 2, b.recorded(t, app).Action.Revision)

	persons := *b.records(t)[0]
	info := *persons.Info
	info.LastDeployed, info.Status = time.Now(), common.StatusPendingUpgrade
	persons.Version, persons.Info = 2, &info
	require.NoError(t, storage.Init(b.at.records(t.Context(), b.tenant.Namespace)).Create(&persons))
	b.restart(t)
	before := b.Writes()
	for _, step := range []func() error{b.ensure(t, app), b.remove(t, app)} {
		outcome := provisioner.OutcomeOf(step())
		require.Equal(t, abi.Yield, outcome.Class)
		require.Equal(t, abi.ReasonApplicationLocked, outcome.Headline.Reason)
	}
	require.Equal(t, before, b.Writes())

	b.rewrite(t, func(r *release.Release) { r.SetStatus(common.StatusDeployed, "the person is done") })
	cdtest.Ready(t, b.ensure(t, app))
	require.Equal(t, 3, b.records(t)[2].Version)
	require.Equal(t, "2.0.0", b.tenant.Settings(t)["version"])
}

// TestKilledWithADifferentWish has the spec edited while nobody is there.
func TestKilledWithADifferentWish(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	cdtest.Ready(t, b.ensure(t, app))
	app.Version = "2.0.0"
	b.killedWith(t, app, cdtest.KilledAtWrite(2))
	require.Equal(t, common.StatusPendingUpgrade, b.status(t)[1])
	app.Version = "1.0.0"
	b.restart(t)
	cdtest.Ready(t, b.ensure(t, app))
	require.Equal(t, []common.Status{common.StatusSuperseded, common.StatusFailed, common.StatusDeployed}, b.status(t))
	require.Equal(t, "1.0.0", b.tenant.Settings(t)["version"])
}

// stopped is a driver whose clock stands still a minute ahead, so that no pause ends by
// itself, and what fails does so after Helm made its revision.
func (b *bench) stopped(t *testing.T) *shiftedClock {
	t.Helper()
	stop := time.Now().Add(time.Minute)
	clock := &shiftedClock{}
	b.driver = newDriver(t, b.Operator, b.Namespace, func(o *Options) {
		o.Now = func() time.Time {
			clock.mu.Lock()
			defer clock.mu.Unlock()
			return stop.Add(clock.shift)
		}
	})
	return clock
}

// TestOutageThatLeavesALock is an action that fails so thoroughly that Helm cannot even
// say so: what it locked is ours to unlock, after the pause that every failure brings.
func TestOutageThatLeavesALock(t *testing.T) {
	b := newBench(t)
	clock := b.stopped(t)
	w := &weather{}
	home := b.under(w)
	app := b.tenant.Application()
	ensure := func() error { return b.driver.Ensure(t.Context(), home, app) }
	var revisions, unlocks atomic.Int64
	w.set(func(r *http.Request) (*http.Response, error) {
		records := strings.Contains(r.URL.Path, "/secrets")
		switch {
		case records && r.Method == http.MethodPost:
			revisions.Add(1)
		case records && r.Method == http.MethodPut:
			unlocks.Add(1)
			return nil, errors.New("connection reset by peer")
		case r.Method == http.MethodPatch:
			return nil, errors.New("connection reset by peer")
		}
		return nil, nil
	})
	cdtest.UntilReason(t, ensure, abi.ReasonRemoteUnreachable)
	require.Equal(t, []common.Status{common.StatusPendingInstall}, b.status(t))
	tried := unlocks.Load()
	for range 20 {
		require.Equal(t, abi.ReasonRemoteUnreachable, provisioner.OutcomeOf(ensure()).Headline.Reason)
	}
	require.Equal(t, tried, unlocks.Load(), "not tried again and again")
	clock.advance(firstPause)
	require.Equal(t, abi.ReasonApplicationUpgrading, provisioner.OutcomeOf(ensure()).Headline.Reason, "but after the pause")
	cdtest.UntilReason(t, ensure, abi.ReasonRemoteUnreachable)
	require.Equal(t, tried+1, unlocks.Load())
	require.Equal(t, int64(1), revisions.Load())
	w.set(nil)
	clock.advance(2 * firstPause)
	cdtest.Ready(t, ensure)
	require.Equal(t, []common.Status{common.StatusSuperseded, common.StatusDeployed}, b.status(t))
}

// TestRestartsDoNotLoop has processes come and go while an application cannot succeed:
// each learns it by one attempt, and then waits as the first did.
func TestRestartsDoNotLoop(t *testing.T) {
	b := newBench(t)
	w := &weather{}
	w.set(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPatch {
			return nil, errors.New("connection reset by peer")
		}
		return nil, nil
	})
	home := b.under(w)
	app := b.tenant.Application()
	ensure := func() error { return b.driver.Ensure(t.Context(), home, app) }
	for process := 1; process <= 3; process++ {
		b.stopped(t)
		cdtest.UntilReason(t, ensure, abi.ReasonRemoteUnreachable)
		for range 20 {
			outcome := provisioner.OutcomeOf(ensure())
			require.Equal(t, abi.ReasonRemoteUnreachable, outcome.Headline.Reason)
			require.Positive(t, outcome.RetryAfter)
		}
		require.Len(t, b.records(t), process, "one attempt for each process")
	}
	w.set(nil)
	b.restart(t)
	cdtest.Ready(t, ensure)
	require.Equal(t, common.StatusDeployed, b.status(t)[3])
}
