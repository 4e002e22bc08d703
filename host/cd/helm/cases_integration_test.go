package helm

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/release/common"
	release "helm.sh/helm/v4/pkg/release/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/cd/cdtest"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// TestCase081ReadyIsThisRevision: Synced and Healthy for what is compared to is a release
// that is deployed with the labels of what is asked for, and whose objects are current.
func TestCase081ReadyIsThisRevision(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	cdtest.Ready(t, b.ensure(t, app))
	want, err := identify(app)
	require.NoError(t, err)
	records := b.records(t)
	require.Equal(t, common.StatusDeployed, records[len(records)-1].Info.Status)
	require.True(t, want.describes(records[len(records)-1].Labels))

	// Case 82: from the first call with another version on, OK means that one.
	app.Version = "2.0.0"
	want, err = identify(app)
	require.NoError(t, err)
	first := provisioner.OutcomeOf(b.ensure(t, app)())
	require.Equal(t, abi.Yield, first.Class)
	require.Equal(t, abi.ReasonApplicationUpgrading, first.Headline.Reason)
	cdtest.Ready(t, b.ensure(t, app))
	records = b.records(t)
	require.True(t, want.describes(records[len(records)-1].Labels))
	require.Equal(t, "2.0.0", b.tenant.Settings(t)["version"])
}

// TestCase086UnchangedWritesNothing makes the application anew for each of 200 passes, as
// a tree does, with several parameters and with maps in whatever order they come.
func TestCase086UnchangedWritesNothing(t *testing.T) {
	b := newBench(t)
	composed := func() *cd.Application {
		app := b.tenant.Application()
		app.Values = map[string]any{"greeting": "moin", "nested": map[string]any{"inner": "x", "other": 1}}
		for i := range 8 {
			app.Values["k"+strconv.Itoa(i)] = i
		}
		app.Parameters = []cd.Parameter{{Name: "d", Value: "4"}, {Name: "c", Value: "3"}, {Name: "b", Value: "2"}, {Name: "greeting", Value: "1"}}
		return app
	}
	cdtest.Ready(t, b.ensure(t, composed()))
	require.NoError(t, b.ensure(t, composed())())
	before := b.Writes()
	for range 200 {
		require.NoError(t, b.ensure(t, composed())())
	}
	require.Equal(t, before, b.Writes())
	require.Equal(t, "1", b.tenant.Settings(t)["greeting"], "the parameter wins")
	other := composed()
	other.Parameters[0], other.Parameters[1] = other.Parameters[1], other.Parameters[0]
	require.ErrorIs(t, b.ensure(t, other)(), provisioner.ErrYield, "the order of parameters is part of what is asked for")
}

// TestCase093TwoOwners: owners of one name, with the same labels, are told apart by their
// UID, so what they derive is distinct and lives side by side.
func TestCase093TwoOwners(t *testing.T) {
	b := newBench(t)
	first, second := b.tenant.Application(), b.tenant.Application()
	second.ID.Owner.UID += "-again"
	for _, app := range []*cd.Application{first, second} {
		name, err := cd.ReleaseName("", app.ID)
		require.NoError(t, err)
		app.Release = name
	}
	require.NotEqual(t, first.Release, second.Release)
	for _, app := range []*cd.Application{first, second} {
		cdtest.Ready(t, b.ensure(t, app))
	}
	cdtest.Ready(t, b.remove(t, first))
	require.NoError(t, b.ensure(t, second)(), "the removal of one is none of the other's business")
	listed, err := b.driver.List(t.Context(), second.ID.Owner)
	require.NoError(t, err)
	require.Len(t, listed, 1)
	listed, err = b.driver.List(t.Context(), first.ID.Owner)
	require.NoError(t, err)
	require.Empty(t, listed)
}

// TestCase094NobodyAdopts: a release is somebody's by the hash of owner and path, and not
// by a set of labels that includes another's.
func TestCase094NobodyAdopts(t *testing.T) {
	b := newBench(t)
	narrow := b.tenant.Application()
	cdtest.Ready(t, b.ensure(t, narrow))
	b.rewrite(t, func(r *release.Release) { r.Labels["team"] = "a" })
	require.NoError(t, b.ensure(t, narrow)(), "more labels than ours are still ours")
	broad := b.tenant.Application()
	broad.ID.Path, broad.Values = "all", map[string]any{"greeting": "hijacked"}
	outcome := provisioner.OutcomeOf(b.ensure(t, broad)())
	require.Equal(t, abi.UserActionRequired, outcome.Class)
	require.Equal(t, abi.ReasonApplicationOwned, outcome.Headline.Reason)
	b.rewrite(t, func(r *release.Release) { delete(r.Labels, labelOwner) })
	for _, app := range []*cd.Application{narrow, broad} {
		outcome = provisioner.OutcomeOf(b.ensure(t, app)())
		require.Equal(t, abi.ReasonApplicationOwned, outcome.Headline.Reason, "fewer labels are nobody's, and not adopted either")
	}
	require.Len(t, b.records(t), 1)
	require.Equal(t, "hello", b.tenant.Settings(t)["greeting"])
}

// staleReads answers reads of Secrets as a cache that lags behind would: as if what was
// just made were not there yet.
type staleReads struct {
	client.Client

	left atomic.Int64
}

func (s *staleReads) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, ok := o.(*corev1.Secret); ok && s.left.Add(-1) >= 0 {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
	}
	return s.Client.Get(ctx, key, o, opts...)
}

// TestCase095StaleSecondPass: the second pass, at once and by a process that does not see
// what the first one recorded, makes no twin.
func TestCase095StaleSecondPass(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()
	require.ErrorIs(t, b.ensure(t, app)(), provisioner.ErrYield)
	require.ErrorIs(t, b.ensure(t, app)(), provisioner.ErrYield, "at once")
	stale := &staleReads{Client: b.Operator}
	stale.left.Store(3)
	other := newDriver(t, stale, b.Namespace, func(o *Options) { o.Now = b.clock.now })
	second := provisioner.OutcomeOf(other.Ensure(t.Context(), b.tenant.Scope(), app))
	require.NotEqual(t, abi.Terminal, second.Class)
	cdtest.Ready(t, b.ensure(t, app))
	cdtest.Ready(t, func() error { return other.Ensure(t.Context(), b.tenant.Scope(), app) })
	deployed := 0
	for _, s := range b.status(t) {
		if s == common.StatusDeployed {
			deployed++
		}
	}
	require.Equal(t, 1, deployed)
	entries, err := newInventory(b.Admin, b.Namespace, b.clock.now).list(t.Context(), app.ID.Owner.UID)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	var secrets corev1.SecretList
	require.NoError(t, b.Admin.List(t.Context(), &secrets, client.InNamespace(b.tenant.Namespace), client.MatchingLabels{"owner": "helm"}))
	names := map[string]bool{}
	for _, s := range secrets.Items {
		names[s.Labels["name"]] = true
	}
	require.Len(t, names, 1, "one release, whatever its revisions")
}

// TestCase096Removal follows a removal from what was never there to what is gone. That
// automated synchronisation must be off first has no counterpart: nothing applies on its
// own here.
func TestCase096Removal(t *testing.T) {
	b := newBench(t)
	app := b.tenant.Application()

	writes := b.Writes()
	require.NoError(t, b.remove(t, app)(), "absent is gone")
	require.Equal(t, writes, b.Writes())

	cdtest.Ready(t, b.ensure(t, app))
	let := b.tenant.Hold(t)
	first := provisioner.OutcomeOf(b.remove(t, app)())
	require.Equal(t, abi.Yield, first.Class, "present is deleted, and waited for")
	require.Equal(t, abi.ReasonApplicationDeleting, first.Headline.Reason)
	key := client.ObjectKey{Namespace: b.tenant.Namespace, Name: "app-settings"}
	held := &corev1.ConfigMap{}
	cdtest.Until(t, b.remove(t, app), func(o provisioner.Outcome) bool {
		require.False(t, o.OK())
		require.NoError(t, b.Admin.Get(t.Context(), key, held))
		return held.DeletionTimestamp != nil
	})
	for range 3 {
		outcome := provisioner.OutcomeOf(b.remove(t, app)())
		require.Equal(t, abi.Yield, outcome.Class, "deleting is waited for")
		require.Equal(t, abi.ReasonApplicationDeleting, outcome.Headline.Reason)
	}
	require.NoError(t, b.Admin.Get(t.Context(), key, held))
	require.Contains(t, held.Finalizers, "example.com/hold", "the finalizer of somebody else is left alone")
	let()
	cdtest.Ready(t, b.remove(t, app))
	require.Nil(t, b.tenant.Settings(t))
	require.NoError(t, b.remove(t, app)(), "gone is gone")
}

// TestCase049NeverInstalled: a condition that is false from the start removes what never
// was, which must not cost the tenant's cluster a call: even one that nobody can reach.
func TestCase049NeverInstalled(t *testing.T) {
	b := newBench(t)
	writes := b.Writes()
	id := b.tenant.Application().ID
	nowhere := scope.NewHome(b.tenant.Owner(), &rest.Config{Host: "https://127.0.0.1:1"}, nil)
	require.NoError(t, b.driver.Remove(t.Context(), nowhere, id), "the cluster is not asked")
	requests := b.Requests()
	for range 3 {
		require.NoError(t, b.driver.Remove(t.Context(), nowhere, id))
	}
	require.Equal(t, requests, b.Requests(), "and the inventory once")
	require.Equal(t, writes, b.Writes(), "nothing is deleted")
}
