package controller

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

func named(names ...string) []types.NamespacedName {
	list := make([]types.NamespacedName, 0, len(names))
	for _, n := range names {
		list = append(list, types.NamespacedName{Namespace: "team", Name: n})
	}
	return list
}

func TestInputIndex(t *testing.T) {
	x := NewInputIndex()
	stacks := named("a", "b")
	token, cert := record(inputSecret, "token", "1"), record(inputSecret, "cert", "1")
	remote := token
	remote.Scope = "some-remote"

	require.Empty(t, x.Readers(inputSecret, "team", "token"), "nobody has read anything")

	x.Set(stacks[1], []v1alpha1.InputRecord{token, cert})
	x.Set(stacks[0], []v1alpha1.InputRecord{token, token})
	require.Equal(t, stacks, x.Readers(inputSecret, "team", "token"), "sorted, each once")
	require.Equal(t, stacks[1:], x.Readers(inputSecret, "team", "cert"))
	require.Empty(t, x.Readers(inputConfigMap, "team", "token"), "near miss: another kind")
	require.Empty(t, x.Readers(inputSecret, "other", "token"), "near miss: another namespace")

	x.Set(stacks[1], []v1alpha1.InputRecord{cert})
	require.Equal(t, stacks[:1], x.Readers(inputSecret, "team", "token"), "what was read before is replaced")

	x.Set(stacks[0], []v1alpha1.InputRecord{remote})
	require.Empty(t, x.Readers(inputSecret, "team", "token"), "near miss: objects on remotes are not watched")

	x.Set(stacks[1], nil)
	require.Empty(t, x.readers, "nothing is kept of objects that nobody reads")
	require.Empty(t, x.inputs, "nothing is kept of Stacks that read nothing")
}

// TestInputIndexHammer sets and asks at once. In the end each Stack is found by exactly
// what it has read last.
func TestInputIndexHammer(t *testing.T) {
	const stacks, rounds = 12, 200
	x := NewInputIndex()
	shared := record(inputSecret, "shared", "1")
	var wg sync.WaitGroup
	for s := range stacks {
		wg.Go(func() {
			name := named(fmt.Sprintf("stack-%02d", s))[0]
			for r := range rounds {
				x.Set(name, []v1alpha1.InputRecord{shared, record(inputSecret, fmt.Sprintf("own-%d-%d", s, r), "1")})
				if len(x.Readers(inputSecret, "team", "shared")) == 0 {
					t.Error("a Stack that has read it must be found at any time")
				}
			}
		})
	}
	wg.Wait()
	require.Len(t, x.Readers(inputSecret, "team", "shared"), stacks)
	require.Len(t, x.readers, stacks+1, "only the last round is left")
	for s := range stacks {
		require.Len(t, x.Readers(inputSecret, "team", fmt.Sprintf("own-%d-%d", s, rounds-1)), 1)
	}
}
