package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/provisioner"
)

func TestInvalidStacks(t *testing.T) {
	const remote = `{name: r, kubeconfigSecret: {name: s}}`
	for name, tc := range map[string]struct {
		reason string
		spec   string
		code   string // invalid_stack if empty
		want   []string
	}{
		"UnknownRoot": {
			reason: "the root exists",
			spec:   "root: x\nprovisioners: [{name: a, serial: {children: []}}]",
			want:   []string{`root: there is no provisioner named "x"`},
		},
		"NoNodes": {
			reason: "there is a node",
			spec:   "root: a\nprovisioners: []",
			want:   []string{"provisioners: there are none, and the root must be one", `root: there is no provisioner named "a"`},
		},
		"UnknownChild": {
			reason: "the child and its parent are named",
			spec:   "root: a\nprovisioners: [{name: a, serial: {children: [b]}}]",
			want:   []string{`provisioners[a]: its child "b" is not one of the provisioners`},
		},
		"NoKind": {
			reason: "a node is something",
			spec:   "root: a\nprovisioners: [{name: a}]",
			want:   []string{"provisioners[a]: it has none and must have exactly one kind: serial, concurrent, conditional, remotecluster, application or module"},
		},
		"TwoKinds": {
			reason: "a node is one thing, and its children are not called unreachable for it",
			spec:   "root: a\nprovisioners: [{name: a, serial: {children: [b]}, concurrent: {children: [c]}, module: {ref: m}}, {name: b, module: {ref: m}}, {name: c, module: {ref: m}}]",
			want:   []string{"provisioners[a]: it has serial and concurrent and module and must have exactly one kind: serial, concurrent, conditional, remotecluster, application or module"},
		},
		"Duplicate": {
			reason: "a name is used once",
			spec:   "root: a\nprovisioners: [{name: a, module: {ref: m}}, {name: a, module: {ref: n}}]",
			want:   []string{"provisioners[1]: there is another provisioner named a"},
		},
		"BadNames": {
			reason: "names are labels, since they become parts of others",
			spec:   "root: a\nprovisioners: [{name: a, module: {ref: m}}, {name: a/b, module: {ref: m}}, {name: '', module: {ref: m}}, {name: " + strings.Repeat("x", 64) + ", module: {ref: m}}]",
			want: []string{
				`provisioners[1]: the name "a/b" is not made of at most 63 lower-case letters, digits and dashes`,
				`provisioners[2]: the name "" is not made of at most 63 lower-case letters, digits and dashes`,
				`provisioners[3]: the name "` + strings.Repeat("x", 64) + `" is not made of at most 63 lower-case letters, digits and dashes`,
			},
		},
		"Self": {
			reason: "the shortest cycle",
			spec:   "root: a\nprovisioners: [{name: a, serial: {children: [a]}}]",
			want:   []string{"provisioners[a]: it is its own descendant: a -> a"},
		},
		"Cycle": {
			reason: "the whole cycle is named, and its members are not called unreachable",
			spec:   "root: a\nprovisioners: [{name: a, serial: {children: [b]}}, {name: b, conditional: {when: 'true', child: c}}, {name: c, concurrent: {children: [d, a]}}, {name: d, module: {ref: m}}]",
			want:   []string{"provisioners[a]: it is its own descendant: a -> b -> c -> a"},
		},
		"CycleApart": {
			reason: "also one that the root does not reach",
			spec:   "root: a\nprovisioners: [{name: a, module: {ref: m}}, {name: b, serial: {children: [c]}}, {name: c, serial: {children: [b]}}]",
			want:   []string{"provisioners[b]: it is its own descendant: b -> c -> b"},
		},
		"CycleBelow": {
			reason: "a cycle that is entered from outside makes a second parent as well",
			spec:   "root: a\nprovisioners: [{name: a, serial: {children: [b]}}, {name: b, serial: {children: [c]}}, {name: c, serial: {children: [b]}}]",
			want: []string{
				"provisioners[b]: it is a child of a and of c, and may have one parent",
				"provisioners[b]: it is its own descendant: b -> c -> b",
			},
		},
		"SecondParent": {
			reason: "both parents are named",
			spec:   "root: a\nprovisioners: [{name: a, serial: {children: [b, c]}}, {name: b, serial: {children: [c]}}, {name: c, module: {ref: m}}]",
			want:   []string{"provisioners[c]: it is a child of a and of b, and may have one parent"},
		},
		"ListedTwice": {
			reason: "one parent may not have a child twice",
			spec:   "root: a\nprovisioners: [{name: a, concurrent: {children: [b, b]}}, {name: b, module: {ref: m}}]",
			want:   []string{"provisioners[a]: its child b is listed twice"},
		},
		"Unreachable": {
			reason: "nothing may be left over, which is most likely forgotten",
			spec:   "root: a\nprovisioners: [{name: a, module: {ref: m}}, {name: b, serial: {children: [c]}}, {name: c, module: {ref: m}}]",
			want: []string{
				"provisioners[b]: no path leads to it from the root a; make it the child of a node, or remove it",
				"provisioners[c]: no path leads to it from the root a; make it the child of a node, or remove it",
			},
		},
		"EmptyRefs": {
			reason: "leaves name something",
			spec:   "root: a\nprovisioners: [{name: a, serial: {children: [b, c]}}, {name: b, module: {ref: ''}}, {name: c, application: {ref: ''}}]",
			want:   []string{"provisioners[b].ref: it names no Module", "provisioners[c].ref: it names no Application"},
		},
		"NegativeLimit": {
			reason: "a limit is a number of children",
			spec:   "root: a\nprovisioners: [{name: a, concurrent: {children: [], limit: -1}}]",
			want:   []string{"provisioners[a].limit: it must not be negative"},
		},
		"Documents": {
			reason: "configs and values are objects",
			spec:   "root: a\nprovisioners: [{name: a, serial: {children: [b, c, d]}}, {name: b, module: {ref: m, config: [1]}}, {name: c, application: {ref: m, values: text}}, {name: d, module: {ref: m, config: \"x${1}\"}}]",
			want:   []string{"provisioners[b].config: it must be an object", "provisioners[c].values: it must be an object", "provisioners[d].config: it must be an object"},
		},
		"UnknownRemote": {
			reason: "a remote is declared",
			spec:   "root: a\nprovisioners: [{name: a, remotecluster: {remote: r, child: b}}, {name: b, module: {ref: m}}]",
			want:   []string{`provisioners[a].remote: there is no remote named "r"`},
		},
		"Remotes": {
			reason: "remotes are checked as nodes are",
			spec: "root: a\nprovisioners: [{name: a, module: {ref: m}}]\nremotes: [" + remote + ", " + remote + ", {name: 'R', kubeconfigSecret: {name: s}}, " +
				`{name: q, teardown: Never, unreachableGrace: -1s}, {name: p, within: x, kubeconfigSecret: {name: s}}, {name: two, vcluster: {name: v}, clusterAPI: {name: c}}, {name: none, vcluster: {}}]`,
			want: []string{
				"remotes[1]: there is another remote named r",
				`remotes[2]: the name "R" is not made of at most 63 lower-case letters, digits and dashes`,
				"remotes[none]: it does not say where its kubeconfig comes from: kubeconfigSecret, clusterAPI or vcluster",
				`remotes[p].within: there is no remote named "x"`,
				"remotes[q]: it does not say where its kubeconfig comes from: kubeconfigSecret, clusterAPI or vcluster",
				"remotes[q].teardown: it must be Drain, Discard or Orphan",
				"remotes[q].unreachableGrace: it must not be negative; 0s waits for ever",
				"remotes[two]: it says more than once where its kubeconfig comes from: only one of kubeconfigSecret, clusterAPI and vcluster may be given",
			},
		},
		"RemoteCycle": {
			reason: "on leads home",
			spec: "root: a\nprovisioners: [{name: a, module: {ref: m}}]\nremotes: " +
				`[{name: x, within: q, kubeconfigSecret: {name: s}}, {name: q, within: p, kubeconfigSecret: {name: s}}, {name: p, within: q, kubeconfigSecret: {name: s}}, {name: o, within: o, kubeconfigSecret: {name: s}}]`,
			want: []string{"remotes[o].within: it is within itself: o -> o", "remotes[q].within: it is within itself: q -> p -> q"},
		},
		"RemotePlace": {
			reason: "a remote is entered where it is resolved",
			spec: "root: a\nprovisioners:\n- {name: a, serial: {children: [b, c]}}\n- {name: b, remotecluster: {remote: inner, child: d}}\n- {name: d, module: {ref: m}}\n" +
				"- {name: c, remotecluster: {remote: r, child: e}}\n- {name: e, serial: {children: [f]}}\n- {name: f, remotecluster: {remote: r, child: g}}\n- {name: g, module: {ref: m}}\n" +
				"remotes: [" + remote + `, {name: inner, within: r, kubeconfigSecret: {name: s}}]`,
			want: []string{
				"provisioners[b].remote: it stands at home, and remote inner can only be entered inside remote r, as its within says",
				"provisioners[f].remote: it stands inside remote r, and remote r can only be entered at home, as it has no within",
			},
		},
		"Expressions": {
			reason: "each is told with its place",
			spec: "root: a\nprovisioners:\n- {name: a, serial: {children: [b, c, d]}}\n- {name: b, module: {ref: m, config: {podCIDR: \"${parameters.}\", list: [\"x-${\"]}}}\n" +
				"- {name: c, conditional: {when: '1 + 1', child: e}}\n- {name: e, module: {ref: m}}\n- {name: d, application: {ref: m, values: {a: {b: \"${nobody}\"}}}}",
			code: abi.ReasonInvalidExpression,
			want: []string{
				"provisioners[b].config.list[0]: at byte 2: ${ has no matching }; write $${ for the characters themselves",
				"provisioners[b].config.podCIDR: at character 12: Syntax error: no viable alternative at input '.'",
				"provisioners[c].when: the expression must be true or false, and is of type int",
				"provisioners[d].values.a.b: at character 1: undeclared reference to 'nobody' (in container '')",
			},
		},
		"EmptyWhen": {
			reason: "a condition says something",
			spec:   "root: a\nprovisioners: [{name: a, conditional: {when: ' ', child: b}}, {name: b, module: {ref: m}}]",
			code:   abi.ReasonInvalidExpression,
			want:   []string{"provisioners[a].when: the expression is empty"},
		},
		"Everything": {
			reason: "structure and expressions are told together, and the structure decides the reason",
			spec:   "root: a\nprovisioners: [{name: a, conditional: {when: 'x.', child: b}}]",
			want:   []string{`provisioners[a]: its child "b" is not one of the provisioners`, "provisioners[a].when: "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Build(parseStack(t, tc.spec), Dependencies{})
			var invalid *InvalidError
			require.ErrorAs(t, err, &invalid, tc.reason)
			require.Len(t, invalid.Findings, len(tc.want), "%s: %v", tc.reason, invalid)
			for i, finding := range invalid.Findings {
				require.True(t, strings.HasPrefix(finding.String(), tc.want[i]), "%s\nwant %s\ngot  %s", tc.reason, tc.want[i], finding)
			}
			outcome := provisioner.OutcomeOf(err)
			require.Equal(t, abi.Terminal, outcome.Class)
			code := tc.code
			if code == "" {
				code = abi.ReasonInvalidStack
			}
			require.Equal(t, code, outcome.Headline.Reason)
			require.Contains(t, outcome.Headline.Why, invalid.Findings[0].Problem, "the why lists what was found")
			sentence, _ := abi.HostSentence(code)
			require.True(t, strings.HasPrefix(outcome.Headline.Sentence, sentence+" "), "users see the fixed sentence")
			require.Contains(t, outcome.Headline.Sentence, invalid.Findings[0].Problem, "and what to correct, in words of their own spec")
			require.LessOrEqual(t, len(outcome.Headline.Sentence), len(sentence)+maxSentence+8, "but no flood of it")
		})
	}
}

func TestTooMany(t *testing.T) {
	stack := parseStack(t, flat(maxNodes))
	_, err := Build(stack, Dependencies{})
	require.NoError(t, err)
	_, err = Build(parseStack(t, flat(maxNodes+1)), Dependencies{})
	require.ErrorContains(t, err, "provisioners: there are 129 and 128 are allowed")
	for i := range maxRemotes + 1 {
		stack.Spec.Remotes = append(stack.Spec.Remotes, v1alpha1.Remote{Name: fmt.Sprintf("r%d", i), KubeconfigSecret: &v1alpha1.SecretKeyReference{Name: "s"}})
	}
	_, err = Build(stack, Dependencies{})
	require.ErrorContains(t, err, "remotes: there are 17 and 16 are allowed")
}

// flat is a serial and its children, of so many nodes.
func flat(nodes int) string {
	var children, list strings.Builder
	for i := 1; i < nodes; i++ {
		fmt.Fprintf(&children, "n%d, ", i)
		fmt.Fprintf(&list, "- {name: n%d, serial: {children: []}}\n", i)
	}
	return "root: n0\nprovisioners:\n- {name: n0, serial: {children: [" + children.String() + "]}}\n" + list.String()
}

func TestLongListsAreCut(t *testing.T) {
	var nodes strings.Builder
	for i := range 30 {
		fmt.Fprintf(&nodes, "- {name: x%02d, serial: {children: []}}\n", i)
	}
	_, err := Build(parseStack(t, "root: x00\nprovisioners:\n"+nodes.String()), Dependencies{})
	var invalid *InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Len(t, invalid.Findings, 29, "all are kept")
	require.Contains(t, invalid.Error(), "; and 19 more")
	require.Equal(t, "x01", invalid.Findings[0].Node)
}

func TestPathsOfKeys(t *testing.T) {
	for key, want := range map[string]string{
		"podCIDR": ".podCIDR", "a-b_1": ".a-b_1", "a.b": `["a.b"]`, "": `[""]`, `"`: `["\""]`, "ä": `["ä"]`,
	} {
		require.Equal(t, want, fieldPath(key))
	}
}

// FuzzBuild feeds trees of any shape: a Build must end, and either find something or
// make a tree in which every node has its path.
func FuzzBuild(f *testing.F) {
	f.Add([]byte{1, 2, 3, 0, 0, 0, 1, 1})
	f.Add([]byte{0})
	f.Add([]byte{7, 7, 7, 200, 3, 9, 27, 81})
	f.Fuzz(func(t *testing.T, shape []byte) {
		if len(shape) > 64 {
			return
		}
		spec := v1alpha1.StackSpec{Root: "n0", Remotes: []v1alpha1.Remote{
			{Name: "r0", KubeconfigSecret: &v1alpha1.SecretKeyReference{Name: "s"}},
			{Name: "r1", Within: "r0", KubeconfigSecret: &v1alpha1.SecretKeyReference{Name: "s"}},
		}}
		for i, b := range shape {
			spec.Provisioners = append(spec.Provisioners, shapedNode(i, int(b), len(shape)))
		}
		stack := &v1alpha1.Stack{Spec: spec}
		tree, err := Build(stack, Dependencies{})
		if err != nil {
			var invalid *InvalidError
			require.ErrorAs(t, err, &invalid)
			require.NotEmpty(t, invalid.Findings)
			return
		}
		require.Len(t, tree.Nodes(), len(shape), "every node is in the tree once")
	})
}

// shapedNode makes a node whose kind and children follow from a byte.
func shapedNode(index, shape, nodes int) v1alpha1.Node {
	child := fmt.Sprintf("n%d", (index+1+shape/8)%(nodes+1))
	node := v1alpha1.Node{Name: fmt.Sprintf("n%d", index)}
	switch shape % 8 {
	case 0, 1:
		node.Module = &v1alpha1.ModuleNode{Ref: "m"}
	case 2:
		node.Serial = &v1alpha1.SerialNode{Children: []string{child, fmt.Sprintf("n%d", index+2)}}
	case 3:
		node.Concurrent = &v1alpha1.ConcurrentNode{Children: []string{child}}
	case 4:
		node.Conditional = &v1alpha1.ConditionalNode{When: "true", Child: child}
	case 5:
		node.RemoteCluster = &v1alpha1.RemoteClusterNode{Remote: "r0", Child: child}
	case 6:
		node.RemoteCluster = &v1alpha1.RemoteClusterNode{Remote: "r1", Child: child}
	default:
		node.Serial = &v1alpha1.SerialNode{Children: []string{child}}
		node.Application = &v1alpha1.ApplicationNode{Ref: "a"}
	}
	return node
}
