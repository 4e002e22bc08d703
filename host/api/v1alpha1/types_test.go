package v1alpha1

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestNodeKinds(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		node     Node
		kinds    []string
		kind     string
		children []string
	}{
		"None":        {reason: "a node without a kind has no children", node: Node{Name: "a"}},
		"Serial":      {reason: "children keep their order", node: Node{Serial: &SerialNode{Children: []string{"b", "a"}}}, kinds: []string{KindSerial}, kind: KindSerial, children: []string{"b", "a"}},
		"Concurrent":  {reason: "a concurrent has children", node: Node{Concurrent: &ConcurrentNode{Children: []string{"a"}}}, kinds: []string{KindConcurrent}, kind: KindConcurrent, children: []string{"a"}},
		"Conditional": {reason: "a conditional has one child", node: Node{Conditional: &ConditionalNode{Child: "a"}}, kinds: []string{KindConditional}, kind: KindConditional, children: []string{"a"}},
		"Remote":      {reason: "a remotecluster has one child", node: Node{RemoteCluster: &RemoteClusterNode{Child: "a"}}, kinds: []string{KindRemoteCluster}, kind: KindRemoteCluster, children: []string{"a"}},
		"Application": {reason: "an application has none", node: Node{Application: &ApplicationNode{}}, kinds: []string{KindApplication}, kind: KindApplication},
		"Module":      {reason: "a module has none", node: Node{Module: &ModuleNode{}}, kinds: []string{KindModule}, kind: KindModule},
		"Two": {
			reason: "with two kinds it is of neither, and all children are told",
			node:   Node{Serial: &SerialNode{Children: []string{"a"}}, Conditional: &ConditionalNode{Child: "b"}},
			kinds:  []string{KindSerial, KindConditional}, children: []string{"a", "b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.kinds, tc.node.Kinds(), tc.reason)
			require.Equal(t, tc.kind, tc.node.Kind(), tc.reason)
			require.Equal(t, tc.children, tc.node.Children(), tc.reason)
		})
	}
}

func TestAddToScheme(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, AddToScheme(scheme))
	for _, object := range []runtime.Object{&Stack{}, &StackList{}, &Module{}, &ModuleList{}, &Application{}, &ApplicationList{}} {
		kinds, _, err := scheme.ObjectKinds(object)
		require.NoError(t, err)
		require.Equal(t, GroupVersion(), kinds[0].GroupVersion())
	}
}
