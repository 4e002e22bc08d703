package provisionertest_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/provisioner/provisionertest"
)

func TestChildWithoutScriptIsOK(t *testing.T) {
	child := provisionertest.New("cni", nil)
	require.Equal(t, "cni", child.ProvisionerName())
	require.NoError(t, child.Provision(t.Context()))
	require.NoError(t, child.Deprovision(t.Context()))
}

func TestChildFollowsItsScripts(t *testing.T) {
	first, last := errors.New("first"), errors.New("last")
	trace := &provisionertest.Trace{}
	child := provisionertest.New("cni", trace).Up(first, nil).Down(nil, last)

	require.ErrorIs(t, child.Provision(t.Context()), first)
	require.NoError(t, child.Provision(t.Context()))
	require.NoError(t, child.Provision(t.Context()), "the last result repeats")
	require.NoError(t, child.Deprovision(t.Context()))
	require.ErrorIs(t, child.Deprovision(t.Context()), last)
	require.ErrorIs(t, child.Deprovision(t.Context()), last)

	require.Equal(t, []string{"P cni", "P cni", "P cni", "D cni", "D cni", "D cni"}, trace.Calls())
	require.Empty(t, trace.Calls(), "reading a trace empties it")
}

func TestChildHooksReplaceScripts(t *testing.T) {
	type key struct{}
	hooked, scripted := errors.New("hooked"), errors.New("scripted")
	hook := func(ctx context.Context) error {
		require.Equal(t, "value", ctx.Value(key{}))
		return hooked
	}
	child := provisionertest.New("cni", nil).Up(scripted).Down(scripted).OnUp(hook).OnDown(hook)
	ctx := context.WithValue(t.Context(), key{}, "value")
	require.ErrorIs(t, child.Provision(ctx), hooked)
	require.ErrorIs(t, child.Deprovision(ctx), hooked)
}

func TestHammerChild(t *testing.T) {
	const callers = 16
	trace := &provisionertest.Trace{}
	only := errors.New("only the first call")
	child := provisionertest.New("cni", trace).Up(only, nil)
	var failures sync.Map
	var wait sync.WaitGroup
	for i := range callers {
		wait.Go(func() {
			if err := child.Provision(t.Context()); err != nil {
				failures.Store(strconv.Itoa(i), err)
			}
		})
	}
	wait.Wait()
	count := 0
	failures.Range(func(any, any) bool { count++; return true })
	require.Equal(t, 1, count, "a script is used up exactly once")
	require.Len(t, trace.Calls(), callers)
}
