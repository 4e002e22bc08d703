package explain

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// What the operator does by default, in words: controller.DefaultResync, and the bounds of
// its backoff. An admin may have chosen another resync.
const (
	resyncText   = "10 minutes"
	longestRetry = "5 minutes"
	moduleGrace  = "10 minutes" // of a removal for a module that cannot be called
)

// steps are what can be done for the whole Stack.
func (e *explainer) steps() []Step {
	switch {
	case e.view.Phase == tree.Pending:
		return []Step{e.operatorStep()}
	case e.deleting():
		return nil
	case e.view.Phase == v1alpha1.ReasonSuspended:
		return []Step{{
			Text:     "Resume it: spec.suspend is true.",
			Commands: []string{fmt.Sprintf(`kubectl patch stack -n %s %s --type merge -p '{"spec":{"suspend":false}}'`, e.view.Namespace, e.view.Name)},
		}}
	case e.retryIsAsked():
		return []Step{{Text: "A retry was asked for, and the operator has not taken it up yet. If it stays like this, see whether the operator runs.", Commands: e.operatorCommands()}}
	case e.parked():
		return []Step{{
			Text:     "Make it try again now, for instance after a change that the operator does not see:",
			Commands: []string{fmt.Sprintf("kubectl annotate stack -n %s %s %s=$(date +%%s) --overwrite", e.view.Namespace, e.view.Name, v1alpha1.RetryAnnotation)},
		}}
	default:
		return nil
	}
}

// retryIsAsked reports whether the annotation differs from what the park has seen.
func (e *explainer) retryIsAsked() bool {
	return e.parked() && e.Stack.Annotations[v1alpha1.RetryAnnotation] != e.Stack.Status.Parked.RetryToken
}

// operatorStep says how to see whether anybody is there to look at the Stack.
func (e *explainer) operatorStep() Step {
	text := "If it stays like this, see whether the operator runs, and whether it says anything of this Stack."
	if others := meta.FindStatusCondition(e.Stack.Status.Conditions, v1alpha1.ConditionReconciling); others != nil {
		text = "A pass over the previous spec may still be running. " + text
	}
	return Step{Text: text, Commands: e.operatorCommands()}
}

func (e *explainer) operatorCommands() []string {
	return []string{
		"kubectl get lease -n caisson-system caisson-operator",
		"kubectl get pods -n caisson-system",
		fmt.Sprintf("kubectl get events -n %s --field-selector involvedObject.name=%s", e.view.Namespace, e.view.Name),
	}
}

// next is what happens although nobody does anything.
func (e *explainer) next() []string {
	switch {
	case e.view.Phase == tree.Pending:
		return []string{"The operator looks at it as soon as it can."}
	case e.deleting():
		return e.nextOfDeletion()
	case e.view.Phase == v1alpha1.ReasonSuspended:
		return []string{"Nothing: what it made stays as it is, and drift is not repaired. It can be deleted as it is."}
	case e.view.Available:
		return e.nextOfAvailable()
	case e.parked():
		return e.nextOfParked()
	}
	return e.nextOfProgress()
}

func (e *explainer) nextOfDeletion() []string {
	if e.view.Phase == v1alpha1.ReasonDeprovisioned {
		return []string{"The Stack itself goes now."}
	}
	next := []string{"A deletion never gives up: what is in the way is tried again at growing intervals, up to " + longestRetry + "."}
	if e.view.Phase == v1alpha1.ReasonDeprovisioning {
		next = []string{"It goes on by itself until everything is gone; then the Stack goes too."}
	}
	switch _, reason := splitReason(e.view.Message); reason {
	case abi.ReasonModuleNotReady, abi.ReasonModuleFaulted:
		next = append(next, "A module that has been called before is waited for, as it may have made what only it can remove. After "+moduleGrace+" its applications are removed without it.")
	}
	if e.Stack.Spec.Suspend {
		next = append(next, "That it is suspended does not stop its deletion.")
	}
	return next
}

func (e *explainer) nextOfAvailable() []string {
	next := []string{"It is looked at again about every " + resyncText + ", which repairs what has drifted, and at once when something that it depends on changes" + e.watching() + "."}
	if last := e.Stack.Status.LastPassTime; last != nil {
		next = append(next, fmt.Sprintf("The last pass that found anything new ended %s ago.", tree.Age(max(e.now.Sub(last.Time), 0))))
	}
	return next
}

// nextOfParked says what wakes it, and whether the driver looks without being asked.
func (e *explainer) nextOfParked() []string {
	looks := "No module is called and nothing is tried again by itself."
	remedy, _ := abi.HostRemedy(e.Stack.Status.Parked.Reason)
	switch {
	case remedy.Code == abi.ReasonSecretMissing || remedy.Code == abi.ReasonInvalidKubeconfig:
		if slices.ContainsFunc(e.Stack.Status.Inputs, func(i v1alpha1.InputRecord) bool { return !atHome(i) }) {
			looks = "What it reads on a remote is not watched, so it is tried again about every " + resyncText + "."
		}
	case remedy.Revival == abi.RevivedByDriver:
		looks = "The driver looks at what is installed about every " + resyncText + ", and goes on if that has become ready."
	}
	return []string{looks, "It goes on when its spec changes, or something that it depends on" + e.watching() + "."}
}

func (e *explainer) nextOfProgress() []string {
	failed, yields := false, false
	for _, n := range e.Stack.Status.Nodes {
		failed = failed || n.Disposition == abi.Retry.String()
		yields = yields || n.Disposition == abi.Yield.String()
	}
	var next []string
	if yields || !failed {
		next = append(next, "What is under way is looked at again within seconds, and at once when it changes.")
	}
	if failed || e.view.Phase == v1alpha1.ReasonRetrying {
		next = append(next, "What failed is tried again at growing intervals, up to "+longestRetry+".")
	}
	return next
}

// watching names the inputs at home, which are watched.
func (e *explainer) watching() string {
	var names []string
	for _, i := range e.Stack.Status.Inputs {
		if !atHome(i) {
			continue
		}
		name := object(i)
		if i.Absent {
			name += " (absent)"
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return ""
	}
	return ": " + list(names)
}
