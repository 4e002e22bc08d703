package controller

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/plan"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// updateGolden rewrites the golden files instead of comparing with them.
const updateGolden = "CAISSON_UPDATE_GOLDEN"

// chapter is one pass in the life of a Stack.
type chapter struct {
	title string
	// edit is what its user does before.
	edit   func(*v1alpha1.Stack)
	result passResult
}

func nodesOf(platform, cni, storage string, reasons ...string) []plan.Result {
	reasons = append(reasons, "", "", "")
	return []plan.Result{
		result("all", v1alpha1.KindSerial, platform, reasons[0]),
		result("all/cni", v1alpha1.KindModule, cni, reasons[1]),
		result("all/storage", v1alpha1.KindApplication, storage, reasons[2]),
	}
}

// life is a believable one: it comes up, is told what it lacks, converges, degrades, is
// misedited, suspended, and deleted.
func life() []chapter {
	at := func(path string, err error) provisioner.Outcome {
		segments := strings.Split(path, "/")
		for i := len(segments) - 1; i >= 0; i-- {
			err = provisioner.Under(segments[i], err)
		}
		return provisioner.OutcomeOf(err)
	}
	const ok, yield, user, waiting = "OK", "Yield", "UserActionRequired", v1alpha1.NodeWaiting
	token := []v1alpha1.InputRecord{record(inputSecret, "token", "")}
	found := []v1alpha1.InputRecord{record(inputSecret, "token", "17")}
	facts := map[string]apiextensionsv1.JSON{"cni.mtu": {Raw: []byte("1450")}}
	return []chapter{
		{title: "the network is being installed", result: passResult{
			outcome: at("all/cni", provisioner.Yield(abi.ReasonApplicationInstalling, "helm says: password=hunter2")),
			nodes:   nodesOf(yield, yield, waiting, abi.ReasonApplicationInstalling, abi.ReasonApplicationInstalling),
		}},
		{title: "nothing new", result: passResult{
			outcome: at("all/cni", provisioner.Yield(abi.ReasonApplicationInstalling, "helm says: password=hunter3")),
			nodes:   nodesOf(yield, yield, waiting, abi.ReasonApplicationInstalling, abi.ReasonApplicationInstalling),
		}},
		{title: "storage lacks its Secret", result: passResult{
			outcome: at("all/storage", provisioner.UserActionRequired(abi.ReasonSecretMissing, "password=hunter2")),
			nodes:   nodesOf(user, ok, user, abi.ReasonSecretMissing, "", abi.ReasonSecretMissing), inputs: token, facts: facts,
		}},
		{title: "the Secret is there", result: passResult{nodes: nodesOf(ok, ok, ok), inputs: found, facts: facts}},
		{title: "a registry hiccup at the resync", result: passResult{
			outcome: at("all/storage", provisioner.Retry(abi.ReasonChartUnavailable, "password=hunter2")),
			nodes:   nodesOf("Retry", ok, "Retry", abi.ReasonChartUnavailable, "", abi.ReasonChartUnavailable), inputs: found, facts: facts,
		}},
		{
			title:  "the spec is edited into a cycle; what is known of the nodes stays",
			edit:   func(s *v1alpha1.Stack) { s.Generation++ },
			result: passResult{outcome: provisioner.OutcomeOf(provisioner.Terminal(abi.ReasonInvalidStack, "password=hunter2")), facts: facts},
		},
		{
			title:  "and out of it",
			edit:   func(s *v1alpha1.Stack) { s.Generation++ },
			result: passResult{nodes: nodesOf(ok, ok, ok), inputs: found, facts: facts},
		},
		{
			title: "deleted, and on its way",
			edit: func(s *v1alpha1.Stack) {
				now := metav1.NewTime(epoch())
				s.DeletionTimestamp = &now
			},
			result: passResult{
				deleting: true, retained: []string{"Namespace gpu-operator"},
				outcome: at("all/storage", provisioner.Yield(abi.ReasonApplicationDeleting, "password=hunter2")),
				nodes:   nodesOf(yield, waiting, yield, abi.ReasonApplicationDeleting, "", abi.ReasonApplicationDeleting), inputs: found, facts: facts,
			},
		},
		{title: "gone", result: passResult{
			deleting: true, retained: []string{"Namespace gpu-operator"},
			nodes: nodesOf(v1alpha1.NodeRemoved, v1alpha1.NodeRemoved, v1alpha1.NodeRemoved), inputs: found, facts: facts,
		}},
	}
}

// live runs the chapters and hands out the Stack after each.
func live(visit func(c chapter, before, after *v1alpha1.Stack)) {
	stack := newStack()
	stack.Status.ObservedGeneration = -1 // which is what the API server makes of a new one
	for i, c := range life() {
		if c.edit != nil {
			c.edit(stack)
		}
		c.result.now = metav1.NewTime(epoch().Add(time.Duration(i) * time.Minute))
		before := stack.DeepCopy()
		stack.Status = nextStatus(stack, c.result)
		visit(c, before, stack)
	}
}

func TestStatusGolden(t *testing.T) {
	var out strings.Builder
	live(func(c chapter, _, after *v1alpha1.Stack) {
		raw, err := yaml.Marshal(after.Status)
		require.NoError(t, err)
		fmt.Fprintf(&out, "# %s\n%s---\n", c.title, raw)
	})
	compareGolden(t, "status.yaml", out.String())
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv(updateGolden) != "" {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "set %s=1 to write it", updateGolden)
	require.Equal(t, string(want), got, "set %s=1 to rewrite it", updateGolden)
}

// TestStatusIsPure: the arguments stay as they are, and the same ones give the same.
func TestStatusIsPure(t *testing.T) {
	live(func(c chapter, before, after *v1alpha1.Stack) {
		again := before.DeepCopy()
		require.Equal(t, after.Status, nextStatus(again, c.result), c.title)
		require.Equal(t, before, again, c.title)
	})
}

// TestStatusTellsNoWhy: what an error says beyond its reason is for the log.
func TestStatusTellsNoWhy(t *testing.T) {
	live(func(c chapter, _, after *v1alpha1.Stack) {
		raw, err := json.Marshal(after)
		require.NoError(t, err)
		require.NotContains(t, string(raw), "hunter", c.title)
		for _, condition := range after.Status.Conditions {
			requireFixed(t, condition.Message)
		}
	})
}

// requireFixed checks that a message is made of a path and a sentence of the host's own.
func requireFixed(t *testing.T, message string) {
	t.Helper()
	for _, known := range []string{"Every node is as desired.", "Everything that the Stack made is gone", "The Stack is suspended;"} {
		if strings.HasPrefix(message, known) {
			return
		}
	}
	for _, r := range abi.HostReasons() {
		if strings.HasSuffix(message, fmt.Sprintf("%s (%s)", r.Sentence, r.Code)) {
			return
		}
	}
	t.Errorf("%q is no fixed sentence", message)
}

// TestStatusInvariants hold after every pass, whatever came of it.
func TestStatusInvariants(t *testing.T) {
	live(func(c chapter, before, after *v1alpha1.Stack) {
		s := after.Status
		find := func(kind string) *metav1.Condition { return meta.FindStatusCondition(s.Conditions, kind) }
		available, ready := *find(v1alpha1.ConditionAvailable), *find(v1alpha1.ConditionReady)
		ready.Type = v1alpha1.ConditionAvailable
		require.Equal(t, available, ready, "%s: Ready always equals Available", c.title)
		require.False(t, find(v1alpha1.ConditionReconciling) != nil && find(v1alpha1.ConditionStalled) != nil, c.title)
		require.Equal(t, find(v1alpha1.ConditionStalled) != nil, s.Parked != nil, "%s: stalled is parked", c.title)
		require.True(t, slices.IsSortedFunc(s.Conditions, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) }), c.title)
		require.True(t, slices.IsSortedFunc(s.Nodes, func(a, b v1alpha1.NodeStatus) int { return strings.Compare(a.Path, b.Path) }), c.title)
		require.Equal(t, after.Generation, s.ObservedGeneration, c.title)
		for _, condition := range s.Conditions {
			require.Equal(t, after.Generation, condition.ObservedGeneration, c.title)
			old := meta.FindStatusCondition(before.Status.Conditions, condition.Type)
			if old != nil && old.Status == condition.Status {
				require.Equal(t, old.LastTransitionTime, condition.LastTransitionTime, "%s: the time moves with the status only", c.title)
			}
		}
		for _, n := range s.Nodes {
			i := slices.IndexFunc(before.Status.Nodes, func(o v1alpha1.NodeStatus) bool { return o.Name == n.Name })
			if i < 0 {
				continue
			}
			old := before.Status.Nodes[i]
			same := old.Disposition == n.Disposition && old.Reason == n.Reason
			require.Equal(t, same, old.LastTransitionTime.Equal(&n.LastTransitionTime), "%s: %s moves with disposition or reason only", c.title, n.Name)
		}
	})
}

// TestKstatus proves with the library that kubectl wait and Flux understand a Stack.
func TestKstatus(t *testing.T) {
	want := []status.Status{
		status.InProgressStatus, status.InProgressStatus, status.FailedStatus, status.CurrentStatus, status.InProgressStatus,
		status.FailedStatus, status.CurrentStatus, status.TerminatingStatus, status.TerminatingStatus,
	}
	i := 0
	live(func(c chapter, before, after *v1alpha1.Stack) {
		require.Equal(t, want[i], compute(t, after), c.title)
		if before.Generation != before.Status.ObservedGeneration && before.DeletionTimestamp == nil {
			require.Equal(t, status.InProgressStatus, compute(t, before), "%s: what is new is in progress before anybody has seen it", c.title)
		}
		i++
	})
	require.Len(t, want, i)
}

func TestKstatusSuspended(t *testing.T) {
	stack := newStack()
	stack.Status = nextStatus(stack, passResult{
		outcome: provisioner.OutcomeOf(provisioner.Terminal(abi.ReasonInvalidConfig, "")), nodes: nodesOf("Terminal", "Terminal", v1alpha1.NodeWaiting),
		now: metav1.NewTime(epoch()),
	})
	require.Equal(t, status.FailedStatus, compute(t, stack))
	stack.Spec.Suspend = true
	stack.Generation++
	nodes := slices.Clone(stack.Status.Nodes)
	stack.Status = suspendedStatus(stack, metav1.NewTime(epoch().Add(time.Hour)))
	require.Equal(t, status.InProgressStatus, compute(t, stack), "not as desired, and not failed either")
	require.Equal(t, nodes, stack.Status.Nodes, "what is known stays")
	require.Len(t, stack.Status.Conditions, 2)
	for _, c := range stack.Status.Conditions {
		require.Equal(t, v1alpha1.ReasonSuspended, c.Reason)
		require.Equal(t, metav1.ConditionFalse, c.Status)
		require.Equal(t, stack.Generation, c.ObservedGeneration)
		requireFixed(t, c.Message)
	}
	require.Equal(t, decision{because: "suspended"}, decide(observation{stack: stack}), "said once")
}

// compute asks kstatus about a Stack as the API would serve it.
func compute(t *testing.T, stack *v1alpha1.Stack) status.Status {
	t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(stack)
	require.NoError(t, err)
	u := &unstructured.Unstructured{Object: object}
	u.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("Stack"))
	result, err := status.Compute(u)
	require.NoError(t, err)
	return result.Status
}

func TestPhase(t *testing.T) {
	folded := func(errs ...error) provisioner.Outcome { return provisioner.OutcomeOf(provisioner.Fold(errs...)) }
	yield, retry := provisioner.Yield(abi.ReasonFactsMissing, ""), provisioner.Retry(abi.ReasonUnexpected, "")
	user, terminal := provisioner.UserActionRequired(abi.ReasonForbidden, ""), provisioner.Terminal(abi.ReasonInvalidConfig, "")
	unparked := provisioner.OutcomeOf(provisioner.Unpark(terminal))
	cases := map[string]struct {
		reason   string
		outcome  provisioner.Outcome
		deleting bool
		phase    string
		stalled  bool
	}{
		"ok":               {reason: "as desired", phase: v1alpha1.ReasonProvisioned},
		"ok, deleting":     {reason: "nothing left", deleting: true, phase: v1alpha1.ReasonDeprovisioned},
		"yield":            {reason: "on its way", outcome: folded(yield), phase: v1alpha1.ReasonProvisioning},
		"yield, deleting":  {reason: "on its way out", outcome: folded(yield), deleting: true, phase: v1alpha1.ReasonDeprovisioning},
		"retry":            {reason: "a failure is said", outcome: folded(retry, yield), phase: v1alpha1.ReasonRetrying},
		"user":             {reason: "somebody must act", outcome: folded(user), phase: v1alpha1.ReasonUserActionRequired, stalled: true},
		"terminal":         {reason: "the spec must change", outcome: folded(user, terminal), phase: v1alpha1.ReasonTerminal, stalled: true},
		"terminal + yield": {reason: "severity decides what is shown, progress what is done", outcome: folded(yield, terminal), phase: v1alpha1.ReasonTerminal},
		"untyped":          {reason: "what nobody classified is tried again", outcome: provisioner.OutcomeOf(errors.New("boom")), phase: v1alpha1.ReasonRetrying},
		"terminal, down":   {reason: "a deletion never parks", outcome: unparked, deleting: true, phase: v1alpha1.ReasonRetrying},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := passResult{outcome: c.outcome, deleting: c.deleting, now: metav1.NewTime(epoch())}
			require.Equal(t, c.phase, phaseOf(r), c.reason)
			next := nextStatus(newStack(), r)
			require.Equal(t, c.stalled, next.Parked != nil, c.reason)
			require.Equal(t, c.stalled, meta.IsStatusConditionTrue(next.Conditions, v1alpha1.ConditionStalled), c.reason)
			require.Equal(t, c.outcome.OK() && !c.deleting, meta.IsStatusConditionTrue(next.Conditions, v1alpha1.ConditionAvailable), c.reason)
			require.Equal(t, !c.outcome.OK() && !c.stalled, meta.IsStatusConditionTrue(next.Conditions, v1alpha1.ConditionReconciling), c.reason)
		})
	}
}

func TestNextNodes(t *testing.T) {
	old := metav1.NewTime(epoch())
	now := metav1.NewTime(epoch().Add(time.Hour))
	known := v1alpha1.NodeStatus{
		Name: "cni", Path: "all/cni", Kind: v1alpha1.KindModule, Disposition: "Yield", Reason: abi.ReasonFactsMissing, Message: "old", LastTransitionTime: old,
	}
	with := func(change func(*v1alpha1.NodeStatus)) v1alpha1.NodeStatus {
		n := known
		change(&n)
		return n
	}
	sentence, _ := abi.HostSentence(abi.ReasonFactsMissing)
	cases := map[string]struct {
		reason string
		result plan.Result
		want   v1alpha1.NodeStatus
	}{
		"the same": {
			reason: "nothing moved", result: result("all/cni", v1alpha1.KindModule, "Yield", abi.ReasonFactsMissing),
			want: with(func(n *v1alpha1.NodeStatus) { n.Message = sentence }),
		},
		"not reached": {
			reason: "the last that is known stays, with its time", result: result("all/cni", v1alpha1.KindModule, v1alpha1.NodeWaiting, ""), want: known,
		},
		"another disposition": {
			reason: "the time moves", result: result("all/cni", v1alpha1.KindModule, "OK", ""),
			want: with(func(n *v1alpha1.NodeStatus) {
				n.Disposition, n.Reason, n.Message, n.LastTransitionTime = "OK", "", "", now
			}),
		},
		"another reason": {
			reason: "the time moves", result: result("all/cni", v1alpha1.KindModule, "Yield", abi.ReasonAwaitingDependency),
			want: with(func(n *v1alpha1.NodeStatus) {
				n.Reason, n.LastTransitionTime = abi.ReasonAwaitingDependency, now
				n.Message, _ = abi.HostSentence(abi.ReasonAwaitingDependency)
			}),
		},
		"moved, not reached": {
			reason: "a node elsewhere is another node, of which nothing is known", result: result("all/net/cni", v1alpha1.KindModule, v1alpha1.NodeWaiting, ""),
			want: v1alpha1.NodeStatus{Name: "cni", Path: "all/net/cni", Kind: v1alpha1.KindModule, Disposition: v1alpha1.NodeWaiting, LastTransitionTime: now},
		},
		"another kind, not reached": {
			reason: "so is one of another kind", result: result("all/cni", v1alpha1.KindApplication, v1alpha1.NodeWaiting, ""),
			want: v1alpha1.NodeStatus{Name: "cni", Path: "all/cni", Kind: v1alpha1.KindApplication, Disposition: v1alpha1.NodeWaiting, LastTransitionTime: now},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := nextNodes([]v1alpha1.NodeStatus{known}, passResult{nodes: []plan.Result{c.result}, now: now})
			require.Equal(t, []v1alpha1.NodeStatus{c.want}, got, c.reason)
		})
	}
	t.Run("removed from the spec", func(t *testing.T) {
		got := nextNodes([]v1alpha1.NodeStatus{known}, passResult{nodes: []plan.Result{result("other", v1alpha1.KindModule, "OK", "")}, now: now})
		require.Len(t, got, 1)
		require.Equal(t, "other", got[0].Name, "only what the tree has")
	})
}

func TestSummary(t *testing.T) {
	n := func(kind, disposition string) v1alpha1.NodeStatus {
		return v1alpha1.NodeStatus{Kind: kind, Disposition: disposition}
	}
	require.Equal(t, "0/0", summarize(nil))
	require.Equal(t, "2/4", summarize([]v1alpha1.NodeStatus{
		n(v1alpha1.KindSerial, "OK"), n(v1alpha1.KindModule, "OK"), n(v1alpha1.KindApplication, "OK"),
		n(v1alpha1.KindModule, "Terminal"), n(v1alpha1.KindApplication, v1alpha1.NodeWaiting), n(v1alpha1.KindModule, v1alpha1.NodeRemoved),
	}), "leaves that are switched off do not count, those with children neither")
}

func TestParkedSince(t *testing.T) {
	stack := newStack()
	stack.Annotations = map[string]string{v1alpha1.RetryAnnotation: "one"}
	park := func(err error, hour int) *v1alpha1.Parked {
		stack.Status = nextStatus(stack, passResult{outcome: provisioner.OutcomeOf(err), now: metav1.NewTime(epoch().Add(time.Duration(hour) * time.Hour))})
		return stack.Status.Parked
	}
	missing := provisioner.Under("all", provisioner.UserActionRequired(abi.ReasonSecretMissing, ""))
	first := park(missing, 0)
	require.Equal(t, &v1alpha1.Parked{
		Disposition: "UserActionRequired", Reason: abi.ReasonSecretMissing, Path: "all", Generation: 1, RetryToken: "one",
		InputsDigest: inputsDigest(nil), Since: metav1.NewTime(epoch()),
	}, first, "the record is complete")
	require.Equal(t, first.Since, park(missing, 1).Since, "the same park goes on")
	require.NotEqual(t, first.Since, park(provisioner.Under("all", provisioner.UserActionRequired(abi.ReasonForbidden, "")), 2).Since, "another reason is another park")
	require.Nil(t, park(provisioner.Yield(abi.ReasonFactsMissing, ""), 3), "it ends with the first progress")
}

func TestRetained(t *testing.T) {
	got := retainedOf([]string{"CRD b", "Namespace a"}, []cd.Installed{{Retained: []string{"Namespace c", "CRD b"}}, {}})
	require.Equal(t, []string{"CRD b", "Namespace a", "Namespace c"}, got, "sorted, each once")
	require.Equal(t, "Everything that the Stack made is gone.", farewell(passResult{}))
	require.Contains(t, farewell(passResult{retained: got}), "CRD b, Namespace a, Namespace c.")
	require.Equal(t,
		"Everything that could be reached is gone. Given up, and possibly still running: remote a, except what is kept on purpose: CRD b, Namespace a, Namespace c.",
		farewell(passResult{retained: got, abandoned: []string{"remote a"}}))
}

func TestNotesFitEvents(t *testing.T) {
	require.Equal(t, "short", clip("short"))
	long := clip(strings.Repeat("é", maxNote))
	require.LessOrEqual(t, len(long), maxNote)
	require.True(t, utf8.ValidString(long), "no letter is cut in half")
	require.True(t, strings.HasSuffix(long, "é…"))
}

func TestFactsAreSpelledAsTheServerDoes(t *testing.T) {
	cases := map[string]struct{ reason, raw, want string }{
		"order":   {reason: "keys are sorted", raw: `{ "b": 1, "a": [true, null] }`, want: `{"a":[true,null],"b":1}`},
		"integer": {reason: "64 bits survive", raw: `9007199254740993`, want: `9007199254740993`},
		"float":   {reason: "floats stay", raw: `1.50`, want: `1.5`},
		"text":    {reason: "escapes as encoding/json makes them", raw: `"a\u003cb"`, want: `"a\u003cb"`},
		"null":    {reason: "read back as nothing", raw: `null`},
		"no JSON": {reason: "left alone; the server will say no", raw: `{`, want: `{`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, string(canonical(json.RawMessage(c.raw))), c.reason) })
	}
}
