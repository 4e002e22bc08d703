package controller

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/plan"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// passResult is everything that a pass found out.
type passResult struct {
	outcome provisioner.Outcome
	// deleting says that the pass was a deprovision.
	deleting bool
	// retained is what a deletion leaves; only of a deprovision.
	retained []string
	// abandoned is what a deletion gave up on remotes that are gone for good.
	abandoned []string
	nodes     []plan.Result
	facts     map[string]apiextensionsv1.JSON
	inputs    []v1alpha1.InputRecord
	now       metav1.Time
}

// nextStatus is pure: the status after a pass, from the status before it. It does not
// change its argument.
func nextStatus(stack *v1alpha1.Stack, r passResult) v1alpha1.StackStatus {
	status := *stack.Status.DeepCopy()
	status.ObservedGeneration = stack.Generation
	if r.nodes != nil {
		status.Nodes = nextNodes(status.Nodes, r)
	}
	status.Summary = summarize(status.Nodes)
	status.Facts = r.facts
	status.Retained = r.retained
	status.Abandoned = r.abandoned
	status.Inputs = r.inputs
	status.InputsDigest = inputsDigest(r.inputs)
	status.Parked = nextParked(stack, r, status.InputsDigest)
	setConditions(&status, stack.Generation, r)
	return status
}

// setConditions writes Available and Ready, and Reconciling and Stalled as kstatus asks:
// present only while they are true.
func setConditions(status *v1alpha1.StackStatus, generation int64, r passResult) {
	available := metav1.Condition{
		Type: v1alpha1.ConditionAvailable, ObservedGeneration: generation,
		Status: metav1.ConditionFalse, Reason: phaseOf(r), Message: messageOf(r.outcome, r),
	}
	if r.outcome.OK() && !r.deleting {
		available.Status = metav1.ConditionTrue
	}
	setCondition(status, available, r.now)
	ready := available
	ready.Type = v1alpha1.ConditionReady
	setCondition(status, ready, r.now)

	stalled, reconciling := available, available
	stalled.Type, stalled.Status = v1alpha1.ConditionStalled, metav1.ConditionTrue
	reconciling.Type, reconciling.Status = v1alpha1.ConditionReconciling, metav1.ConditionTrue
	switch {
	case r.outcome.OK():
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionReconciling)
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionStalled)
	case r.outcome.Parks():
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionReconciling)
		setCondition(status, stalled, r.now)
	default:
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionStalled)
		setCondition(status, reconciling, r.now)
	}
	slices.SortFunc(status.Conditions, func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
}

// setCondition takes the time from the pass, so that a status is a function of its
// inputs.
func setCondition(status *v1alpha1.StackStatus, c metav1.Condition, now metav1.Time) {
	c.LastTransitionTime = now
	if old := meta.FindStatusCondition(status.Conditions, c.Type); old != nil && old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	meta.SetStatusCondition(&status.Conditions, c)
}

// phaseOf is the reason of a Stack's conditions.
func phaseOf(r passResult) string {
	switch {
	case r.deleting && r.outcome.OK():
		return v1alpha1.ReasonDeprovisioned
	case r.outcome.OK():
		return v1alpha1.ReasonProvisioned
	case r.deleting && r.outcome.Headline.Disposition == abi.Yield:
		return v1alpha1.ReasonDeprovisioning
	}
	switch r.outcome.Headline.Disposition {
	case abi.Terminal:
		return v1alpha1.ReasonTerminal
	case abi.UserActionRequired:
		return v1alpha1.ReasonUserActionRequired
	case abi.Retry:
		return v1alpha1.ReasonRetrying
	case abi.OK, abi.Yield:
		return v1alpha1.ReasonProvisioning
	default:
		return v1alpha1.ReasonProvisioning
	}
}

// messageOf is made of the user's own names and fixed sentences, never of an error's
// text.
func messageOf(o provisioner.Outcome, r passResult) string {
	switch {
	case o.OK() && r.deleting:
		return farewell(r)
	case o.OK():
		return "Every node is as desired."
	case o.Headline.Path == "":
		return fmt.Sprintf("%s (%s)", o.Headline.Sentence, o.Headline.Reason)
	default:
		return fmt.Sprintf("%s: %s (%s)", o.Headline.Path, o.Headline.Sentence, o.Headline.Reason)
	}
}

// nextNodes joins what the pass saw with what was known. A node that the pass did not
// reach keeps its last outcome, because that is still the last thing known of it. One that
// was moved or became another kind is another node.
func nextNodes(previous []v1alpha1.NodeStatus, r passResult) []v1alpha1.NodeStatus {
	known := map[string]v1alpha1.NodeStatus{}
	for _, n := range previous {
		known[n.Name] = n
	}
	nodes := make([]v1alpha1.NodeStatus, 0, len(r.nodes))
	for _, result := range r.nodes {
		old := known[result.Name]
		seen := old.Path == result.Path && old.Kind == result.Kind
		next := v1alpha1.NodeStatus{
			Name: result.Name, Path: result.Path, Kind: result.Kind, Disposition: result.State,
			Reason: result.Reason, Message: result.Sentence, LastTransitionTime: r.now,
		}
		if seen && next.Disposition == v1alpha1.NodeWaiting {
			next.Disposition, next.Reason, next.Message = old.Disposition, old.Reason, old.Message
		}
		if seen && old.Disposition == next.Disposition && old.Reason == next.Reason {
			next.LastTransitionTime = old.LastTransitionTime
		}
		nodes = append(nodes, next)
	}
	slices.SortFunc(nodes, func(a, b v1alpha1.NodeStatus) int { return cmp.Compare(a.Path, b.Path) })
	return nodes
}

// summarize counts the leaves that are OK out of those that are switched on.
func summarize(nodes []v1alpha1.NodeStatus) string {
	ok, all := 0, 0
	for _, n := range nodes {
		if n.Kind != "module" && n.Kind != "application" || n.Disposition == v1alpha1.NodeRemoved {
			continue
		}
		all++
		if n.Disposition == abi.OK.String() {
			ok++
		}
	}
	return fmt.Sprintf("%d/%d", ok, all)
}

// nextParked is set while nothing will happen before somebody acts. Its time stays
// while the reason stays.
func nextParked(stack *v1alpha1.Stack, r passResult, digest string) *v1alpha1.Parked {
	if !r.outcome.Parks() || r.deleting {
		return nil
	}
	h := r.outcome.Headline
	parked := &v1alpha1.Parked{
		Disposition: r.outcome.Class.String(), Reason: h.Reason, Path: h.Path,
		Generation: stack.Generation, RetryToken: stack.Annotations[v1alpha1.RetryAnnotation],
		InputsDigest: digest, Since: r.now,
	}
	if old := stack.Status.Parked; old != nil && old.Reason == parked.Reason && old.Path == parked.Path {
		parked.Since = old.Since
	}
	return parked
}

// retainedOf adds what the applications leave to what is known already, sorted.
func retainedOf(known []string, installed []cd.Installed) []string {
	retained := slices.Clone(known)
	for _, app := range installed {
		retained = append(retained, app.Retained...)
	}
	slices.Sort(retained)
	return slices.Compact(retained)
}

// farewell is the last word on a Stack.
func farewell(r passResult) string {
	words := "Everything that the Stack made is gone"
	if len(r.abandoned) > 0 {
		words = "Everything that could be reached is gone. " + givenUp(r.abandoned)
	}
	if len(r.retained) > 0 {
		words += ", except what is kept on purpose: " + strings.Join(r.retained, ", ")
	}
	return words + "."
}

// givenUp says what may still run on remotes that are gone for good.
func givenUp(abandoned []string) string {
	return "Given up, and possibly still running: " + strings.Join(abandoned, ", ")
}

// eventAbandoned is the reason of the event that says so.
const eventAbandoned = "Abandoned"

// maxNote is what the API server accepts as the note of an event.
const maxNote = 1024

// clip shortens a text to what fits an event.
func clip(text string) string {
	const ellipsis = "…"
	if len(text) <= maxNote {
		return text
	}
	cut := maxNote - len(ellipsis)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + ellipsis
}

// suspendedStatus is the status of a Stack that is told to rest. Nodes and inputs stay
// as they were last seen.
func suspendedStatus(stack *v1alpha1.Stack, now metav1.Time) v1alpha1.StackStatus {
	status := *stack.Status.DeepCopy()
	status.ObservedGeneration = stack.Generation
	meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionReconciling)
	meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionStalled)
	for _, kind := range []string{v1alpha1.ConditionAvailable, v1alpha1.ConditionReady} {
		setCondition(&status, metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, ObservedGeneration: stack.Generation,
			Reason:  v1alpha1.ReasonSuspended,
			Message: "The Stack is suspended; set spec.suspend to false to go on.",
		}, now)
	}
	return status
}
