package helm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/cd/cdtest"
)

// moody counts reads, and fails reads and the answers of writes on demand.
type moody struct {
	client.Client
	reads      atomic.Int64
	failReads  atomic.Bool
	loseWrites atomic.Bool
}

var errMood = errors.New("a bad day")

func (m *moody) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	m.reads.Add(1)
	if m.failReads.Load() {
		return errMood
	}
	return m.Client.Get(ctx, key, o, opts...)
}

func (m *moody) lost(err error) error {
	if m.loseWrites.Load() {
		return errMood
	}
	return err
}

func (m *moody) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return m.lost(m.Client.Create(ctx, o, opts...))
}

func (m *moody) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	return m.lost(m.Client.Update(ctx, o, opts...))
}

func newMoody(t *testing.T) (*moody, *inventory, *shiftedClock) {
	t.Helper()
	env := cdtest.NewEnv(t, admin(t))
	m, clock := &moody{Client: env.Operator}, &shiftedClock{}
	return m, newInventory(m, env.Namespace, clock.now), clock
}

func TestInventoryIsReadOnce(t *testing.T) {
	m, i, clock := newMoody(t)
	for range 3 {
		listed, err := i.list(t.Context(), "uid-1")
		require.NoError(t, err)
		require.Empty(t, listed)
	}
	require.Equal(t, int64(1), m.reads.Load(), "that there is nothing is known, too")

	e := sampleEntry("all/a")
	e.Retained = []string{"Namespace/ns"}
	e.Action = newBegun(stepInstall, 1, clock.now())
	require.NoError(t, i.put(t.Context(), e))
	after := m.reads.Load()
	got, err := i.get(t.Context(), "uid-1", e.key())
	require.NoError(t, err)
	require.Equal(t, e, *got, "own writes are seen")
	got.Retained[0], got.Action.Revision = "changed by a caller", 9
	listed, err := i.list(t.Context(), "uid-1")
	require.NoError(t, err)
	require.Equal(t, []entry{e}, listed, "callers get copies")
	require.NoError(t, i.drop(t.Context(), "uid-1", e.key()))
	require.Equal(t, after+1, m.reads.Load(), "only the write has read")
	listed, err = i.list(t.Context(), "uid-1")
	require.NoError(t, err)
	require.Empty(t, listed)
}

func TestInventoryErrorIsNotRemembered(t *testing.T) {
	m, i, _ := newMoody(t)
	e := sampleEntry("all/a")
	m.failReads.Store(true)
	for range 2 {
		_, err := i.list(t.Context(), "uid-1")
		require.ErrorIs(t, err, errMood, "an error never means that there are none")
		_, err = i.get(t.Context(), "uid-1", e.key())
		require.ErrorIs(t, err, errMood)
	}
	require.ErrorIs(t, i.put(t.Context(), e), errMood)
	m.failReads.Store(false)
	listed, err := i.list(t.Context(), "uid-1")
	require.NoError(t, err)
	require.Empty(t, listed)

	m.loseWrites.Store(true)
	require.ErrorIs(t, i.put(t.Context(), e), errMood)
	listed, err = i.list(t.Context(), "uid-1")
	require.NoError(t, err)
	require.Equal(t, []entry{e}, listed, "a write without an answer is looked up")
	e.Version = "2.0.0"
	require.ErrorIs(t, i.put(t.Context(), e), errMood)
	m.failReads.Store(true)
	_, err = i.list(t.Context(), "uid-1")
	require.ErrorIs(t, err, errMood, "what was known before it does not count any more")
	m.failReads.Store(false)
	got, err := i.get(t.Context(), "uid-1", e.key())
	require.NoError(t, err)
	require.Equal(t, "2.0.0", got.Version)
}

func TestListWithoutAnswerIsAnError(t *testing.T) {
	b := newBench(t)
	m := &moody{Client: b.Operator}
	b.driver = newDriver(t, m, b.Namespace, func(o *Options) { o.Now = b.clock.now })
	app := b.tenant.Application()
	cdtest.Ready(t, b.ensure(t, app))
	m.failReads.Store(true)
	listed, err := b.driver.List(t.Context(), b.tenant.Owner())
	require.NoError(t, err, "it is known")
	require.Len(t, listed, 1)
	app.Version = "2.0.0"
	cdtest.UntilReason(t, b.ensure(t, app), "unexpected")
	_, err = b.driver.List(t.Context(), b.tenant.Owner())
	require.ErrorIs(t, err, errMood, "a write failed, and since then nothing is known")
	m.failReads.Store(false)
	b.clock.advance(time.Minute)
	cdtest.Ready(t, b.ensure(t, app))
	listed, err = b.driver.List(t.Context(), b.tenant.Owner())
	require.NoError(t, err)
	require.Equal(t, "2.0.0", listed[0].Version)
}

func TestSnapshotsAge(t *testing.T) {
	m, i, clock := newMoody(t)
	e := sampleEntry("all/a")
	require.NoError(t, i.put(t.Context(), e))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: inventoryName("uid-1")}}
	require.NoError(t, m.Delete(t.Context(), secret))
	listed, err := i.list(t.Context(), "uid-1")
	require.NoError(t, err)
	require.Len(t, listed, 1, "it is believed for a while")
	clock.advance(snapshotAge)
	listed, err = i.list(t.Context(), "uid-1")
	require.NoError(t, err)
	require.Empty(t, listed, "and then looked up")

	s := &snapshots{now: clock.now}
	s.set("gone", holding{})
	clock.advance(snapshotAge)
	s.set("here", holding{})
	require.Len(t, s.known, 1, "owners that are gone are forgotten")
}

// TestSnapshotHammer has many goroutines write entries of few owners and read them: each
// always sees its own last write, and never one that it made before.
func TestSnapshotHammer(t *testing.T) {
	const owners, writers, rounds = 2, 4, 12
	_, i, clock := newMoody(t)
	errs := make([]error, owners*writers)
	var group sync.WaitGroup
	for n := range errs {
		group.Go(func() {
			e := sampleEntry(fmt.Sprint("all/", n))
			e.Owner.UID = fmt.Sprint("uid-", n%owners)
			for round := range rounds {
				e.Version = fmt.Sprint(round)
				errs[n] = errors.Join(errs[n], i.put(t.Context(), e))
				for range 5 {
					got, err := i.get(t.Context(), e.Owner.UID, e.key())
					if err == nil && (got == nil || got.Version != e.Version) {
						err = fmt.Errorf("%s: want %s, have %v", e.Path, e.Version, got)
					}
					errs[n] = errors.Join(errs[n], err)
				}
				if round%5 == n%5 {
					clock.advance(snapshotAge) // Everybody has to read again.
				}
			}
		})
	}
	group.Wait()
	require.NoError(t, errors.Join(errs...))
}
