package helm

import (
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/release/common"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd/cdtest"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// weather decides what becomes of a tenant's requests.
type weather struct {
	mu    sync.Mutex
	fault func(*http.Request) (*http.Response, error)
}

func (w *weather) set(fault func(*http.Request) (*http.Response, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = fault
}

type throughWeather struct {
	*weather
	next http.RoundTripper
}

func (w throughWeather) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	fault := w.fault
	w.mu.Unlock()
	if fault != nil {
		if response, err := fault(r); response != nil || err != nil {
			return response, err
		}
	}
	return w.next.RoundTrip(r)
}

// under is the tenant's home in some weather.
func (b *bench) under(w *weather) scope.Scope {
	config := b.tenant.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return throughWeather{w, next} })
	return scope.NewHome(b.tenant.Owner(), config, b.tenant.Client())
}

func serverError(code int, r *http.Request) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Request: r, Header: http.Header{"Content-Type": {"text/plain"}},
		Body: io.NopCloser(strings.NewReader("a bad day")),
	}
}

// TestUninstallThatSkipsWhatItCannotSee is the case in which Helm succeeds without
// having deleted anything: it skips objects whose owner it cannot read.
func TestUninstallThatSkipsWhatItCannotSee(t *testing.T) {
	b := newBench(t)
	w := &weather{}
	home := b.under(w)
	app := b.tenant.Application()
	cdtest.Ready(t, func() error { return b.driver.Ensure(t.Context(), home, app) })
	w.set(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/configmaps/") {
			return serverError(http.StatusInternalServerError, r), nil
		}
		return nil, nil
	})
	remove := func() error { return b.driver.Remove(t.Context(), home, app.ID) }
	cdtest.Until(t, remove, func(o provisioner.Outcome) bool {
		require.False(t, o.OK(), "a success that proves nothing is no success")
		return o.Class == abi.Retry
	})
	require.Equal(t, []common.Status{common.StatusUninstalled}, b.status(t), "Helm thinks that it is done")
	require.NotNil(t, b.tenant.Settings(t))
	w.set(nil)
	cdtest.Ready(t, remove)
	require.Nil(t, b.tenant.Settings(t))
	require.Empty(t, b.records(t))
}

func TestOutageDuringInstall(t *testing.T) {
	b := newBench(t)
	w := &weather{}
	home := b.under(w)
	app := b.tenant.Application()
	ensure := func() error { return b.driver.Ensure(t.Context(), home, app) }
	w.set(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPatch {
			return nil, errors.New("connection reset by peer")
		}
		return nil, nil
	})
	outcome := cdtest.UntilReason(t, ensure, abi.ReasonRemoteUnreachable)
	require.Equal(t, abi.Yield, outcome.Class)
	w.set(nil)
	cdtest.Ready(t, ensure)
	require.Equal(t, "hello", b.tenant.Settings(t)["greeting"])
}

// TestUpgradeThatCannotMarkTheOldRevision is the case in which Helm logs that a record
// could not be written, and goes on: two revisions count as deployed.
func TestUpgradeThatCannotMarkTheOldRevision(t *testing.T) {
	b := newBench(t)
	w := &weather{}
	home := b.under(w)
	app := b.tenant.Application()
	ensure := func() error { return b.driver.Ensure(t.Context(), home, app) }
	cdtest.Ready(t, ensure)
	var mu sync.Mutex
	failures := 0
	w.set(func(r *http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		// The second one is that of the repair.
		if failures < 2 && r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, ".v1") {
			failures++
			return serverError(http.StatusInternalServerError, r), nil
		}
		return nil, nil
	})
	app.Values = map[string]any{"greeting": "again"}
	cdtest.UntilReason(t, ensure, abi.ReasonRemoteUnreachable)
	require.Equal(t, []common.Status{common.StatusDeployed, common.StatusDeployed}, b.status(t), "this is what Helm leaves")
	cdtest.Ready(t, ensure)
	require.Equal(t, []common.Status{common.StatusSuperseded, common.StatusDeployed}, b.status(t))
	require.Equal(t, "again", b.tenant.Settings(t)["greeting"])
	before := b.Writes()
	cdtest.Ready(t, ensure)
	require.Equal(t, before, b.Writes(), "and that is all there is to do")
}

// TestInstallThatCannotMarkItsRevision is the case in which Helm calls an install a success
// though its revision is still pending. It is ours, and nobody has to wait for its lock.
func TestInstallThatCannotMarkItsRevision(t *testing.T) {
	b := newBench(t)
	w := &weather{}
	home := b.under(w)
	app := b.tenant.Application()
	ensure := func() error { return b.driver.Ensure(t.Context(), home, app) }
	var mu sync.Mutex
	failures := 0
	w.set(func(r *http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		if failures == 0 && r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, ".v1") {
			failures++
			return nil, errors.New("connection reset by peer")
		}
		return nil, nil
	})
	cdtest.UntilReason(t, ensure, abi.ReasonRemoteUnreachable)
	require.Equal(t, []common.Status{common.StatusPendingInstall}, b.status(t), "this is what Helm leaves")
	b.clock.advance(firstPause)
	requireTakenOver(t, ensure)
	require.Equal(t, []common.Status{common.StatusSuperseded, common.StatusDeployed}, b.status(t))
	require.Nil(t, b.recorded(t, app).Action)
}

// requireTakenOver makes an application ready, which must not wait for a lock to time out.
func requireTakenOver(t *testing.T, ensure func() error) {
	t.Helper()
	cdtest.Until(t, ensure, func(o provisioner.Outcome) bool {
		require.NotEqual(t, abi.ReasonApplicationLocked, o.Headline.Reason, o.Headline.Why)
		return o.OK()
	})
}

// TestFormerLeaderBeginsLate: a process that does not know yet that it leads no more begins
// an action after the next one has read the inventory, and dies. What it began is ours.
func TestFormerLeaderBeginsLate(t *testing.T) {
	storesRevision := func() func(*http.Request) bool {
		return func(r *http.Request) bool {
			return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/secrets") && !strings.Contains(r.URL.Path, "/caisson-")
		}
	}
	t.Run("Ensure", func(t *testing.T) {
		b := newBench(t)
		app := b.tenant.Application()
		cdtest.Ready(t, b.ensure(t, app))
		app.Values = map[string]any{"greeting": "again"}
		b.killedWith(t, app, storesRevision())
		require.Equal(t, []common.Status{common.StatusDeployed, common.StatusPendingUpgrade}, b.status(t))
		requireTakenOver(t, b.ensure(t, app))
		require.Equal(t, "again", b.tenant.Settings(t)["greeting"])
	})
	t.Run("Remove", func(t *testing.T) {
		b := newBench(t)
		app := b.tenant.Application()
		cdtest.Ready(t, b.ensure(t, app))
		app.Values = map[string]any{"greeting": "again"}
		b.killedWith(t, app, storesRevision())
		requireTakenOver(t, func() error { return b.driver.Remove(t.Context(), b.tenant.Scope(), app.ID) })
		require.Empty(t, b.records(t))
	})
}

func TestOutageThatLasts(t *testing.T) {
	b := newBench(t)
	w := &weather{}
	home := b.under(w)
	app := b.tenant.Application()
	w.set(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPatch {
			return nil, errors.New("connection reset by peer")
		}
		return nil, nil
	})
	ensure := func() error { return b.driver.Ensure(t.Context(), home, app) }
	cdtest.UntilReason(t, ensure, abi.ReasonRemoteUnreachable)
	b.clock.advance(11 * time.Minute)
	outcome := cdtest.Settle(t, ensure)
	require.Equal(t, abi.UserActionRequired, outcome.Class, "every yield has a deadline")
	require.Equal(t, abi.ReasonRemoteUnreachable, outcome.Headline.Reason)
	require.Contains(t, outcome.Headline.Why, "connection reset", "with the last message")
}

func TestDiscardOfAnUnreachableCluster(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	cdtest.Ready(t, b.ensure(t, app))
	unreachable := scope.NewHome(b.tenant.Owner(), &rest.Config{Host: "https://127.0.0.1:1"}, nil)
	discard := func() error {
		return b.driver.Remove(t.Context(), unreachable.WithTeardown(abi.Discard), app.ID)
	}
	require.Equal(t, abi.Retry, provisioner.OutcomeOf(discard()).Class, "not reachable is not gone")
	b.clock.advance(16 * time.Minute)
	drain := func() error { return b.driver.Remove(t.Context(), unreachable, app.ID) }
	require.Equal(t, abi.Retry, provisioner.OutcomeOf(drain()).Class, "what has to be drained never is, however long it takes")
	require.NoError(t, discard(), "what goes anyway is given up after a while")
	listed, err := b.driver.List(t.Context(), b.tenant.Owner())
	require.NoError(t, err)
	require.Empty(t, listed)
}

func TestDiscardThatFailsIsGivenUp(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	cdtest.Ready(t, b.ensure(t, app))
	w := &weather{}
	w.set(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/configmaps/") {
			return serverError(http.StatusServiceUnavailable, r), nil
		}
		return nil, nil
	})
	going := b.under(w).WithTeardown(abi.Discard)
	cdtest.Poll(t, func() (bool, string) {
		require.NoError(t, b.driver.Remove(t.Context(), going, app.ID))
		b.clock.advance(time.Minute)
		listed, err := b.driver.List(t.Context(), b.tenant.Owner())
		require.NoError(t, err)
		return len(listed) == 0, "still listed"
	})
}

func TestFailingUninstallKeepsItsRecord_B61(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	cdtest.Ready(t, b.ensure(t, app))
	w := &weather{}
	home := b.under(w)
	w.set(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/configmaps/") {
			return serverError(http.StatusServiceUnavailable, r), nil
		}
		return nil, nil
	})
	remove := func() error { return b.driver.Remove(t.Context(), home, app.ID) }
	outcome := cdtest.UntilReason(t, remove, abi.ReasonRemoteUnreachable)
	require.Equal(t, abi.Yield, outcome.Class)
	require.Positive(t, outcome.RetryAfter)
	require.Equal(t, []common.Status{common.StatusUninstalling}, b.status(t))
	w.set(nil)
	cdtest.Ready(t, remove)
	require.Nil(t, b.tenant.Settings(t))
}

func TestRemovalThatIsForbidden(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	cdtest.Ready(t, b.ensure(t, app))
	role := &rbacv1.Role{}
	require.NoError(t, b.Admin.Get(t.Context(), client.ObjectKey{Namespace: b.tenant.Namespace, Name: "tenant"}, role))
	all := role.DeepCopy()
	role.Rules = []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"*"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}},
	}
	require.NoError(t, b.Admin.Update(t.Context(), role))
	outcome := cdtest.UntilReason(t, b.remove(t, app), abi.ReasonForbidden)
	require.Equal(t, abi.UserActionRequired, outcome.Class, "the cause that Helm only logs is found: %s", outcome.Headline.Why)
	require.NotNil(t, b.tenant.Settings(t))
	all.ResourceVersion = role.ResourceVersion
	require.NoError(t, b.Admin.Update(t.Context(), all))
	cdtest.Ready(t, b.remove(t, app))
	require.Nil(t, b.tenant.Settings(t))
}

func TestReleaseTooLarge_B56(t *testing.T) {
	b := newBench(t)
	source := rand.NewChaCha8([32]byte{1})
	junk := make([]byte, 2<<20)
	_, _ = source.Read(junk) // It never fails, and does not compress.
	c := cdtest.DemoChart("1.0.0")
	c.Name = "large"
	c.Files["files/junk"] = string(junk)
	b.Repository.Publish(t, c)
	app := b.tenant.Application()
	app.Chart = "large"
	outcome := cdtest.Settle(t, b.ensure(t, app))
	require.Equal(t, abi.Terminal, outcome.Class, "%+v", outcome)
	require.Equal(t, abi.ReasonReleaseTooLarge, outcome.Headline.Reason)
	require.LessOrEqual(t, len(outcome.Headline.Why), maxWhy+256, "and the why does not quote it")
	require.Nil(t, b.tenant.Settings(t), "nothing was applied")
}

func TestImmutableField(t *testing.T) {
	b := newBench(t)
	immutable := func(version, ip string) {
		c := cdtest.DemoChart(version)
		c.Name = "fixed"
		c.Files["templates/fixed.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fixed}\nimmutable: true\ndata: {ip: \"" + ip + "\"}\n"
		b.Repository.Publish(t, c)
	}
	immutable("1.0.0", "1")
	immutable("2.0.0", "2")
	app := b.tenant.Application()
	app.Chart = "fixed"
	cdtest.Ready(t, b.ensure(t, app))
	app.Version = "2.0.0"
	outcome := cdtest.Settle(t, b.ensure(t, app))
	require.Equal(t, abi.Terminal, outcome.Class, "%+v", outcome)
	require.Equal(t, abi.ReasonRenderFailed, outcome.Headline.Reason)
	app.Version = "1.0.0"
	cdtest.Ready(t, b.ensure(t, app))
}

// TestFieldsAreCheckedByTheServer: what a chart misspells is refused, by each request that
// writes, on an install and on an upgrade.
func TestFieldsAreCheckedByTheServer(t *testing.T) {
	b := newBench(t)
	publish := func(version, field string) {
		c := cdtest.DemoChart(version)
		c.Name = "misspelt"
		c.Files["templates/misspelt.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: misspelt}\n" + field + ": {ip: \"1\"}\n"
		b.Repository.Publish(t, c)
	}
	publish("1.0.0", "dada")
	publish("2.0.0", "data")
	publish("3.0.0", "dada")
	app := b.tenant.Application()
	app.Chart = "misspelt"
	for _, version := range []string{"1.0.0", "2.0.0", "3.0.0"} {
		app.Version = version
		outcome := cdtest.Settle(t, b.ensure(t, app))
		if version == "2.0.0" {
			require.Equal(t, abi.OK, outcome.Class, "%+v", outcome)
			continue
		}
		require.Equal(t, abi.Terminal, outcome.Class, "%+v", outcome)
		require.Equal(t, abi.ReasonRenderFailed, outcome.Headline.Reason)
		require.Contains(t, outcome.Headline.Why, "dada", "names the field")
	}
}

func TestUpgradeThatDropsObjects(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	app.Values = map[string]any{"workload": true}
	cdtest.Ready(t, b.ensure(t, app))
	key := entryKey(scope.HomeID, app.ID.Path)
	e, err := b.driver.inventory.get(t.Context(), app.ID.Owner.UID, key)
	require.NoError(t, err)
	require.Len(t, e.Objects, 2)
	app.Values = map[string]any{"workload": false}
	cdtest.Ready(t, b.ensure(t, app))
	e, err = b.driver.inventory.get(t.Context(), app.ID.Owner.UID, key)
	require.NoError(t, err)
	require.Equal(t, []object{{Version: "v1", Kind: "ConfigMap", Name: "app-settings"}}, e.Objects, "the inventory holds what is deployed")
}

// TestUpgradeThatCannotLookAtWhatItDrops: Helm passes over an object that it cannot read
// while it upgrades, and calls that a success. It is deleted all the same, as soon as
// somebody may look at it, unless it is to be kept.
func TestUpgradeThatCannotLookAtWhatItDrops(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		kept   bool
	}{
		"Dropped": {reason: "it is nobody's"},
		"Kept":    {reason: "somebody wants it to stay", kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			w := &weather{}
			app := b.tenant.Application()
			app.Values = map[string]any{"workload": true}
			cdtest.Ready(t, b.ensure(t, app))
			workload := &appsv1.Deployment{}
			key := client.ObjectKey{Namespace: app.Namespace, Name: "app-workload"}
			require.NoError(t, b.Admin.Get(t.Context(), key, workload))
			if c.kept {
				workload.Annotations["helm.sh/resource-policy"] = "keep"
				require.NoError(t, b.Admin.Update(t.Context(), workload))
			}
			w.set(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/deployments/app-workload") {
					return serverError(http.StatusInternalServerError, r), nil
				}
				return nil, nil
			})
			app.Values = map[string]any{"workload": false}
			ensure := func() error { return b.driver.Ensure(t.Context(), b.under(w), app) }
			outcome := cdtest.UntilReason(t, ensure, abi.ReasonRemoteUnreachable)
			require.Equal(t, abi.Retry, outcome.Class, "it may be there: %+v", outcome)
			w.set(nil)
			cdtest.Ready(t, ensure)
			require.NoError(t, ensure())
			e, err := b.driver.inventory.get(t.Context(), app.ID.Owner.UID, entryKey(scope.HomeID, app.ID.Path))
			require.NoError(t, err)
			require.Len(t, e.Objects, 1, "the inventory holds what is deployed")
			err = b.Admin.Get(t.Context(), key, workload)
			require.NoError(t, client.IgnoreNotFound(err))
			require.Equal(t, c.kept, err == nil, c.reason)
		})
	}
}

func TestLostInventoryIsWrittenAgain(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	cdtest.Ready(t, b.ensure(t, app))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: inventoryName(app.ID.Owner.UID)}}
	require.NoError(t, b.Admin.Delete(t.Context(), secret))
	b.clock.advance(snapshotAge)
	require.NoError(t, b.ensure(t, app)())
	e, err := b.driver.inventory.get(t.Context(), app.ID.Owner.UID, entryKey(scope.HomeID, app.ID.Path))
	require.NoError(t, err)
	require.Len(t, e.Objects, 1)
	require.Equal(t, []string{"ConfigMap/app-kept"}, e.Retained)
}

func TestServerThatNeverAnswersKeepsNoReconcile(t *testing.T) {
	b := newBench(t)
	b.driver = newDriver(t, b.Operator, b.Namespace, func(o *Options) { o.Timeouts.Request = 200 * time.Millisecond })
	w := &weather{}
	w.set(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	outcome := provisioner.OutcomeOf(b.driver.Ensure(t.Context(), b.under(w), b.tenant.Application()))
	require.Equal(t, abi.Retry, outcome.Class)
	require.Equal(t, abi.ReasonRemoteUnreachable, outcome.Headline.Reason)
}
