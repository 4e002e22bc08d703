package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/application"
)

// giveFacts sets the facts that earlier passes left in the status.
func giveFacts(stack *v1alpha1.Stack, facts map[string]string) {
	stack.Status.Facts = map[string]apiextensionsv1.JSON{}
	for name, value := range facts {
		stack.Status.Facts[name] = apiextensionsv1.JSON{Raw: []byte(value)}
	}
}

func removals(w *world) []string {
	var found []string
	for _, line := range w.trace {
		if strings.HasPrefix(line, "remove ") {
			found = append(found, line)
		}
	}
	return found
}

// TestFactThatVanishesUninstallsNothing: what a condition once let in stays while nobody
// knows whether it still would, at any depth, and goes when it is known that it would not.
func TestFactThatVanishesUninstallsNothing(t *testing.T) {
	stack := parseStack(t, `
root: r
provisioners:
- {name: r, serial: {children: [c]}}
- {name: c, conditional: {when: "facts.gpu.count > 0 && parameters.wanted", child: s}}
- {name: s, concurrent: {children: [a, b]}}
- {name: a, application: {ref: m}}
- {name: b, application: {ref: m, values: {count: "${facts.gpu.count}"}}}
parameters: {wanted: true}
`)
	w := newWorld(t, stack)
	giveFacts(stack, map[string]string{"gpu": `{"count":2}`})
	_, err := pass(t, w, stack, "known")
	require.NoError(t, err)
	require.Len(t, w.installed, 2)
	for title, facts := range map[string]map[string]string{
		"lost": nil, "lost in part": {"gpu": `{}`}, "another one": {"net": `1`}, "null": {"gpu": `null`},
	} {
		giveFacts(stack, facts)
		_, err = pass(t, w, stack, title)
		outcome := provisioner.OutcomeOf(err)
		require.False(t, outcome.OK(), title)
		require.False(t, strings.HasPrefix(outcome.Headline.Path, "r/c/"), "%s: nothing below the condition was called", title)
		require.Len(t, w.installed, 2, title)
		if title != "null" {
			require.Equal(t, abi.Yield, outcome.Class, title)
			require.Equal(t, abi.ReasonFactsMissing, outcome.Headline.Reason, title)
		}
	}
	require.Empty(t, removals(w))
	giveFacts(stack, map[string]string{"gpu": `{"count":0}`})
	_, err = pass(t, w, stack, "none are left")
	require.NoError(t, err)
	require.Empty(t, w.installed)
}

// TestFactsReachLaterNodesOfTheSamePass: nobody waits a pass for what was published in it.
func TestFactsReachLaterNodesOfTheSamePass(t *testing.T) {
	stack := parseStack(t, `
root: r
provisioners:
- {name: r, serial: {children: [writer, reader, c]}}
- {name: writer, module: {ref: w}}
- {name: reader, module: {ref: m, config: {id: "${facts.net.id}"}}}
- {name: c, conditional: {when: "facts.net.id == 'n-1'", child: a}}
- {name: a, application: {ref: m, values: {id: "${facts.net.id}"}}}
`)
	w := newWorld(t, stack)
	w.facts["writer"] = map[string]json.RawMessage{"net": json.RawMessage(`{"id":"n-1"}`)}
	_, err := pass(t, w, stack, "the first")
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"n-1"}`, w.configs["provision reader"])
	require.Equal(t, "n-1", w.specs["r/c/a"].Values["id"])
}

// TestFactsOfAStackAreBounded: the bound is that of all nodes together, and one node too
// many publishes nothing and says so, while what was published before stays.
func TestFactsOfAStackAreBounded(t *testing.T) {
	stack := parseStack(t, `
root: r
provisioners:
- {name: r, serial: {children: [one, two]}}
- {name: one, module: {ref: m}}
- {name: two, module: {ref: m}}
`)
	sized := func(name string, bytes int) map[string]json.RawMessage {
		return map[string]json.RawMessage{name: json.RawMessage(`"` + strings.Repeat("x", bytes-len(name)-2) + `"`)}
	}
	w := newWorld(t, stack)
	w.facts["one"], w.facts["two"] = sized("one", 9<<10), sized("two", 7<<10)
	tree, err := pass(t, w, stack, "just enough")
	require.NoError(t, err)
	require.Len(t, tree.Facts(), 2)
	w.facts["two"] = sized("two", 7<<10+1)
	tree, err = pass(t, w, stack, "a byte too many")
	outcome := provisioner.OutcomeOf(err)
	require.Equal(t, abi.Retry, outcome.Class)
	require.Equal(t, abi.ReasonOutputTooLarge, outcome.Headline.Reason)
	require.Equal(t, "r/two", outcome.Headline.Path)
	require.Len(t, tree.Facts(), 1)
	require.Contains(t, tree.Facts(), "one")
}

// TestCase048RemovalWithoutACatalogue: what is switched off goes although its entry of the
// catalogue is gone, and so does what is deleted.
func TestCase048RemovalWithoutACatalogue(t *testing.T) {
	const spec = `
parameters: {wanted: true}
root: r
provisioners:
- {name: r, serial: {children: [c]}}
- {name: c, conditional: {when: parameters.wanted, child: a}}
- {name: a, application: {ref: m, version: 3.x, values: {x: "${facts.nowhere}"}}}
`
	gone := application.CatalogueFunc(func(context.Context, string) (*application.Entry, error) {
		return nil, fmt.Errorf("application: %w", provisioner.ErrNotFound)
	})
	for name, tc := range map[string]struct {
		reason string
		change func(*v1alpha1.Stack)
	}{
		"False": {"a condition that is false", func(s *v1alpha1.Stack) {
			s.Spec.Parameters["wanted"] = apiextensionsv1.JSON{Raw: []byte("false")}
			s.Generation++
		}},
		"Deleted": {"a Stack that is deleted", func(s *v1alpha1.Stack) { s.DeletionTimestamp = &metav1.Time{} }},
	} {
		t.Run(name, func(t *testing.T) {
			stack := parseStack(t, spec)
			w := newWorld(t, stack)
			giveFacts(stack, map[string]string{"nowhere": "1"})
			_, err := pass(t, w, stack, "up")
			require.NoError(t, err)
			require.Len(t, w.installed, 1)
			giveFacts(stack, nil)
			tc.change(stack)
			deps := w.dependencies()
			deps.Catalogue = gone
			tree, err := Build(stack, deps)
			require.NoError(t, err)
			run := tree.Provision
			if stack.DeletionTimestamp != nil {
				run = tree.Deprovision
			}
			require.NoError(t, run(w.context(t.Context())), tc.reason)
			require.Equal(t, []string{"remove r/c/a from home"}, removals(w), tc.reason)
			require.Empty(t, w.installed, tc.reason)
		})
	}
}

// TestCase049SwitchedOffFromTheStart: it is OK at once. That the driver's removal of what
// it does not know asks no cluster is the driver's own test.
func TestCase049SwitchedOffFromTheStart(t *testing.T) {
	stack := parseStack(t, leaves("- {name: r, conditional: {when: parameters.disabled, child: a}}", "a"))
	w := newWorld(t, stack)
	tree, err := pass(t, w, stack, "up")
	require.NoError(t, err)
	require.Empty(t, w.specs, "nothing was asked to be there")
	states := map[string]string{}
	for _, result := range tree.Results() {
		states[result.Name] = result.State
	}
	require.Equal(t, map[string]string{"r": "OK", "a": v1alpha1.NodeRemoved}, states)
}

// TestCase098NothingObservedIsNotOK: a tree of which nothing is known yet is waiting.
func TestCase098NothingObservedIsNotOK(t *testing.T) {
	stack := parseStack(t, demo)
	tree, err := Build(stack, newWorld(t, stack).dependencies())
	require.NoError(t, err)
	require.NotEmpty(t, tree.Results())
	require.False(t, slices.ContainsFunc(tree.Results(), func(r Result) bool { return r.State != v1alpha1.NodeWaiting }))
}
