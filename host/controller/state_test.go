package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/provisioner/module"
	"github.com/caisson-dev/caisson/host/scope"
)

const operatorNamespace = "caisson-system"

func newStateStore(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) (*StateStore, client.WithWatch) {
	t.Helper()
	base := fake.NewClientBuilder().WithScheme(testScheme(t)).WithObjects(objects...).Build()
	return NewStateStore(interceptor.NewClient(base, funcs), operatorNamespace), base
}

// stackOf is the owner of a UID in its first generation.
func stackOf(uid string) *v1alpha1.Stack {
	stack := newStack()
	stack.UID = types.UID(uid)
	return stack
}

// just is a state without the kinds that the host drops.
func just(raw string) module.Kept { return module.Kept{State: json.RawMessage(raw)} }

func secretsOf(t *testing.T, c client.Client) []corev1.Secret {
	t.Helper()
	list := &corev1.SecretList{}
	require.NoError(t, c.List(t.Context(), list))
	return list.Items
}

func TestState(t *testing.T) {
	store, base := newStateStore(t, interceptor.Funcs{})
	ctx := t.Context()
	one, other := store.For(stackOf("uid-1")), store.For(stackOf("uid-2"))

	raw, err := one.Load(ctx, "all/cni")
	require.NoError(t, err)
	require.True(t, raw.Empty(), "what was never saved is nothing")
	require.NoError(t, one.Save(ctx, "all/cni", module.Kept{}))
	require.Empty(t, secretsOf(t, base), "dropping nothing makes nothing")

	require.NoError(t, one.Save(ctx, "all/cni", just(`{"step":1}`)))
	require.NoError(t, one.Save(ctx, "all/storage", just(`{"step":2}`)))
	require.NoError(t, other.Save(ctx, "all/cni", just(`{"step":3}`)))
	for _, c := range []struct {
		state      module.State
		path, want string
	}{{one, "all/cni", `{"step":1}`}, {one, "all/storage", `{"step":2}`}, {other, "all/cni", `{"step":3}`}} {
		raw, err := c.state.Load(ctx, c.path)
		require.NoError(t, err)
		require.JSONEq(t, c.want, string(raw.State))
	}
	secrets := secretsOf(t, base)
	require.Len(t, secrets, 2, "one for each owner")
	for _, s := range secrets {
		require.Equal(t, operatorNamespace, s.Namespace, "out of reach of tenants")
		require.Contains(t, s.Labels, ownerLabel)
	}

	require.NoError(t, one.Save(ctx, "all/cni", module.Kept{}))
	raw, err = one.Load(ctx, "all/cni")
	require.NoError(t, err)
	require.True(t, raw.Empty())
	raw, err = one.Load(ctx, "all/storage")
	require.NoError(t, err)
	require.False(t, raw.Empty(), "the others stay")
}

// TestStateOfAnEmptySecret: somebody has cleared it by hand.
func TestStateOfAnEmptySecret(t *testing.T) {
	store, _ := newStateStore(t, interceptor.Funcs{}, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: stateName("uid-1")}})
	state := store.For(stackOf("uid-1"))
	require.NoError(t, state.Save(t.Context(), "all", just(`1`)))
	raw, err := state.Load(t.Context(), "all")
	require.NoError(t, err)
	require.Equal(t, "1", string(raw.State))
}

// TestStateConflicts: writes that lost a race are made again, others are reported.
func TestStateConflicts(t *testing.T) {
	resource := schema.GroupResource{Resource: "secrets"}
	cases := map[string]struct {
		reason string
		errs   []error
		ok     bool
	}{
		"conflict":       {reason: "another replica wrote", errs: []error{apierrors.NewConflict(resource, "x", errors.New("changed"))}, ok: true},
		"already exists": {reason: "another replica created it", errs: []error{apierrors.NewAlreadyExists(resource, "x")}, ok: true},
		"gone":           {reason: "somebody has deleted it meanwhile", errs: []error{apierrors.NewNotFound(resource, "x")}, ok: true},
		"forbidden":      {reason: "trying again will not help", errs: []error{apierrors.NewForbidden(resource, "x", errors.New("no"))}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			errs := c.errs
			next := func() error {
				if len(errs) == 0 {
					return nil
				}
				err := errs[0]
				errs = errs[1:]
				return err
			}
			store, _ := newStateStore(t, interceptor.Funcs{
				Create: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					if err := next(); err != nil {
						return err
					}
					return w.Create(ctx, o, opts...)
				},
			})
			err := store.For(stackOf("uid-1")).Save(t.Context(), "all", just(`{}`))
			require.Equal(t, c.ok, err == nil, c.reason)
			if err != nil {
				require.ErrorContains(t, err, "write state of all")
			}
		})
	}
}

// TestStateIsReadOnce: a pass over many modules asks the API server once, and a later one
// sees what another replica has written.
func TestStateIsReadOnce(t *testing.T) {
	reads := 0
	store, _ := newStateStore(t, interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			reads++
			return w.Get(ctx, key, o, opts...)
		},
	})
	ctx := t.Context()
	pass, replica := store.For(stackOf("uid-1")), store.For(stackOf("uid-1"))
	for range 3 {
		_, err := pass.Load(ctx, "all/cni")
		require.NoError(t, err)
	}
	require.NoError(t, pass.Save(ctx, "all/cni", just(`1`)))
	require.Equal(t, 1, reads)

	require.NoError(t, replica.Save(ctx, "all/storage", just(`2`)))
	require.NoError(t, pass.Save(ctx, "all/ingress", just(`3`)), "which collides")
	next := store.For(stackOf("uid-1"))
	for path, want := range map[string]string{"all/cni": "1", "all/storage": "2", "all/ingress": "3"} {
		raw, err := next.Load(ctx, path)
		require.NoError(t, err)
		require.Equal(t, want, string(raw.State), "nothing is lost")
	}
}

func TestStateReadFailure(t *testing.T) {
	store, _ := newStateStore(t, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("the server is away")
		},
	})
	_, err := store.For(stackOf("uid-1")).Load(t.Context(), "all")
	require.ErrorContains(t, err, "read state of all", "not knowing is not the same as nothing")
	require.Error(t, store.For(stackOf("uid-1")).Save(t.Context(), "all", just(`{}`)))
}

// TestStateHammer: nodes of one Stack that save at once lose nothing and do not even
// collide.
func TestStateHammer(t *testing.T) {
	const nodes = 32
	collisions := 0
	store, _ := newStateStore(t, interceptor.Funcs{
		Update: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			err := w.Update(ctx, o, opts...)
			if err != nil {
				collisions++
			}
			return err
		},
	})
	state := store.For(stackOf("uid-1"))
	var wg sync.WaitGroup
	for i := range nodes {
		wg.Go(func() {
			path := fmt.Sprintf("all/node-%d", i)
			for round := range 3 {
				if err := state.Save(context.Background(), path, just(fmt.Sprint(round))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, collisions)
	for i := range nodes {
		raw, err := state.Load(t.Context(), fmt.Sprintf("all/node-%d", i))
		require.NoError(t, err)
		require.Equal(t, "2", string(raw.State))
	}
}

// TestDropState drops everything of one owner and nothing of another's.
func TestDropState(t *testing.T) {
	kept := func(name, namespace, uid string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{ownerLabel: uid}}}
	}
	store, base := newStateStore(t, interceptor.Funcs{},
		kept("caisson-cluster-1", operatorNamespace, "uid-web"), kept("caisson-cluster-2", operatorNamespace, "uid-other"),
		kept("forged", "team", "uid-web"))
	stack := newStack()
	require.NoError(t, store.For(stackOf("uid-web")).Save(t.Context(), "all", just(`{}`)))
	require.NoError(t, store.DropState(t.Context(), stack))
	require.NoError(t, store.DropState(t.Context(), stack), "it is gone already")
	var names []string
	for _, s := range secretsOf(t, base) {
		names = append(names, s.Name)
	}
	require.ElementsMatch(t, []string{"caisson-cluster-2", "forged"}, names, "only the operator's own namespace counts")
}

func TestDropStateFailure(t *testing.T) {
	store, _ := newStateStore(t, interceptor.Funcs{
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			return errors.New("the server is away")
		},
	})
	require.NoError(t, store.For(stackOf("uid-web")).Save(t.Context(), "all", just(`{}`)))
	require.ErrorContains(t, store.DropState(t.Context(), newStack()), "delete secret")
}

// TestStateNames are valid as object names and keys, whatever is in the path.
func TestStateNames(t *testing.T) {
	require.NotEqual(t, stateName("a"), stateName("b"))
	require.Len(t, shortHash(strings.Repeat("long/", 1000)), nameDigits)
	require.Regexp(t, `^[0-9a-f]+$`, shortHash("ünusual / path"))
}

func TestModuleEvents(t *testing.T) {
	w := newWorld(t)
	ModuleEvents(w).RecordEvent(t.Context(), module.Event{
		Owner: scope.Owner{APIVersion: "caisson.dev/v1alpha1", Kind: "Stack", Namespace: "team", Name: "web", UID: "uid-web"},
		Node:  abi.Node{Name: "cni", Path: "all/cni"}, Type: "Warning", Reason: "low_on_addresses", Sentence: "The range is nearly 100% used.",
	})
	require.Equal(t, []string{"Warning low_on_addresses Module: all/cni: The range is nearly 100% used."}, w.events, "a sentence is no format")
}
