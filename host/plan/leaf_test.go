package plan

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/application"
	"github.com/caisson-dev/caisson/host/provisioner/module"
	"github.com/caisson-dev/caisson/host/scope"
)

func TestApplicationLeaf(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		node   string
		want   cd.Application
		fails  string
	}{
		"Defaults": {
			reason: "what the node leaves open the catalogue decides", node: "{ref: web}",
			want: cd.Application{Chart: "web", Version: "3.1.0", Namespace: "default", Values: map[string]any{"from": "catalogue", "replicas": int64(1)}},
		},
		"Overrides": {
			reason: "what it says wins", node: "{ref: web, version: '>=3 <4', release: front, namespace: apps, createNamespace: true, allowDegraded: true, values: {replicas: 9007199254740993}, parameters: [{name: b.c, value: x}, {name: a, value: \"${not.evaluated}\"}]}",
			want: cd.Application{
				Chart: "web", Version: "3.1.0", Release: "front", Namespace: "apps", CreateNamespace: true, AllowDegraded: true,
				Values:     map[string]any{"from": "catalogue", "replicas": int64(9007199254740993)},
				Parameters: []cd.Parameter{{Name: "b.c", Value: "x"}, {Name: "a", Value: "${not.evaluated}"}},
			},
		},
		"Optional values": {
			reason: "an optional source may be absent", node: "{ref: web, valuesFrom: [{kind: Secret, name: gone, optional: true}]}",
			want: cd.Application{Chart: "web", Version: "3.1.0", Namespace: "default", Values: map[string]any{"from": "catalogue", "replicas": int64(1)}},
		},
		"Values absent":  {reason: "another may not", node: "{ref: web, valuesFrom: [{kind: ConfigMap, name: gone}]}", fails: abi.ReasonValuesMissing},
		"No version":     {reason: "the version exists", node: "{ref: web, version: 4.x}", fails: abi.ReasonVersionNotFound},
		"Bad release":    {reason: "the release name is one", node: "{ref: web, release: Not_OK}", fails: abi.ReasonInvalidRelease},
		"No scope of on": {reason: "the value of an unknown variable is no value", node: "{ref: web, values: {a: \"${scope.nothing}\"}}", fails: abi.ReasonInvalidExpression},
	} {
		t.Run(name, func(t *testing.T) {
			stack := parseStack(t, leafStack("application: "+tc.node))
			w := newWorld(t, stack)
			_, err := pass(t, w, stack, "")
			require.Equal(t, tc.fails, provisioner.OutcomeOf(err).Headline.Reason, "%s: %v", tc.reason, err)
			if tc.fails != "" {
				require.Empty(t, w.installed, "nothing is installed")
				return
			}
			got := *w.specs["a"]
			require.Equal(t, "oci://r.example.com/charts", got.Repo)
			require.NotEmpty(t, got.Release, "a release always has a name")
			if tc.want.Release == "" {
				got.Release = ""
			}
			got.ID, got.Repo = scope.ResourceIdentifier{}, ""
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

func TestModuleErrorsAreThoseOfTheSource(t *testing.T) {
	for reason, failure := range map[string]error{
		abi.ReasonModuleNotReady:   provisioner.Yield(abi.ReasonModuleNotReady, ""),
		abi.ReasonModuleNotAllowed: provisioner.UserActionRequired(abi.ReasonModuleNotAllowed, ""),
		abi.ReasonModuleFaulted:    provisioner.Retry(abi.ReasonModuleFaulted, ""),
		abi.ReasonUnexpected:       errors.New("the cache is not synced"),
	} {
		stack := parseStack(t, leafStack("module: {ref: m}"))
		w := newWorld(t, stack)
		deps := w.dependencies()
		deps.Modules = ModulesFunc(func(_ context.Context, namespace, name string) (*module.Instance, error) {
			require.Equal(t, "team/m", namespace+"/"+name, "the module is asked for on behalf of the Stack's namespace")
			return nil, failure
		})
		tree, err := Build(stack, deps)
		require.NoError(t, err)
		outcome := provisioner.OutcomeOf(tree.Provision(w.context(t.Context())))
		require.Equal(t, provisioner.OutcomeOf(failure).Class, outcome.Class)
		require.Equal(t, reason, outcome.Headline.Reason)
		require.False(t, w.inputs[0].Absent, "only what is known to be absent is recorded as that")
	}
}

// TestIdentity proves what makes a node another one, and what does not.
func TestIdentity(t *testing.T) {
	const original = "root: r\nprovisioners:\n- {name: r, serial: {children: [s]}}\n- {name: s, serial: {children: [a]}}\n- {name: a, application: {ref: m}}\n"
	identify := func(stack *v1alpha1.Stack, node string) string {
		b := &builder{compiled: mustCompile(t, stack), owner: ownerOf(stack)}
		return b.identity(node).Hash()
	}
	first := identify(parseStack(t, original), "a")

	renamed := parseStack(t, original)
	renamed.Spec.Provisioners[2].Application.Ref = "other"
	renamed.Generation = 99
	require.Equal(t, first, identify(renamed, "a"), "another application at the same place is an upgrade")

	concurrent := parseStack(t, "root: r\nprovisioners:\n- {name: a, application: {ref: m}}\n- {name: s, concurrent: {children: [a]}}\n- {name: r, serial: {children: [s]}}\n")
	require.Equal(t, first, identify(concurrent, "a"), "the kinds above it and the order of the list do not count")

	moved := parseStack(t, "root: r\nprovisioners:\n- {name: r, serial: {children: [s, a]}}\n- {name: s, serial: {children: []}}\n- {name: a, application: {ref: m}}\n")
	require.NotEqual(t, first, identify(moved, "a"), "another place is another identity")

	again := parseStack(t, original)
	again.UID = "u-2"
	require.NotEqual(t, first, identify(again, "a"), "and so is a Stack of the same name that was made anew")
}

// TestFactsFlow follows a fact from the module that publishes it to those that wait.
func TestFactsFlow(t *testing.T) {
	stack := parseStack(t, `
root: r
provisioners:
- {name: r, concurrent: {limit: 1, children: [reader, switched, writer]}}
- {name: reader, module: {ref: m, config: {id: "${facts.net.id}", all: "${facts.net}"}}}
- {name: switched, conditional: {when: "facts.net.gpus > 0", child: gpu}}
- {name: gpu, application: {ref: gpu, values: {count: "${facts.net.gpus}"}}}
- {name: writer, module: {ref: w}}
`)
	w := newWorld(t, stack)
	publish := func(fact string) { w.facts["writer"] = map[string]json.RawMessage{"net": json.RawMessage(fact)} }
	next := func(tree *Tree) {
		stack.Status.Facts = map[string]apiextensionsv1.JSON{}
		for name, raw := range tree.Facts() {
			stack.Status.Facts[name] = apiextensionsv1.JSON{Raw: raw}
		}
	}
	publish(`{"id":"n-1"}`)
	tree, err := pass(t, w, stack, "nothing is known yet, and the writer runs all the same")
	require.Equal(t, "r/reader", provisioner.OutcomeOf(err).Headline.Path)
	next(tree)
	publish(`{"id":"n-1","gpus":2}`)
	tree, err = pass(t, w, stack, "a part is known: the reader goes on, the condition waits")
	require.Equal(t, "r/switched", provisioner.OutcomeOf(err).Headline.Path)
	require.Equal(t, abi.ReasonFactsMissing, provisioner.OutcomeOf(err).Headline.Reason)
	next(tree)
	publish(`{"id":"n-1","gpus":0}`)
	tree, err = pass(t, w, stack, "all is known")
	require.NoError(t, err)
	require.Equal(t, int64(2), w.specs["r/switched/gpu"].Values["count"])
	next(tree)
	_, err = pass(t, w, stack, "the fact has changed, and the condition with it")
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"n-1","all":{"id":"n-1","gpus":0}}`, w.configs["provision reader"])

	stack.Status.Facts = nil
	stack.DeletionTimestamp = &metav1.Time{}
	_, err = pass(t, w, stack, "deleted, with the facts lost")
	require.NoError(t, err)
	require.JSONEq(t, `{}`, w.configs["deprovision reader"])
	golden(t, "facts", joinLines(w.trace))
}

// TestInputsMayBeLeftOut proves that a tree runs with the least that it needs.
func TestInputsMayBeLeftOut(t *testing.T) {
	stack := parseStack(t, leafStack("application: {ref: m}"))
	w := newWorld(t, stack)
	tree, err := Build(stack, Dependencies{Driver: w, Catalogue: application.CatalogueFunc(w.entry)})
	require.NoError(t, err)
	require.NoError(t, tree.Provision(w.context(t.Context())))
	require.NotEmpty(t, w.installed)
}

func TestWithoutAScope(t *testing.T) {
	for _, node := range []string{"application: {ref: m}", "module: {ref: m}"} {
		stack := parseStack(t, leafStack(node))
		w := newWorld(t, stack)
		tree, err := Build(stack, w.dependencies())
		require.NoError(t, err)
		outcome := provisioner.OutcomeOf(tree.Provision(t.Context()))
		require.Equal(t, abi.Retry, outcome.Class, "a fault of the host never parks a Stack")
		require.Empty(t, w.trace)
	}
}
