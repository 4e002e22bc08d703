package explain_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/explain"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/golden"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/controller"
)

func TestScreens(t *testing.T) {
	for _, s := range states() {
		t.Run(s.name, func(t *testing.T) {
			lines := explain.Lines(explain.Of(s.cluster, now()), tree.Style{})
			golden.Equal(t, s.name, strings.Join(lines, "\n")+"\n")
		})
	}
}

func TestMachinesReadIt(t *testing.T) {
	for _, s := range states() {
		if s.name != "secret" {
			continue
		}
		text, err := json.MarshalIndent(explain.Of(s.cluster, now()), "", "  ")
		require.NoError(t, err)
		golden.Equal(t, "secret-json", string(text)+"\n")
	}
}

// The same cluster gives the same words, and is not changed by being explained.
func TestPure(t *testing.T) {
	for _, s := range states() {
		before := s.cluster.Stack.DeepCopy()
		first := explain.Of(s.cluster, now())
		require.Equal(t, first, explain.Of(s.cluster, now()), s.name)
		require.Equal(t, before, s.cluster.Stack, s.name)
	}
}

// What explain says is what tree says.
func TestSameWordsAsTree(t *testing.T) {
	for _, s := range states() {
		view, x := tree.Of(s.cluster.Stack, now()), explain.Of(s.cluster, now())
		require.Equal(t, view.Phase, x.Phase, s.name)
		require.Equal(t, view.Available, x.Available, s.name)
		require.Equal(t, view.Summary, x.Leaves, s.name)
		text := strings.Join(tree.Lines(view, tree.Style{}), "\n")
		for _, f := range x.Findings {
			require.Contains(t, text, f.Says, s.name)
		}
	}
}

// Whatever the reason and the node, somebody who waits is told something to do, and a
// reason that needs nobody is never a step to take by hand.
func TestEveryReasonLeadsOn(t *testing.T) {
	nodes := map[string]string{"all": "all", "cni": "all/platform/cni", "metrics": "all/platform/addons/metrics", "": ""}
	for _, r := range abi.HostReasons() {
		for node, path := range nodes {
			for _, d := range []abi.Disposition{abi.Yield, abi.Retry, abi.UserActionRequired, abi.Terminal} {
				stack := stopped(node, path, d, r.Code)
				x := explain.Of(explain.Cluster{Stack: stack}, now())
				require.NotEmpty(t, x.Findings, "%s %s %s", r.Code, node, d)
				f := x.Findings[0]
				require.Equal(t, r.Code, f.Reason)
				require.Equal(t, path, f.Path)
				require.NotEmpty(t, f.Steps, "%s %s %s", r.Code, node, d)
				require.NotEmpty(t, x.Next, "%s %s %s", r.Code, node, d)
				require.Equal(t, d >= abi.UserActionRequired, x.Parked)
				text := strings.Join(explain.Lines(x, tree.Style{}), "\n")
				require.Equal(t, x.Parked, strings.Contains(text, "caisson.dev/retry=$(date +%s)"), "%s %s %s", r.Code, node, d)
				require.NotContains(t, text, "%!", "%s %s %s", r.Code, node, d)
				require.NotContains(t, text, "  . ", r.Code)
			}
		}
	}
}

// What the words promise is what the controller does.
func TestPromises(t *testing.T) {
	require.Equal(t, 10*time.Minute, controller.DefaultResync, "the words say 10 minutes")
}

func TestWidths(t *testing.T) {
	for _, s := range states() {
		x := explain.Of(s.cluster, now())
		whole := strings.Fields(strings.Join(explain.Lines(x, tree.Style{}), " "))
		for _, width := range []int{1, 40, 72, 200} {
			lines := explain.Lines(x, tree.Style{Width: width})
			require.Equal(t, whole, strings.Fields(strings.Join(lines, " ")), "%s: wrapping loses nothing", s.name)
			for _, line := range lines {
				require.NotContains(t, line, "\n")
				if width >= 72 && len(line) > width {
					require.Contains(t, line, "kubectl", "%s: only a command is wider than the terminal: %q", s.name, line)
				}
			}
		}
	}
}

func TestColours(t *testing.T) {
	for _, s := range states() {
		x := explain.Of(s.cluster, now())
		plain := strings.Join(explain.Lines(x, tree.Style{}), "\n")
		require.NotContains(t, plain, "\x1b", s.name)
		coloured := strings.Join(explain.Lines(x, tree.Style{Coloured: true}), "\n")
		require.Contains(t, coloured, "\x1b[", s.name)
		for _, code := range []string{"0", "2", "31", "32", "33"} {
			coloured = strings.ReplaceAll(coloured, "\x1b["+code+"m", "")
		}
		require.Equal(t, plain, coloured, "%s: colours add nothing but colours", s.name)
	}
}

// A stranger's names do not move the cursor of a terminal.
func TestHostileNames(t *testing.T) {
	const evil = "x\x1b[2J\ny"
	stack := stopped("cni", "all/platform/cni", abi.UserActionRequired, abi.ReasonModuleNotReady)
	for i := range stack.Spec.Provisioners {
		if m := stack.Spec.Provisioners[i].Module; m != nil {
			m.Ref = evil
		}
	}
	stack.Status.Inputs = append(stack.Status.Inputs, absent("Secret", evil))
	stack.Status.Retained, stack.Status.Abandoned = []string{evil}, []string{evil}
	m := module(evil, metav1.ConditionFalse, evil, evil)
	lines := explain.Lines(explain.Of(explain.Cluster{Stack: stack, Modules: []v1alpha1.Module{m}}, now()), tree.Style{})
	for _, line := range lines {
		require.NotContains(t, line, "\x1b")
		require.NotContains(t, line, "\n")
	}
}

// A malformed tree is explained as far as it goes.
func TestMalformedTrees(t *testing.T) {
	stack := stopped("cni", "all/platform/cni", abi.Retry, abi.ReasonUnexpected)
	for i := range stack.Spec.Provisioners {
		if s := stack.Spec.Provisioners[i].Serial; s != nil {
			s.Children = append(s.Children, "all", "nobody", "cni")
		}
	}
	require.NotEmpty(t, explain.Lines(explain.Of(explain.Cluster{Stack: stack}, now()), tree.Style{}))
	require.NotEmpty(t, explain.Lines(explain.Of(explain.Cluster{Stack: &v1alpha1.Stack{}}, now()), tree.Style{}))
}

func TestSimilar(t *testing.T) {
	n := func(namespace, name string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	stacks := []types.NamespacedName{
		n("a", "platform"), n("b", "platform"), n("a", "plattform"), n("a", "platform-2"), n("a", "web"), n("c", "plattform"),
	}
	cases := map[string]struct {
		reason string
		wanted types.NamespacedName
		want   []types.NamespacedName
	}{
		"Namespace": {reason: "the name is right and the namespace is not", wanted: n("c", "platform"), want: []types.NamespacedName{n("a", "platform"), n("b", "platform"), n("c", "plattform")}},
		"Typo":      {reason: "the closest first", wanted: n("a", "platfomr"), want: []types.NamespacedName{n("a", "platform")}},
		"Part":      {reason: "a part of the name", wanted: n("a", "plat"), want: []types.NamespacedName{n("a", "platform"), n("a", "platform-2"), n("a", "plattform")}},
		"Nothing":   {reason: "what is not alike is not offered", wanted: n("a", "ingress")},
		"Elsewhere": {reason: "a similar name in another namespace is a guess too many", wanted: n("d", "web2")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, explain.Similar(tc.wanted, stacks), tc.reason) })
	}
}

// Whoever makes a cluster puts its kubeconfig somewhere else.
func TestWhereKubeconfigsAre(t *testing.T) {
	cases := map[string]struct {
		reason string
		remote v1alpha1.Remote
		want   string
	}{
		"Secret":     {reason: "named in the spec", remote: v1alpha1.Remote{KubeconfigSecret: &v1alpha1.SecretKeyReference{Name: "k", Key: "config"}}, want: "key config of Secret k in namespace platform."},
		"ClusterAPI": {reason: "named after the Cluster", remote: v1alpha1.Remote{ClusterAPI: &v1alpha1.ClusterReference{Name: "c", Namespace: "capi"}}, want: "key value of Secret c-kubeconfig in namespace capi."},
		"VCluster":   {reason: "named after the vcluster", remote: v1alpha1.Remote{VCluster: &v1alpha1.VClusterReference{Name: "v", Namespace: "vs"}}, want: "key config of Secret vc-v in namespace vs."},
		"Within":     {reason: "on another remote", remote: v1alpha1.Remote{Within: "outer", KubeconfigSecret: &v1alpha1.SecretKeyReference{Name: "k"}}, want: "key value of Secret k in namespace platform on remote outer."},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			stack := stopped("all", "all", abi.Yield, abi.ReasonRemotePending)
			tc.remote.Name = "workload"
			stack.Spec.Remotes = []v1alpha1.Remote{tc.remote}
			x := explain.Of(explain.Cluster{Stack: stack}, now())
			require.Contains(t, x.Findings[0].Steps[0].Text, " It is expected in "+tc.want, tc.reason)
		})
	}
}

func TestManyNames(t *testing.T) {
	stack := stopped("cni", "all/platform/cni", abi.UserActionRequired, abi.ReasonSecretMissing)
	for i := range 10 {
		stack.Status.Inputs = append(stack.Status.Inputs, absent("Secret", fmt.Sprintf("s%d", i)))
	}
	text := explain.Of(explain.Cluster{Stack: stack}, now()).Findings[0].Steps[0].Text
	require.Contains(t, text, "Secret s5 in namespace platform, and 4 more.")
	require.NotContains(t, text, "s6")
}
