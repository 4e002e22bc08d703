package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// demo has every kind of node. The concurrent runs one child at a time, so that the
// trace has one order.
const demo = `
parameters: {gpu: false, podCIDR: 10.1.0.0/16}
remotes:
- {name: workload, owned: true, teardown: Drain, kubeconfigSecret: {name: workload-kubeconfig}}
root: all
provisioners:
- {name: all, serial: {children: [on-workload]}}
- {name: on-workload, remotecluster: {remote: workload, child: platform}}
- {name: platform, serial: {children: [cni, addons, gpu]}}
- {name: cni, module: {ref: cilium, config: {podCIDR: "${parameters.podCIDR}", remote: "${scope.remote}"}}}
- {name: addons, concurrent: {limit: 1, children: [metrics, storage, ingress], upConcurrentDownSerial: true}}
- {name: metrics, application: {ref: metrics-server, version: 3.x, namespace: kube-system, values: {net: "${facts.net.id}", replicas: 2, none: null}}}
- {name: storage, module: {ref: storage, config: {net: "${facts.net.id}", class: fast}}}
- {name: ingress, module: {ref: ingress}}
- {name: gpu, conditional: {when: parameters.gpu, child: gpu-operator}}
- {name: gpu-operator, application: {ref: gpu-operator}}
`

// pass builds a tree, runs it one way, and adds what happened to the world's trace.
func pass(t *testing.T, w *world, stack *v1alpha1.Stack, title string) (*Tree, error) {
	t.Helper()
	tree, err := Build(stack, w.dependencies())
	require.NoError(t, err)
	w.logf("== %s", title)
	if stack.DeletionTimestamp != nil {
		err = tree.Deprovision(w.context(t.Context()))
	} else {
		err = tree.Provision(w.context(t.Context()))
	}
	outcome := provisioner.OutcomeOf(err)
	w.logf("-- %s %s %s", outcome.Class, outcome.Headline.Reason, outcome.Headline.Path)
	for _, r := range tree.Results() {
		w.logf("   %-54s %-13s %s %s", r.Path, r.Kind, r.State, r.Reason)
	}
	return tree, err
}

func TestGoldenTrace(t *testing.T) {
	stack := parseStack(t, demo)
	w := newWorld(t, stack)
	w.facts["cni"] = map[string]json.RawMessage{"net": json.RawMessage(`{"id":"n-1"}`)}
	yield := provisioner.Yield(abi.ReasonApplicationWaiting, "")

	w.will("all/on-workload/platform/cni", yield)
	_, err := pass(t, w, stack, "cni yields, and nothing behind it runs")
	require.ErrorContains(t, err, "all: on-workload: platform: cni: ")
	w.will("all/on-workload/platform/addons/metrics", yield)
	_, err = pass(t, w, stack, "metrics yields, and its siblings run")
	require.Error(t, err)
	tree, err := pass(t, w, stack, "all is well")
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"n-1"}`, string(tree.Facts()["net"]))

	stack.Spec.Parameters["gpu"] = apiextensionsv1.JSON{Raw: []byte("true")}
	_, err = pass(t, w, stack, "gpu is switched on")
	require.NoError(t, err)
	stack.Spec.Parameters["gpu"] = apiextensionsv1.JSON{Raw: []byte("false")}
	w.will("all/on-workload/platform/gpu/gpu-operator", provisioner.Terminal(abi.ReasonForbidden, ""))
	_, err = pass(t, w, stack, "gpu is switched off, and its removal fails")
	require.Error(t, err)
	_, err = pass(t, w, stack, "its removal succeeds")
	require.NoError(t, err)

	stack.DeletionTimestamp = &metav1.Time{}
	w.will("all/on-workload/platform/addons/metrics", provisioner.Yield(abi.ReasonApplicationDeleting, ""))
	_, err = pass(t, w, stack, "deleted: metrics takes its time")
	require.Error(t, err)
	_, err = pass(t, w, stack, "deleted: the remote goes last")
	require.NoError(t, err)
	golden(t, "demo", joinLines(w.trace))
	require.Empty(t, w.installed)
	require.Empty(t, w.clusters)
}

func TestBuildCallsNobody(t *testing.T) {
	stack := parseStack(t, demo)
	before := stack.DeepCopy()
	tree, err := Build(stack, Dependencies{})
	require.NoError(t, err, "a build needs no dependency")
	require.Equal(t, before, stack, "and changes nothing")
	var paths []string
	for _, node := range tree.Nodes() {
		paths = append(paths, node.Path+" "+node.Kind)
	}
	require.Equal(t, []string{
		"all serial",
		"all/on-workload remotecluster",
		"all/on-workload/platform serial",
		"all/on-workload/platform/addons concurrent",
		"all/on-workload/platform/addons/ingress module",
		"all/on-workload/platform/addons/metrics application",
		"all/on-workload/platform/addons/storage module",
		"all/on-workload/platform/cni module",
		"all/on-workload/platform/gpu conditional",
		"all/on-workload/platform/gpu/gpu-operator application",
	}, paths)
	for _, result := range tree.Results() {
		require.Equal(t, v1alpha1.NodeWaiting, result.State, "nothing has been reached")
	}
	require.NotNil(t, tree.Facts())
}

// TestExample builds the Stack that newcomers see first.
func TestExample(t *testing.T) {
	raw, err := os.ReadFile("../../examples/platform/stack.yaml")
	require.NoError(t, err)
	var stack v1alpha1.Stack
	require.NoError(t, yaml.UnmarshalStrict(raw, &stack))
	tree, err := Build(&stack, Dependencies{})
	require.NoError(t, err)
	require.Len(t, tree.Nodes(), len(stack.Spec.Provisioners))
}

func TestLeavesGetWhatTheSpecSays(t *testing.T) {
	stack := parseStack(t, demo)
	w := newWorld(t, stack)
	stack.Status.Facts = map[string]apiextensionsv1.JSON{"net": {Raw: []byte(`{"id":"n-0"}`)}, "none": {}}
	w.facts["cni"] = map[string]json.RawMessage{"net": json.RawMessage(`{"id":"n-1"}`)}
	tree, err := pass(t, w, stack, "")
	require.NoError(t, err)

	require.JSONEq(t, `{"podCIDR":"10.1.0.0/16","remote":true}`, w.configs["provision cni"])
	require.JSONEq(t, `{"net":"n-1","class":"fast"}`, w.configs["provision storage"], "a fact of this pass wins over one of the last")
	require.JSONEq(t, `{}`, w.configs["provision ingress"], "no config is an empty one")
	app := w.specs["all/on-workload/platform/addons/metrics"]
	require.Equal(t, map[string]any{"net": "n-1", "replicas": int64(2), "none": nil, "from": "catalogue"}, app.Values)
	require.Equal(t, "3.1.0", app.Version)
	require.Equal(t, "kube-system", app.Namespace)
	require.Equal(t, scope.ResourceIdentifier{Owner: ownerOf(stack), Path: "all/on-workload/platform/addons/metrics", Name: "metrics"}, app.ID)
	require.JSONEq(t, `null`, string(tree.Facts()["none"]), "facts of the status are kept, null as well")

	recorded := map[string]string{}
	for _, i := range w.inputs {
		recorded[i.Kind+" "+i.Name] = i.ScopeID + " " + fmt.Sprint(i.Absent)
	}
	require.Equal(t, map[string]string{
		"Secret workload-kubeconfig": "home false", "Application metrics-server": "home false",
		"Module cilium": "home false", "Module storage": "home false", "Module ingress": "home false",
	}, recorded, "everything that was read is recorded")
}

// leafStack is a single node at the root.
func leafStack(kind string) string {
	return "parameters: {n: 1, list: [1]}\nroot: a\nprovisioners:\n- {name: a, " + kind + "}\n"
}

func TestOutcomes(t *testing.T) {
	for name, tc := range map[string]struct {
		reason      string
		spec        string
		facts       string
		disposition abi.Disposition
		want        string
		calls       int
	}{
		"Config":          {reason: "an absent fact is waited for", spec: leafStack(`module: {ref: m, config: {a: "${facts.x}"}}`), disposition: abi.Yield, want: abi.ReasonFactsMissing},
		"ConfigPart":      {reason: "also one that is there in part", spec: leafStack(`module: {ref: m, config: {a: "${facts.x.y.z}"}}`), facts: `{"y":{}}`, disposition: abi.Yield, want: abi.ReasonFactsMissing},
		"ConfigThere":     {reason: "a fact that is there is used", spec: leafStack(`module: {ref: m, config: {a: "${facts.x.y}"}}`), facts: `{"y":1}`, calls: 1},
		"Values":          {reason: "values wait as well", spec: leafStack(`application: {ref: m, values: {a: "x-${facts.x}"}}`), disposition: abi.Yield, want: abi.ReasonFactsMissing},
		"Parameter":       {reason: "an absent parameter is a fault of the spec", spec: leafStack(`module: {ref: m, config: {a: "${parameters.absent}"}}`), disposition: abi.Terminal, want: abi.ReasonInvalidExpression},
		"Type":            {reason: "so is an operator that does not fit", spec: leafStack(`application: {ref: m, values: {a: "${parameters.n + 'x'}"}}`), disposition: abi.Terminal, want: abi.ReasonInvalidExpression},
		"NotAnObject":     {reason: "a config is an object", spec: leafStack(`module: {ref: m, config: "${parameters.list}"}`), disposition: abi.Terminal, want: abi.ReasonInvalidConfig},
		"Object":          {reason: "which one expression may be", spec: leafStack(`module: {ref: m, config: "${facts}"}`), calls: 1},
		"Unknown":         {reason: "a condition over an absent fact removes nothing", spec: leafStack("conditional: {when: facts.x, child: b}}\n- {name: b, application: {ref: m}"), disposition: abi.Yield, want: abi.ReasonFactsMissing},
		"UnknownNegated":  {reason: "nor does its opposite", spec: leafStack("conditional: {when: '!facts.x', child: b}}\n- {name: b, application: {ref: m}"), disposition: abi.Yield, want: abi.ReasonFactsMissing},
		"False":           {reason: "a false one does", spec: leafStack("conditional: {when: facts.x, child: b}}\n- {name: b, application: {ref: m}"), facts: "false", calls: 1},
		"ConditionType":   {reason: "a condition that turns out to be no bool removes nothing", spec: leafStack("conditional: {when: parameters.n, child: b}}\n- {name: b, application: {ref: m}"), disposition: abi.Terminal, want: abi.ReasonInvalidExpression},
		"ConditionFails":  {reason: "nor does one that fails", spec: leafStack("conditional: {when: parameters.absent, child: b}}\n- {name: b, application: {ref: m}"), disposition: abi.Terminal, want: abi.ReasonInvalidExpression},
		"Scope":           {reason: "the scope is a variable of conditions too", spec: leafStack("conditional: {when: scope.id == 'home' && !scope.remote, child: b}}\n- {name: b, application: {ref: m}"), calls: 1},
		"Resource":        {reason: "and the owner", spec: leafStack("conditional: {when: \"resource.metadata.name == 'demo' && resource.spec.root == 'a' && resource.kind == 'Stack'\", child: b}}\n- {name: b, application: {ref: m}"), calls: 1},
		"ModuleAbsent":    {reason: "what the source of modules says is returned", spec: leafStack(`module: {ref: absent}`), disposition: abi.UserActionRequired, want: abi.ReasonModuleNotFound},
		"EmptySerial":     {reason: "an empty serial is OK", spec: leafStack(`serial: {children: []}`)},
		"EmptyConcurrent": {reason: "an empty concurrent too", spec: leafStack(`concurrent: {children: []}`)},
	} {
		t.Run(name, func(t *testing.T) {
			stack := parseStack(t, tc.spec)
			if tc.facts != "" {
				stack.Status.Facts = map[string]apiextensionsv1.JSON{"x": {Raw: []byte(tc.facts)}}
			}
			w := newWorld(t, stack)
			tree, err := Build(stack, w.dependencies())
			require.NoError(t, err)
			outcome := provisioner.OutcomeOf(tree.Provision(w.context(t.Context())))
			require.Equal(t, tc.disposition, outcome.Class, "%s: %s", tc.reason, outcome.Headline.Why)
			require.Equal(t, tc.want, outcome.Headline.Reason, tc.reason)
			require.Len(t, w.trace, tc.calls, tc.reason)
			if tc.want != "" {
				require.Equal(t, "a", outcome.Headline.Path)
				require.Equal(t, tc.want, tree.Results()[0].Reason)
			}
		})
	}
}

func TestModuleInputsAreRecorded(t *testing.T) {
	stack := parseStack(t, leafStack(`module: {ref: absent}`))
	w := newWorld(t, stack)
	_, err := pass(t, w, stack, "")
	require.Error(t, err)
	require.Equal(t, []provisioner.Input{{ScopeID: scope.HomeID, Kind: "Module", Name: "absent", Absent: true}}, w.inputs)
}

func TestRemovalNeedsNoExpression(t *testing.T) {
	stack := parseStack(t, `
root: all
provisioners:
- {name: all, serial: {children: [a, c]}}
- {name: a, module: {ref: m, config: {known: 1, fact: "${facts.x.y}", broken: "${1 +}", parameter: "${parameters.p}"}}}
- {name: c, conditional: {when: "facts.", child: b}}
- {name: b, application: {ref: m, values: {x: "${facts.x}"}}}
`)
	w := newWorld(t, stack)
	_, err := Build(stack, w.dependencies())
	require.Equal(t, abi.ReasonInvalidExpression, provisioner.OutcomeOf(err).Headline.Reason, "the Stack cannot be provisioned")
	stack.DeletionTimestamp = &metav1.Time{}
	_, err = pass(t, w, stack, "")
	require.NoError(t, err, "and can be removed")
	require.JSONEq(t, `{"known":1}`, w.configs["deprovision a"], "with what of the config can be known")
	require.Contains(t, w.trace, "remove all/c/b from home")
}

func TestRemovalNeedsTheStructure(t *testing.T) {
	stack := parseStack(t, leafStack(`serial: {children: [gone]}`))
	stack.DeletionTimestamp = &metav1.Time{}
	_, err := Build(stack, Dependencies{})
	require.Equal(t, abi.ReasonInvalidStack, provisioner.OutcomeOf(err).Headline.Reason)
}

func TestShutdownSaysNothing(t *testing.T) {
	stack := parseStack(t, demo)
	w := newWorld(t, stack)
	tree, err := Build(stack, w.dependencies())
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(w.context(t.Context()))
	cancel(provisioner.ErrShutdown)
	require.True(t, provisioner.OutcomeOf(tree.Provision(ctx)).Cancelled)
	for _, result := range tree.Results() {
		require.Equal(t, v1alpha1.NodeWaiting, result.State)
	}
	require.Empty(t, w.trace)
}

func TestNestedRemotes(t *testing.T) {
	stack := parseStack(t, `
remotes:
- {name: inner, within: workload, owned: true, kubeconfigSecret: {name: inner}}
- {name: workload, owned: true, kubeconfigSecret: {name: workload-kubeconfig}}
- {name: unused, owned: true, kubeconfigSecret: {name: other}}
root: outer
provisioners:
- {name: outer, remotecluster: {remote: workload, child: both}}
- {name: both, serial: {children: [here, nested]}}
- {name: here, application: {ref: m}}
- {name: nested, remotecluster: {remote: inner, child: there}}
- {name: there, application: {ref: m}}
`)
	w := newWorld(t, stack)
	b := &builder{compiled: mustCompile(t, stack), owner: ownerOf(stack)}
	require.Equal(t, []string{"workload", "inner", "unused"}, b.remoteOrder, "the outer one comes first")
	require.Equal(t, []scope.ResourceIdentifier{RemoteID(b.owner, "inner")}, b.nested("workload"))
	require.Empty(t, b.nested("inner"))

	// The inner remote's Secret is looked for on the outer one, whose API answers nothing
	// useful, so it is not found out: what is outside of it comes up.
	_, err := pass(t, w, stack, "")
	require.Error(t, err)
	require.Contains(t, w.trace, "ensure outer/both/here in workload")

	stack.DeletionTimestamp = &metav1.Time{}
	_, err = pass(t, w, stack, "")
	require.NoError(t, err)
	require.NotContains(t, w.clusters, "remote/workload")
	var finished []string
	for _, line := range w.trace {
		if strings.HasPrefix(line, "deregister") {
			finished = append(finished, line)
		}
	}
	require.Equal(t, []string{"deregister remote/unused", "deregister remote/inner", "deregister remote/workload"}, finished, "the innermost first, unused ones too")
}

func mustCompile(t *testing.T, stack *v1alpha1.Stack) *compiled {
	t.Helper()
	c, err := compile(stack)
	require.NoError(t, err)
	require.NoError(t, c.found.terminal())
	return c
}
