package tree_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree/treetest"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

func names(v tree.View) []string {
	var names []string
	for _, r := range v.Rows {
		names = append(names, r.Prefix+r.Name)
	}
	return names
}

func serial(name string, children ...string) v1alpha1.Node {
	return v1alpha1.Node{Name: name, Serial: &v1alpha1.SerialNode{Children: children}}
}

func module(name string) v1alpha1.Node {
	return v1alpha1.Node{Name: name, Module: &v1alpha1.ModuleNode{Ref: name}}
}

func TestOfShape(t *testing.T) {
	cases := map[string]struct {
		reason string
		root   string
		nodes  []v1alpha1.Node
		want   []string
	}{
		"OrderOfTheSpec": {
			reason: "children are in the order in which their parent names them, wherever they stand in the list",
			root:   "a", nodes: []v1alpha1.Node{module("c"), module("b"), serial("a", "b", "c")},
			want: []string{"a", "├─ b", "└─ c"},
		},
		"Trunks": {
			reason: "a branch that goes on is drawn past what hangs on it",
			root:   "a", nodes: []v1alpha1.Node{serial("a", "b", "c"), serial("b", "d"), module("d"), serial("c", "e"), module("e")},
			want: []string{"a", "├─ b", "│  └─ d", "└─ c", "   └─ e"},
		},
		"UnknownRoot": {
			reason: "the API server refuses such a spec; an older one must not break the screen",
			root:   "x", nodes: []v1alpha1.Node{module("a")},
		},
		"UnknownChild": {
			reason: "what does not exist is not drawn, and the branch before it is the last one",
			root:   "a", nodes: []v1alpha1.Node{serial("a", "b", "x"), module("b")},
			want: []string{"a", "└─ b"},
		},
		"Unreachable": {
			reason: "a node that nothing leads to has no place in the tree; the Stack's message names it",
			root:   "a", nodes: []v1alpha1.Node{serial("a"), module("b")},
			want: []string{"a"},
		},
		"Cycle": {
			reason: "each node is shown once, so a cycle ends",
			root:   "a", nodes: []v1alpha1.Node{serial("a", "b"), serial("b", "a", "c"), module("c")},
			want: []string{"a", "└─ b", "   └─ c"},
		},
		"SecondParent": {
			reason: "the first parent in the order of the tree gets the child",
			root:   "a", nodes: []v1alpha1.Node{serial("a", "b", "c"), serial("b", "d"), serial("c", "d"), module("d")},
			want: []string{"a", "├─ b", "│  └─ d", "└─ c"},
		},
		"AllKinds": {
			reason: "every combinator has its children below it",
			root:   "r", nodes: []v1alpha1.Node{
				{Name: "r", RemoteCluster: &v1alpha1.RemoteClusterNode{Remote: "w", Child: "c"}},
				{Name: "c", Concurrent: &v1alpha1.ConcurrentNode{Children: []string{"if", "app"}}},
				{Name: "if", Conditional: &v1alpha1.ConditionalNode{When: "true", Child: "m"}},
				{Name: "app", Application: &v1alpha1.ApplicationNode{Ref: "x"}}, module("m"),
			},
			want: []string{"r", "└─ c", "   ├─ if", "   │  └─ m", "   └─ app"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			stack := &v1alpha1.Stack{Spec: v1alpha1.StackSpec{Root: tc.root, Provisioners: tc.nodes}}
			view := tree.Of(stack, treetest.Start())
			require.Equal(t, tc.want, names(view), tc.reason)
			require.NotNil(t, view.Rows, "an empty list is [] in JSON, not null")
		})
	}
}

func TestOfNodes(t *testing.T) {
	stack := treetest.Stack()
	stack.Status.Nodes = []v1alpha1.NodeStatus{
		treetest.Node("cni", "OK", "", treetest.Start()),
		treetest.Node("metrics", v1alpha1.NodeRemoved, "", treetest.Start().Add(-90*time.Second)),
		treetest.Node("storage", "Yield", "secret_missing", treetest.Start().Add(time.Hour)),
		treetest.Node("nobody", "OK", "", treetest.Start()),
	}
	rows := map[string]tree.Row{}
	for _, r := range tree.Of(stack, treetest.Start().Add(1900*time.Millisecond)).Rows {
		rows[r.Name] = r
	}
	require.Len(t, rows, len(stack.Spec.Provisioners), "a status without a spec is not drawn")
	require.Equal(t, tree.Row{Prefix: "   ├─ ", Depth: 2, Name: "cni", Kind: "module", Disposition: "OK", Since: time.Second, SinceSeconds: 1}, rows["cni"])
	require.Equal(t, "Removed", rows["metrics"].Disposition)
	require.EqualValues(t, 91, rows["metrics"].SinceSeconds)
	require.Zero(t, rows["storage"].Since, "a clock that is behind the cluster's makes no negative ages")
	require.Equal(t, "A Secret or a key of it that is needed does not exist; create it.", rows["storage"].Message)
	require.Equal(t, "Waiting", rows["ingress"].Disposition, "a node that no pass has reached")
	require.Zero(t, rows["ingress"].SinceSeconds)
}

func TestOfPhase(t *testing.T) {
	available := func(status metav1.ConditionStatus, reason string, generation int64) *metav1.Condition {
		return &metav1.Condition{Type: v1alpha1.ConditionAvailable, Status: status, Reason: reason, Message: "the message", ObservedGeneration: generation}
	}
	deleted := metav1.NewTime(treetest.Start())
	cases := map[string]struct {
		reason    string
		condition *metav1.Condition
		deleted   *metav1.Time
		want      tree.View
	}{
		"NoPass":    {reason: "nobody has looked yet", want: tree.View{Phase: tree.Pending, Message: "The operator has not looked at it yet."}},
		"Available": {reason: "true and current", condition: available("True", "Provisioned", 3), want: tree.View{Phase: "Provisioned", Message: "the message", Available: true}},
		"NotYet":    {reason: "current and not true", condition: available("False", "Provisioning", 3), want: tree.View{Phase: "Provisioning", Message: "the message"}},
		"OldSpec": {
			reason: "what was true of an older spec says nothing of this one", condition: available("True", "Provisioned", 2),
			want: tree.View{Phase: tree.Pending, Message: "The spec has changed, and the operator has not looked at it yet."},
		},
		"Deleted": {
			reason: "a deletion is a new generation, too", condition: available("True", "Provisioned", 2), deleted: &deleted,
			want: tree.View{Phase: tree.Pending, Message: "It is to be deleted, and the operator has not begun yet."},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			stack := &v1alpha1.Stack{ObjectMeta: metav1.ObjectMeta{Generation: 3, DeletionTimestamp: tc.deleted}}
			if tc.condition != nil {
				stack.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", ObservedGeneration: 3}, *tc.condition}
			}
			got := tree.Of(stack, treetest.Start())
			got.Rows = nil
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

func TestOfEcho(t *testing.T) {
	cases := map[string]struct {
		reason string
		nodes  []v1alpha1.NodeStatus
		echo   bool
	}{
		"NoReason":  {reason: "OK is the sum of the children", nodes: []v1alpha1.NodeStatus{treetest.Node("all", "OK", "", treetest.Start())}, echo: true},
		"Child":     {reason: "the child says the same", nodes: []v1alpha1.NodeStatus{treetest.Node("all", "Yield", "x", treetest.Start()), treetest.Node("cni", "Yield", "x", treetest.Start())}, echo: true},
		"Own":       {reason: "nobody below says so", nodes: []v1alpha1.NodeStatus{treetest.Node("all", "Yield", "remote_pending", treetest.Start())}},
		"OtherKind": {reason: "the same reason, but not as bad", nodes: []v1alpha1.NodeStatus{treetest.Node("all", "Terminal", "x", treetest.Start()), treetest.Node("cni", "Yield", "x", treetest.Start())}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			stack := treetest.Stack()
			stack.Status.Nodes = tc.nodes
			require.Equal(t, tc.echo, tree.Of(stack, treetest.Start()).Rows[0].Echo, tc.reason)
		})
	}
}

func TestOfHostileText(t *testing.T) {
	stack := treetest.Stack()
	stack.Status.Summary = "1/1\a"
	stack.Status.Nodes = []v1alpha1.NodeStatus{{Name: "cni", Disposition: "Yie\x1bld", Reason: "x\ny", Message: "clear\x1b[2J \u202eoff"}}
	stack.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAvailable, Reason: "\r", Message: "a\tb"}}
	stack.Generation = 0
	view := tree.Of(stack, treetest.Start())
	for _, line := range tree.Lines(view, tree.Style{}) {
		require.NotContains(t, line, "\x1b")
		require.NotContains(t, line, "\u202e")
		require.NotContains(t, line, "\n")
	}
	require.Equal(t, "clear\uFFFD[2J \uFFFDoff", view.Rows[2].Message)
	require.Equal(t, "a\uFFFDb", view.Message)
}

func TestMissing(t *testing.T) {
	require.Equal(t, []string{"Stack ns/x  Gone"}, tree.Lines(tree.Missing("ns", "x"), tree.Style{}))
}

func FuzzOf(f *testing.F) {
	f.Add("a", "b", "c", "Yield", "x")
	f.Add("a", "a", "a", "\x1b[2J", "\n")
	f.Fuzz(func(t *testing.T, a, b, c, disposition, message string) {
		stack := &v1alpha1.Stack{Spec: v1alpha1.StackSpec{Root: a, Provisioners: []v1alpha1.Node{serial(a, b, c), serial(b, c, a), serial(c, a, b)}}}
		stack.Status.Nodes = []v1alpha1.NodeStatus{{Name: b, Disposition: disposition, Reason: message, Message: message}}
		view := tree.Of(stack, treetest.Start())
		require.LessOrEqual(t, len(view.Rows), 3, "each node once")
		for _, line := range append(tree.Lines(view, tree.Style{}), tree.Changes(tree.View{}, view)...) {
			for _, r := range line {
				require.GreaterOrEqual(t, r, ' ', "%q", line)
			}
		}
	})
}
