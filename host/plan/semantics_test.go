package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// leaves appends applications of these names to a list of nodes.
func leaves(nodes string, names ...string) string {
	var b strings.Builder
	b.WriteString("parameters: {enabled: true, disabled: false}\nroot: r\nprovisioners:\n" + strings.TrimSpace(nodes) + "\n")
	for _, name := range names {
		b.WriteString("- {name: " + name + ", application: {ref: m}}\n")
	}
	return b.String()
}

// TestSemantics proves that a spec means what the combinators promise: the same algebra,
// reached through names, with paths that a user recognises.
func TestSemantics(t *testing.T) {
	y := provisioner.Yield(abi.ReasonApplicationWaiting, "")
	retry := provisioner.Retry(abi.ReasonApplicationFailed, "")
	user := provisioner.UserActionRequired(abi.ReasonForbidden, "")
	terminal := provisioner.Terminal(abi.ReasonChartNotFound, "")
	for name, tc := range map[string]struct {
		reason string
		spec   string
		// results are those of leaves, by path.
		results  map[string]error
		deleting bool
		class    abi.Disposition
		headline abi.Disposition
		path     string
		// calls are the leaves in the order of their calls; sorted if the order is free.
		calls []string
		free  bool
		// states are those of some nodes, by name.
		states map[string]string
	}{
		"SerialStops": {
			reason: "a serial stops at the first child that is not OK", spec: leaves("- {name: r, serial: {children: [a, b, c]}}", "a", "b", "c"),
			results: map[string]error{"r/b": y}, class: abi.Yield, headline: abi.Yield, path: "r/b", calls: []string{"a", "b"},
			states: map[string]string{"r": "Yield", "a": "OK", "b": "Yield", "c": v1alpha1.NodeWaiting},
		},
		"SerialHidesWhatIsBehind": {
			reason: "what is not reached is not told", spec: leaves("- {name: r, serial: {children: [a, b]}}", "a", "b"),
			results: map[string]error{"r/a": y, "r/b": terminal}, class: abi.Yield, headline: abi.Yield, path: "r/a", calls: []string{"a"},
		},
		"SerialParks": {
			reason: "a terminal child parks", spec: leaves("- {name: r, serial: {children: [a, b]}}", "a", "b"),
			results: map[string]error{"r/a": terminal}, class: abi.Terminal, headline: abi.Terminal, path: "r/a", calls: []string{"a"},
		},
		"SerialDown": {
			reason: "the way down is the reverse, and reaches what never came up", spec: leaves("- {name: r, serial: {children: [a, b, c]}}", "a", "b", "c"),
			deleting: true, calls: []string{"c", "b", "a"}, states: map[string]string{"r": v1alpha1.NodeRemoved, "a": v1alpha1.NodeRemoved},
		},
		"SerialDownStops": {
			reason: "and stops at what is not gone", spec: leaves("- {name: r, serial: {children: [a, b, c]}}", "a", "b", "c"),
			deleting: true, results: map[string]error{"r/b": y}, class: abi.Yield, headline: abi.Yield, path: "r/b", calls: []string{"c", "b"},
			states: map[string]string{"r": "Yield", "a": v1alpha1.NodeWaiting, "b": "Yield", "c": v1alpha1.NodeRemoved},
		},
		"DownNeverParks": {
			reason: "a removal is tried again, whatever is wrong", spec: leaves("- {name: r, serial: {children: [a, b]}}", "a", "b"),
			deleting: true, results: map[string]error{"r/b": terminal}, class: abi.Retry, headline: abi.Retry, path: "r/b", calls: []string{"b"},
			states: map[string]string{"r": "Retry", "b": "Retry", "a": v1alpha1.NodeWaiting},
		},
		"ConcurrentRunsAll": {
			reason: "a concurrent runs every child, and the first in the list wins ties", spec: leaves("- {name: r, concurrent: {children: [a, b, c]}}", "a", "b", "c"),
			results: map[string]error{"r/a": retry, "r/b": retry}, class: abi.Retry, headline: abi.Retry, path: "r/a", calls: []string{"a", "b", "c"}, free: true,
			states: map[string]string{"r": "Retry", "a": "Retry", "b": "Retry", "c": "OK"},
		},
		"ProgressDecidesTheSchedule": {
			reason: "a yield keeps a Stack going beside a terminal child, which is what is shown", spec: leaves("- {name: r, concurrent: {children: [a, b]}}", "a", "b"),
			results: map[string]error{"r/a": y, "r/b": terminal}, class: abi.Yield, headline: abi.Terminal, path: "r/b", calls: []string{"a", "b"}, free: true,
			states: map[string]string{"r": "Terminal"},
		},
		"Parked": {
			reason: "without progress it parks, on the more severe child", spec: leaves("- {name: r, concurrent: {children: [a, b]}}", "a", "b"),
			results: map[string]error{"r/a": user, "r/b": terminal}, class: abi.Terminal, headline: abi.Terminal, path: "r/b", calls: []string{"a", "b"}, free: true,
		},
		"Nested": {
			reason: "the path leads through every combinator",
			spec:   leaves("- {name: r, concurrent: {children: [s, t]}}\n- {name: s, serial: {children: [a, b]}}\n- {name: t, serial: {children: [c, d]}}", "a", "b", "c", "d"),
			results: map[string]error{
				"r/s/b": terminal, "r/t/c": y,
			}, class: abi.Yield, headline: abi.Terminal, path: "r/s/b", calls: []string{"a", "b", "c"}, free: true,
			states: map[string]string{"s": "Terminal", "t": "Yield", "d": v1alpha1.NodeWaiting},
		},
		"UpConcurrentDownSerial": {
			reason: "one tree comes up at once and goes down in order",
			spec:   leaves("- {name: r, concurrent: {children: [a, b, c], upConcurrentDownSerial: true}}", "a", "b", "c"), deleting: true,
			results: map[string]error{"r/b": y}, class: abi.Yield, headline: abi.Yield, path: "r/b", calls: []string{"c", "b"},
		},
		"DownConcurrent": {
			reason: "without it all go down at once", spec: leaves("- {name: r, concurrent: {children: [a, b]}}", "a", "b"), deleting: true,
			results: map[string]error{"r/b": y}, class: abi.Yield, headline: abi.Yield, path: "r/b", calls: []string{"a", "b"}, free: true,
		},
		"ConditionTrue": {
			reason: "what a condition lets through is passed on", spec: leaves("- {name: r, conditional: {when: parameters.enabled, child: a}}", "a"),
			results: map[string]error{"r/a": terminal}, class: abi.Terminal, headline: abi.Terminal, path: "r/a", calls: []string{"a"},
		},
		"ConditionFalse": {
			reason: "what it keeps out is removed, with everything below",
			spec:   leaves("- {name: r, conditional: {when: parameters.disabled, child: s}}\n- {name: s, serial: {children: [a, b]}}", "a", "b"),
			calls:  []string{"-b", "-a"}, states: map[string]string{"r": "OK", "s": v1alpha1.NodeRemoved, "a": v1alpha1.NodeRemoved, "b": v1alpha1.NodeRemoved},
		},
		"ConditionFalseBlocks": {
			reason: "a removal that takes its time holds up a surrounding serial",
			spec:   leaves("- {name: r, serial: {children: [c, b]}}\n- {name: c, conditional: {when: parameters.disabled, child: a}}", "a", "b"),
			results: map[string]error{
				"r/c/a": y,
			}, class: abi.Yield, headline: abi.Yield, path: "r/c/a", calls: []string{"-a"},
			states: map[string]string{"c": "Yield", "a": "Yield", "b": v1alpha1.NodeWaiting},
		},
		"ConditionFalseNeverParks": {
			reason: "nor does it park", spec: leaves("- {name: r, conditional: {when: parameters.disabled, child: a}}", "a"),
			results: map[string]error{"r/a": user}, class: abi.Retry, headline: abi.Retry, path: "r/a", calls: []string{"-a"},
		},
		"ConditionUnknown": {
			reason: "while it is unknown the child is left as it is", spec: leaves("- {name: r, conditional: {when: facts.x, child: a}}", "a"),
			class: abi.Yield, headline: abi.Yield, path: "r", states: map[string]string{"r": "Yield", "a": v1alpha1.NodeWaiting},
		},
		"ConditionDown": {
			reason: "on the way down it is not asked", spec: leaves("- {name: r, conditional: {when: facts.x, child: a}}", "a"), deleting: true,
			calls: []string{"a"}, states: map[string]string{"r": v1alpha1.NodeRemoved, "a": v1alpha1.NodeRemoved},
		},
		"MixedDown": {
			reason: "the last goes first, then those beside each other, then the first",
			spec:   leaves("- {name: r, serial: {children: [a, s, d]}}\n- {name: s, concurrent: {limit: 1, children: [b, c]}}", "a", "b", "c", "d"), deleting: true,
			calls: []string{"d", "b", "c", "a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			stack := parseStack(t, tc.spec)
			w := newWorld(t, stack)
			for path, err := range tc.results {
				w.will(path, err)
			}
			if tc.deleting {
				stack.DeletionTimestamp = &metav1.Time{}
			}
			tree, err := Build(stack, w.dependencies())
			require.NoError(t, err)
			if tc.deleting {
				err = tree.Deprovision(w.context(t.Context()))
			} else {
				err = tree.Provision(w.context(t.Context()))
			}
			outcome := provisioner.OutcomeOf(err)
			require.Equal(t, tc.class, outcome.Class, tc.reason)
			require.Equal(t, tc.headline, outcome.Headline.Disposition, tc.reason)
			require.Equal(t, tc.path, outcome.Headline.Path, tc.reason)
			calls := callsOf(w, tc.deleting)
			if tc.free {
				slices.Sort(calls)
			}
			require.Equal(t, tc.calls, calls, tc.reason)
			states := map[string]string{}
			for _, result := range tree.Results() {
				states[result.Name] = result.State
			}
			for node, state := range tc.states {
				require.Equal(t, state, states[node], "%s: %s", tc.reason, node)
			}
		})
	}
}

// callsOf returns the names of the leaves in the order of their calls, with a minus for
// one that goes against the direction of the pass.
func callsOf(w *world, deleting bool) []string {
	var calls []string
	for _, line := range w.trace {
		verb, rest, _ := strings.Cut(line, " ")
		path, _, _ := strings.Cut(rest, " ")
		name := path[strings.LastIndex(path, "/")+1:]
		if (verb == "remove") != deleting {
			name = "-" + name
		}
		calls = append(calls, name)
	}
	return calls
}

const onRemote = `
remotes: [{name: workload, owned: true, kubeconfigSecret: {name: workload-kubeconfig}}]
root: r
provisioners:
- {name: r, concurrent: {limit: 1, children: [x, v, z]}}
- {name: x, remotecluster: {remote: workload, child: a}}
- {name: v, remotecluster: {remote: workload, child: b}}
- {name: z, conditional: {when: "!facts.off", child: c}}
- {name: a, application: {ref: m}}
- {name: b, application: {ref: m}}
- {name: c, remotecluster: {remote: workload, child: d}}
- {name: d, application: {ref: m}}
`

func TestRemotes(t *testing.T) {
	stack := parseStack(t, onRemote)
	off := func(value string) {
		stack.Status.Facts = map[string]apiextensionsv1.JSON{"off": {Raw: []byte(value)}}
	}
	w := newWorld(t, stack)
	run := func(title string) ([]string, error) {
		before := len(w.trace)
		_, err := pass(t, w, stack, title)
		var lines []string
		for _, line := range w.trace[before:] {
			if !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "=") && !strings.HasPrefix(line, "-") {
				lines = append(lines, line)
			}
		}
		return lines, err
	}

	off("false")
	lines, err := run("up")
	require.NoError(t, err)
	require.Equal(t, []string{
		"register remote/workload", "ensure r/x/a in workload", "ensure r/v/b in workload", "ensure r/z/c/d in workload",
	}, lines, "all nodes on a remote share one registration")

	off("true")
	lines, err = run("one is switched off")
	require.NoError(t, err)
	require.NotContains(t, lines, "deregister remote/workload", "a pass upwards never deregisters")
	require.Contains(t, lines, "remove r/z/c/d from workload")

	stack.DeletionTimestamp = &metav1.Time{}
	w.will("r/v/b", provisioner.Yield(abi.ReasonApplicationDeleting, ""))
	lines, err = run("one takes its time")
	require.Error(t, err)
	require.NotContains(t, lines, "deregister remote/workload", "the remote is needed until the last is gone")
	lines, err = run("all are gone")
	require.NoError(t, err)
	require.Equal(t, "deregister remote/workload", lines[len(lines)-1])
}

// TestRemoteGoesBeforeTheRest proves that what is left elsewhere does not keep a remote
// registered.
func TestRemoteGoesBeforeTheRest(t *testing.T) {
	stack := parseStack(t, `
remotes: [{name: workload, owned: true, kubeconfigSecret: {name: workload-kubeconfig}}]
root: r
provisioners:
- {name: r, serial: {children: [home, x]}}
- {name: home, application: {ref: m}}
- {name: x, remotecluster: {remote: workload, child: a}}
- {name: a, application: {ref: m}}
`)
	w := newWorld(t, stack)
	_, err := pass(t, w, stack, "up")
	require.NoError(t, err)
	stack.DeletionTimestamp = &metav1.Time{}
	w.will("r/home", provisioner.Yield(abi.ReasonApplicationDeleting, ""))
	_, err = pass(t, w, stack, "down")
	require.Equal(t, "r/home", provisioner.OutcomeOf(err).Headline.Path)
	require.Contains(t, w.trace, "deregister remote/workload")
	require.Empty(t, w.clusters)
}

// TestTreesShareNothing runs many trees of one Stack and one cache at once.
func TestTreesShareNothing(t *testing.T) {
	const workers = 6
	stack := parseStack(t, demo)
	cache := NewCache(1)
	worlds := make([]*world, workers)
	for i := range worlds {
		worlds[i] = newWorld(t, stack)
	}
	done := make(chan error, workers)
	for _, w := range worlds {
		go func() {
			deps := w.dependencies()
			deps.Cache = cache
			var failed error
			for range 10 {
				tree, err := Build(stack, deps)
				if err == nil {
					err = tree.Provision(w.context(t.Context()))
				}
				// The demo's values read a fact that no module of this world publishes.
				if provisioner.OutcomeOf(err).Headline.Reason != abi.ReasonFactsMissing {
					failed = err
				}
			}
			done <- failed
		}()
	}
	for range workers {
		select {
		case err := <-done:
			require.NoError(t, err)
		case <-time.After(time.Minute):
			t.Fatal("a tree did not end")
		}
	}
}
