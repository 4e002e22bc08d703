package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
)

func TestCacheCompilesOncePerGeneration(t *testing.T) {
	cache := NewCache(0)
	stack := parseStack(t, demo)
	first, err := cache.compile(stack)
	require.NoError(t, err)
	again, err := cache.compile(stack.DeepCopy())
	require.NoError(t, err)
	require.Same(t, first, again, "the same generation is compiled once")

	stack.Generation++
	next, err := cache.compile(stack)
	require.NoError(t, err)
	require.NotSame(t, first, next, "another one anew")
	require.Len(t, cache.entries, 1, "and the old one is forgotten")

	cache.Forget(stack.UID)
	require.Empty(t, cache.entries)
	require.Empty(t, cache.order)

	stack.UID = ""
	_, err = cache.compile(stack)
	require.NoError(t, err)
	require.Empty(t, cache.entries, "what has no identity is not remembered")
	_, err = (*Cache)(nil).compile(stack)
	require.NoError(t, err, "no cache is one that remembers nothing")
}

func TestCacheIsNotTouchedByTheStack(t *testing.T) {
	cache := NewCache(1)
	stack := parseStack(t, demo)
	compiled, err := cache.compile(stack)
	require.NoError(t, err)
	stack.Spec.Provisioners[0].Serial.Children[0] = "other"
	require.Equal(t, []string{"on-workload"}, compiled.nodes["all"].Children())
}

func TestCacheIsBounded(t *testing.T) {
	cache := NewCache(2)
	stack := parseStack(t, leafStack("serial: {children: []}"))
	for _, uid := range []types.UID{"a", "b", "a", "c"} {
		stack.UID = uid
		_, err := cache.compile(stack)
		require.NoError(t, err)
	}
	require.Len(t, cache.entries, 2)
	require.Equal(t, []types.UID{"b", "c"}, cache.order, "the one that was stored first goes")
}

func TestCacheRemembersWhatIsInvalid(t *testing.T) {
	cache := NewCache(1)
	stack := parseStack(t, leafStack("serial: {children: [x]}"))
	for range 2 {
		_, err := Build(stack, Dependencies{Cache: cache})
		require.Equal(t, abi.ReasonInvalidStack, provisioner.OutcomeOf(err).Headline.Reason)
	}
	require.Len(t, cache.entries, 1)
}

func TestCacheHammer(t *testing.T) {
	cache := NewCache(3)
	var group sync.WaitGroup
	for worker := range 8 {
		stack := parseStack(t, leafStack("module: {ref: m, config: {a: \"${parameters.n}\"}}"))
		group.Go(func() {
			for round := range 20 {
				stack.UID = types.UID(fmt.Sprint((worker + round) % 5))
				stack.Generation = int64(round % 2)
				if _, err := Build(stack, Dependencies{Cache: cache}); err != nil {
					t.Error(err)
				}
				if round%7 == 0 {
					cache.Forget(stack.UID)
				}
			}
		})
	}
	group.Wait()
	require.LessOrEqual(t, len(cache.entries), 3)
	require.Len(t, cache.order, len(cache.entries))
}

func TestFacts(t *testing.T) {
	f := newFacts(map[string]json.RawMessage{"a": json.RawMessage(`1`), "bad": json.RawMessage(`{`)})
	before := f.Snapshot()
	require.NoError(t, f.Publish(t.Context(), "n", map[string]json.RawMessage{"a": json.RawMessage(`2`), "b": json.RawMessage(`null`)}))
	require.JSONEq(t, `1`, string(before["a"]), "a snapshot does not change")
	require.Equal(t, map[string]any{"a": int64(2), "b": nil}, f.variable(), "what is no JSON is absent")

	large := json.RawMessage(`"` + strings.Repeat("x", maxFactsBytes) + `"`)
	err := f.Publish(t.Context(), "n", map[string]json.RawMessage{"c": large, "d": json.RawMessage(`1`)})
	require.Equal(t, abi.ReasonOutputTooLarge, provisioner.OutcomeOf(err).Headline.Reason)
	require.NotContains(t, err.Error(), "xxx", "the contents are not told")
	require.NotContains(t, f.Snapshot(), "d", "all or nothing")
	require.Empty(t, newFacts(nil).Snapshot())
}

func TestFactsHammer(t *testing.T) {
	f := newFacts(nil)
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			name := fmt.Sprint(worker)
			for round := range 100 {
				if err := f.Publish(context.Background(), name, map[string]json.RawMessage{name: json.RawMessage(fmt.Sprint(round))}); err != nil {
					t.Error(err)
				}
				if f.variable()[name] != int64(round) {
					t.Error("a node reads what it published")
				}
			}
		})
	}
	group.Wait()
	require.Len(t, f.Snapshot(), 8)
}
