package controller

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

const (
	// DefaultPassTimeout bounds one pass. A pass does not wait for progress, so only slow
	// API servers and module calls (30 s each at most) count against it.
	DefaultPassTimeout = 2 * time.Minute
	// writeTimeout bounds the writes that end a pass even while the process shuts down.
	writeTimeout = 5 * time.Second
)

// run runs the tree once and gathers what it found. It writes nothing of the Stack.
// previous are the inputs of the pass before, as they are now.
func (r *StackReconciler) run(ctx context.Context, stack *v1alpha1.Stack, previous []v1alpha1.InputRecord, what action) passResult {
	inputs := newInputSet(func(record v1alpha1.InputRecord) string {
		version, err := r.versionOf(ctx, record)
		if err != nil {
			return ""
		}
		return version
	})
	start := r.now()
	var result passResult
	var err error
	if what == actionDeprovision {
		result, err = r.takeDown(ctx, stack, inputs)
		err = provisioner.Unpark(err)
	} else {
		result, err = r.bringUp(ctx, stack, inputs)
	}
	result.outcome = provisioner.OutcomeOf(err)
	result.now = metav1.NewTime(r.now())
	result.inputs = inputs.sorted()
	if stack.Generation == stack.Status.ObservedGeneration {
		result.inputs = mergeInputs(previous, result.inputs)
	}
	if result.nodes == nil {
		result.facts = stack.Status.Facts
	}
	r.Metrics.observePass(result, r.now().Sub(start))
	r.logOutcome(ctx, result)
	return result
}

// plan asks the planner, after the one thing that it cannot know.
func (r *StackReconciler) plan(_ context.Context, stack *v1alpha1.Stack, inputs provisioner.InputRecorder) (Tree, error) {
	if r.serviceAccount(stack) == "" {
		return nil, provisioner.UserActionRequired(abi.ReasonServiceAccountMissing, "the operator has no default service account")
	}
	return r.Planner.Plan(stack, inputs)
}

// walk runs the tree in the home scope of its tenant, within the budget of a pass. A
// cancellation from above is a shutdown; one of our own is a used-up budget.
func (r *StackReconciler) walk(ctx context.Context, stack *v1alpha1.Stack, call func(context.Context) error) error {
	config, tenant, err := r.Tenants.Tenant(stack.Namespace, r.serviceAccount(stack))
	if err != nil {
		return err
	}
	passCtx, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	defer context.AfterFunc(ctx, func() { stop(provisioner.ErrShutdown) })()
	timeout := r.PassTimeout
	if timeout == 0 {
		timeout = DefaultPassTimeout
	}
	passCtx, cancel := context.WithTimeout(passCtx, timeout)
	defer cancel()
	passCtx = scope.NewContext(passCtx, scope.NewHome(ownerOf(stack), config, tenant))
	err = call(passCtx)
	if err != nil && errors.Is(context.Cause(passCtx), provisioner.ErrShutdown) {
		return provisioner.ErrShutdown
	}
	return err
}

// bringUp provisions. It takes note of what a removal would leave while the inventory
// knows, because a node that is switched off takes its entry along.
func (r *StackReconciler) bringUp(ctx context.Context, stack *v1alpha1.Stack, inputs *inputSet) (passResult, error) {
	tree, err := r.plan(ctx, stack, inputs)
	if err != nil {
		return passResult{retained: stack.Status.Retained}, err
	}
	err = r.walk(ctx, stack, tree.Provision)
	result := passResult{nodes: tree.Results(), facts: factsOf(tree), retained: stack.Status.Retained}
	installed, listErr := r.Inventory.List(ctx, ownerOf(stack))
	if listErr != nil {
		log.FromContext(ctx).Info("could not learn what a removal would leave", "why", listErr.Error())
		return result, err
	}
	result.retained = retainedOf(result.retained, installed)
	return result, err
}

// takeDown deprovisions, once nothing refers to the Stack any more. It takes note of what will be left before anything is removed.
// A Stack whose spec makes no tree may go if nothing of it is installed, and otherwise
// waits for a spec that does.
func (r *StackReconciler) takeDown(ctx context.Context, stack *v1alpha1.Stack, inputs *inputSet) (passResult, error) {
	result := passResult{deleting: true, retained: stack.Status.Retained, abandoned: stack.Status.Abandoned}
	if err := awaitReferences(stack, r.Client.RESTMapper()); err != nil {
		return result, err
	}
	installed, err := r.Inventory.List(ctx, ownerOf(stack))
	if err != nil {
		return result, provisioner.Retry(abi.ReasonUnexpected, "list what is installed").WithCause(err)
	}
	result.retained = retainedOf(result.retained, installed)
	tree, err := r.plan(ctx, stack, inputs)
	if err != nil {
		if len(installed) == 0 && !r.native {
			return result, nil
		}
		return result, err
	}
	err = r.walk(ctx, stack, tree.Deprovision)
	result.nodes, result.facts, result.abandoned = tree.Results(), factsOf(tree), tree.Abandoned()
	return result, err
}

// logOutcome is where the why goes, and nowhere else.
func (r *StackReconciler) logOutcome(ctx context.Context, result passResult) {
	l := log.FromContext(ctx).WithValues("phase", phaseOf(result))
	h := result.outcome.Headline
	switch {
	case result.outcome.Cancelled:
		l.Info("pass interrupted by shutdown")
	case result.outcome.OK():
		l.Info("pass done")
	default:
		l.Info("pass done", "path", h.Path, "disposition", h.Disposition.String(), "reason", h.Reason, "why", h.Why,
			"requeues", !result.outcome.Parks())
	}
}

func (r *StackReconciler) serviceAccount(stack *v1alpha1.Stack) string {
	if stack.Spec.ServiceAccountName != "" {
		return stack.Spec.ServiceAccountName
	}
	return r.DefaultServiceAccount
}

// stackKind is what an owner is that does not say so: a client may leave it out.
const stackKind = "Stack"

func ownerOf(stack *v1alpha1.Stack) scope.Owner {
	owner := scope.Owner{
		APIVersion: v1alpha1.GroupVersion().String(), Kind: stackKind,
		Namespace: stack.Namespace, Name: stack.Name, UID: string(stack.UID), Generation: stack.Generation,
	}
	if stack.Kind != "" {
		owner.APIVersion, owner.Kind = stack.APIVersion, stack.Kind
	}
	return owner
}

func factsOf(tree Tree) map[string]apiextensionsv1.JSON {
	facts := map[string]apiextensionsv1.JSON{}
	for name, raw := range tree.Facts() {
		facts[name] = apiextensionsv1.JSON{Raw: canonical(raw)}
	}
	if len(facts) == 0 {
		return nil
	}
	return facts
}

// canonical spells JSON as it comes back from the API server, where a null is nothing, so
// that what did not change compares equal and is not written again.
func canonical(raw json.RawMessage) json.RawMessage {
	var value any
	if err := utiljson.Unmarshal(raw, &value); err != nil {
		return raw
	}
	if value == nil {
		return nil
	}
	spelled, err := json.Marshal(value)
	if err != nil {
		return raw
	}
	return spelled
}

func availableOf(status *v1alpha1.StackStatus) *metav1.Condition {
	return meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionAvailable)
}
