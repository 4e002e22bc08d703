package controller

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/provisioner/module"
)

func allKinds() module.Kept {
	return module.Kept{State: json.RawMessage(`"vol-7"`), Generation: json.RawMessage(`3`), Sticky: json.RawMessage(`5`)}
}

// Cases 105 to 107, the half of the store: what drops which kind, and what does not.
func TestStateLifetimes(t *testing.T) {
	without := func(change func(*module.Kept)) module.Kept {
		kept := allKinds()
		change(&kept)
		return kept
	}
	retry := func(token string) func(*v1alpha1.Stack) {
		return func(s *v1alpha1.Stack) { s.Annotations = map[string]string{v1alpha1.RetryAnnotation: token} }
	}
	cases := map[string]struct {
		reason string
		// changes are made one after the other, with a pass after each.
		changes []func(*v1alpha1.Stack)
		want    module.Kept
		writes  int
	}{
		"nothing": {reason: "another pass", changes: []func(*v1alpha1.Stack){func(*v1alpha1.Stack) {}}, want: allKinds()},
		"Case105 generation": {
			reason: "an edit", changes: []func(*v1alpha1.Stack){func(s *v1alpha1.Stack) { s.Generation++ }},
			want: without(func(k *module.Kept) { k.Generation = nil }), writes: 1,
		},
		"Case106 generations": {
			reason: "no number of edits drops what is sticky", changes: []func(*v1alpha1.Stack){func(s *v1alpha1.Stack) { s.Generation++ }, func(s *v1alpha1.Stack) { s.Generation += 5 }},
			want: without(func(k *module.Kept) { k.Generation = nil }), writes: 1,
		},
		"Case107 retry": {
			reason: "a token that was not there before", changes: []func(*v1alpha1.Stack){retry("second")},
			want: without(func(k *module.Kept) { k.Sticky = nil }), writes: 1,
		},
		"Case107 same token": {reason: "it has had its retry", changes: []func(*v1alpha1.Stack){retry("first")}, want: allKinds()},
		"token removed":      {reason: "taking it away asks for nothing", changes: []func(*v1alpha1.Stack){func(s *v1alpha1.Stack) { s.Annotations = nil }}, want: allKinds()},
		"token removed and put back": {
			reason: "the same token again", changes: []func(*v1alpha1.Stack){func(s *v1alpha1.Stack) { s.Annotations = nil }, retry("first")}, want: allKinds(),
		},
		"retry, and token removed": {
			reason: "what was dropped does not come back", changes: []func(*v1alpha1.Stack){retry("second"), func(s *v1alpha1.Stack) { s.Annotations = nil }},
			want: without(func(k *module.Kept) { k.Sticky = nil }), writes: 1,
		},
		"label": {reason: "near miss: other metadata", changes: []func(*v1alpha1.Stack){func(s *v1alpha1.Stack) { s.Labels = map[string]string{"a": "b"} }}, want: allKinds()},
		"both": {
			reason: "in one write", changes: []func(*v1alpha1.Stack){func(s *v1alpha1.Stack) { s.Generation++; retry("second")(s) }},
			want: module.Kept{State: allKinds().State}, writes: 1,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			writes := 0
			store, _ := newStateStore(t, interceptor.Funcs{
				Update: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
					writes++
					return w.Update(ctx, o, opts...)
				},
			})
			stack := newStack()
			retry("first")(stack)
			require.NoError(t, store.For(stack).Save(t.Context(), "all", allKinds()))
			var got module.Kept
			for _, change := range c.changes {
				change(stack)
				var err error
				got, err = store.For(stack).Load(t.Context(), "all")
				require.NoError(t, err)
			}
			require.Equal(t, c.want, got, c.reason)
			require.Equal(t, c.writes, writes, "a drop is written once, before the module is called")
		})
	}
}

// What a later pass saves is kept for the generation and the retry of that pass.
func TestStateIsKeptForTheNewGeneration(t *testing.T) {
	store, _ := newStateStore(t, interceptor.Funcs{})
	stack := newStack()
	require.NoError(t, store.For(stack).Save(t.Context(), "all", allKinds()))
	stack.Generation++
	stack.Annotations = map[string]string{v1alpha1.RetryAnnotation: "now"}
	pass := store.For(stack)
	_, err := pass.Load(t.Context(), "all")
	require.NoError(t, err)
	require.NoError(t, pass.Save(t.Context(), "all", allKinds()))
	got, err := store.For(stack).Load(t.Context(), "all")
	require.NoError(t, err)
	require.Equal(t, allKinds(), got)
}

// A Secret of an operator that knew one kind only is read as it is.
func TestStateOfAnOlderOperator(t *testing.T) {
	store, _ := newStateStore(t, interceptor.Funcs{}, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: stateName("uid-web"), Labels: map[string]string{ownerLabel: "uid-web"}},
		Data:       map[string][]byte{shortHash("all"): []byte(`"vol-7"`)},
	})
	got, err := store.For(newStack()).Load(t.Context(), "all")
	require.NoError(t, err)
	require.Equal(t, just(`"vol-7"`), got)
}

// What is kept of a node that is no more in the tree goes; what is kept of others stays.
func TestStateOfNodesThatAreGone(t *testing.T) {
	store, base := newStateStore(t, interceptor.Funcs{})
	for _, path := range []string{"all/cni", "all/old"} {
		require.NoError(t, store.For(newStack()).Save(t.Context(), path, allKinds()))
	}
	pass := store.For(newStack())
	pass.Keep([]string{"all", "all/cni", "all/new"})
	got, err := pass.Load(t.Context(), "all/cni")
	require.NoError(t, err)
	require.Equal(t, allKinds(), got)
	require.Len(t, secretsOf(t, base)[0].Data, 3)
	got, err = store.For(newStack()).Load(t.Context(), "all/old")
	require.NoError(t, err)
	require.True(t, got.Empty())
}

// A drop that cannot be written holds the module back: it must not see what is to be
// forgotten, nor act as if it had been.
func TestStateThatCannotBeDropped(t *testing.T) {
	fail := errors.New("etcd is away")
	store, _ := newStateStore(t, interceptor.Funcs{
		Update: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if fail != nil {
				return fail
			}
			return w.Update(ctx, o, opts...)
		},
	})
	stack := newStack()
	require.NoError(t, store.For(stack).Save(t.Context(), "all", allKinds()))
	stack.Generation++
	pass := store.For(stack)
	_, err := pass.Load(t.Context(), "all")
	require.ErrorContains(t, err, "read state of all")
	fail = conflict()
	_, err = pass.Load(t.Context(), "all")
	require.Error(t, err, "as long as the race goes on")
	fail = nil
	got, err := pass.Load(t.Context(), "all")
	require.NoError(t, err)
	require.Nil(t, got.Generation)
	require.NotNil(t, got.Sticky)
}
