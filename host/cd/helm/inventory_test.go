package helm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/cd/cdtest"
)

func sampleEntry(path string) entry {
	return entry{
		Owner: entryOwner{APIVersion: "caisson.dev/v1alpha1", Kind: "Stack", Namespace: "ns", Name: "s", UID: "uid-1"},
		Path:  path, Name: "app", ScopeID: "home", Release: "app", Namespace: "ns", Version: "1.0.0", Chart: "c", Values: "v",
	}
}

func TestInventoryRoundTrip(t *testing.T) {
	env := cdtest.NewEnv(t, admin(t))
	i := newInventory(env.Operator, env.Namespace, time.Now)
	e := sampleEntry("all/a").withObjects([]object{{Version: "v1", Kind: "ConfigMap", Name: "c"}})
	e.Retained = []string{"Namespace/ns"}

	got, err := i.get(t.Context(), "uid-1", e.key())
	require.NoError(t, err)
	require.Nil(t, got)
	require.NoError(t, i.drop(t.Context(), "uid-1", e.key()), "nothing is dropped already")

	require.NoError(t, i.put(t.Context(), e))
	got, err = i.get(t.Context(), "uid-1", e.key())
	require.NoError(t, err)
	require.Equal(t, e, *got)
	before := env.Writes()
	require.NoError(t, i.put(t.Context(), e))
	require.Equal(t, before, env.Writes(), "written only on change")

	elsewhere := e
	elsewhere.ScopeID = "0123456789abcdef0123"
	require.NoError(t, i.put(t.Context(), elsewhere))
	first := sampleEntry("all/0")
	require.NoError(t, i.put(t.Context(), first))
	listed, err := i.list(t.Context(), "uid-1")
	require.NoError(t, err)
	require.Equal(t, []entry{first, elsewhere, e}, listed)

	none, err := i.list(t.Context(), "uid-2")
	require.NoError(t, err)
	require.Empty(t, none)

	secret, err := i.read(t.Context(), "uid-1")
	require.NoError(t, err)
	require.Equal(t, "uid-1", secret.Labels[labelOwnerUID])
	secret.Data["state.of-a-node"] = []byte("kept")
	require.NoError(t, env.Admin.Update(t.Context(), secret))
	for _, e := range listed {
		require.NoError(t, i.drop(t.Context(), "uid-1", e.key()))
	}
	secret, err = i.read(t.Context(), "uid-1")
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"state.of-a-node": []byte("kept")}, secret.Data, "what others keep there is theirs")
	listed, err = i.list(t.Context(), "uid-1")
	require.NoError(t, err)
	require.Empty(t, listed)
}

func TestInventorySecretGoesWithTheLastEntry(t *testing.T) {
	env := cdtest.NewEnv(t, admin(t))
	i := newInventory(env.Operator, env.Namespace, time.Now)
	e := sampleEntry("all/a")
	require.NoError(t, i.put(t.Context(), e))
	require.NoError(t, i.drop(t.Context(), "uid-1", e.key()))
	secret, err := i.read(t.Context(), "uid-1")
	require.NoError(t, err)
	require.Nil(t, secret)
}

func TestInventoryBroken(t *testing.T) {
	env := cdtest.NewEnv(t, admin(t))
	i := newInventory(env.Operator, env.Namespace, time.Now)
	e := sampleEntry("all/a")
	require.NoError(t, i.put(t.Context(), e))
	secret, err := i.read(t.Context(), "uid-1")
	require.NoError(t, err)
	secret.Data[e.key()] = []byte("{")
	require.NoError(t, env.Admin.Update(t.Context(), secret))
	i = newInventory(env.Operator, env.Namespace, time.Now)
	_, err = i.get(t.Context(), "uid-1", e.key())
	require.Error(t, err, "what cannot be read is not absent")
	_, err = i.list(t.Context(), "uid-1")
	require.Error(t, err)
	require.NoError(t, i.put(t.Context(), e), "and can be written anew")
	listed, err := i.list(t.Context(), "uid-1")
	require.NoError(t, err)
	require.Len(t, listed, 1)
}

// TestInventoryGoesWhileItIsWritten: another process drops the last entry between the read
// and the write of this one.
func TestInventoryGoesWhileItIsWritten(t *testing.T) {
	env := cdtest.NewEnv(t, admin(t))
	first := sampleEntry("all/a")
	require.NoError(t, newInventory(env.Operator, env.Namespace, time.Now).put(t.Context(), first))
	gone := false
	i := newInventory(vanishing{env.Operator, func() {
		if !gone {
			gone = true
			require.NoError(t, newInventory(env.Operator, env.Namespace, time.Now).drop(t.Context(), "uid-1", first.key()))
		}
	}}, env.Namespace, time.Now)
	second := sampleEntry("all/b")
	require.NoError(t, i.put(t.Context(), second))
	require.True(t, gone)
	listed, err := i.list(t.Context(), "uid-1")
	require.NoError(t, err)
	require.Len(t, listed, 1)
	require.Equal(t, second.key(), listed[0].key(), "what was dropped does not come back")
}

// vanishing calls before ahead of each update.
type vanishing struct {
	client.Client
	before func()
}

func (v vanishing) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	v.before()
	return v.Client.Update(ctx, o, opts...)
}

// TestInventoryHammer has the workers of two processes write the entries of one owner
// at the same time, while the last entry and with it the Secret keeps going away.
func TestInventoryHammer(t *testing.T) {
	const workers, rounds = 4, 6
	env := cdtest.NewEnv(t, admin(t))
	processes := []*inventory{newInventory(env.Operator, env.Namespace, time.Now), newInventory(env.Operator, env.Namespace, time.Now)}
	errs := make([]error, workers*len(processes))
	var group sync.WaitGroup
	for n := range errs {
		group.Go(func() {
			i, e := processes[n%len(processes)], sampleEntry(fmt.Sprint("all/", n))
			for range rounds {
				errs[n] = errors.Join(errs[n], i.put(t.Context(), e), i.drop(t.Context(), "uid-1", e.key()), i.put(t.Context(), e))
			}
		})
	}
	group.Wait()
	require.NoError(t, errors.Join(errs...))
	listed, err := newInventory(env.Operator, env.Namespace, time.Now).list(t.Context(), "uid-1")
	require.NoError(t, err)
	require.Len(t, listed, len(errs), "no entry was lost to another")
	require.Empty(t, processes[0].locks.locks, "locks are not collected")
}

func TestEntryIsBounded(t *testing.T) {
	var many []object
	for n := range maxObjects + 7 {
		many = append(many, object{Version: "v1", Kind: "ConfigMap", Namespace: "a-namespace-of-some-length", Name: fmt.Sprintf("a-name-of-the-usual-length-%04d", n)})
	}
	e := sampleEntry("all/a").withObjects(many)
	require.Len(t, e.Objects, maxObjects)
	require.Equal(t, 7, e.Omitted)
	raw, err := json.Marshal(e)
	require.NoError(t, err)
	require.Less(t, len(raw), 48<<10)
	require.Zero(t, e.withObjects(nil).Omitted)
}

func TestInventoryNames(t *testing.T) {
	require.Empty(t, validation.IsDNS1123Subdomain(inventoryName("6ba7b810-9dad-11d1-80b4-00c04fd430c8")))
	require.NotEqual(t, inventoryName("a"), inventoryName("b"))
	require.Empty(t, validation.IsConfigMapKey(entryKey("home", "all/very/long/"+strings.Repeat("path/", 100))))
	require.NotEqual(t, entryKey("home", "a"), entryKey("remote", "a"))
	for _, uid := range []string{"6ba7b810-9dad-11d1-80b4-00c04fd430c8", "With Spaces", strings.Repeat("x", 64), "-a", "a-", ""} {
		require.Empty(t, validation.IsValidLabelValue(labelValue(uid)), uid)
	}
}

func FuzzDecodeEntry(f *testing.F) {
	raw, err := json.Marshal(sampleEntry("all/a"))
	require.NoError(f, err)
	f.Add(raw)
	f.Add([]byte(`{"objects":[{}],"owner":null}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := decodeEntry(raw)
		if err != nil {
			return
		}
		again, err := json.Marshal(e)
		require.NoError(t, err)
		_, err = decodeEntry(again)
		require.NoError(t, err)
	})
}

// refusing is a client that may not write.
type refusing struct{ client.Client }

func (refusing) Create(context.Context, client.Object, ...client.CreateOption) error {
	return errors.New("the operator may not")
}

func TestNothingIsInstalledThatIsNotRecorded(t *testing.T) {
	b := newBench(t)
	b.driver = newDriver(t, refusing{b.Operator}, b.Namespace)
	app := b.tenant.Application()
	cdtest.UntilReason(t, b.ensure(t, app), "unexpected")
	require.Empty(t, b.records(t))
	list := &corev1.ConfigMapList{}
	require.NoError(t, b.Admin.List(t.Context(), list, client.InNamespace(b.tenant.Namespace), client.MatchingLabels{"app.kubernetes.io/managed-by": "Helm"}))
	require.Empty(t, list.Items)
}
