package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/plan"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// Tree is a planned Stack.
type Tree interface {
	Provision(ctx context.Context) error
	Deprovision(ctx context.Context) error
	// Results are the outcomes of the nodes, of every node of the tree.
	Results() []plan.Result
	// Facts are what the nodes have published, in this pass or before.
	Facts() map[string]json.RawMessage
	// Abandoned names what was given up on remotes that are gone for good, together with
	// what the status already says of it; safe to show to users.
	Abandoned() []string
}

// Planner turns a Stack into a tree. An error is one of the provisioner's, and names
// what is wrong with the spec.
type Planner interface {
	Plan(stack *v1alpha1.Stack, inputs provisioner.InputRecorder) (Tree, error)
}

// Tenants gives clients that act as a ServiceAccount at home.
type Tenants interface {
	Tenant(namespace, serviceAccount string) (*rest.Config, client.Client, error)
}

// Forgetter drops what is remembered of an owner's module calls.
type Forgetter interface {
	Forget(ownerUID string)
}

// StackReconciler runs passes of Stacks.
type StackReconciler struct {
	// Client is the operator's own, reading from its cache.
	Client client.Client
	// Owners are what passes are run for; Stacks, through Client, if nil.
	Owners Owners
	// Planner, Tenants and Memory are described at their types.
	Planner Planner
	Tenants Tenants
	Memory  Forgetter
	// Inventory lists what is installed of an owner.
	Inventory Inventory
	// State drops what is kept for an owner that is gone.
	State StateDropper
	// Events records what happened.
	Events events.EventRecorder
	// Metrics counts passes; see [NewMetrics].
	Metrics *Metrics
	// Wakes and Index are shared with the event sources.
	Wakes *Wakes
	Index *InputIndex
	// DefaultServiceAccount is for Stacks that name none; empty refuses them.
	DefaultServiceAccount string
	// Resync is [DefaultResync] if 0.
	Resync time.Duration
	// PassTimeout bounds one pass; [DefaultPassTimeout] if 0.
	PassTimeout time.Duration
	// Clock is time.Now if nil.
	Clock func() time.Time

	// native says that trees may make things that no inventory knows of.
	native bool
}

// Inventory lists the applications of an owner. The driver is one.
type Inventory interface {
	List(ctx context.Context, owner scope.Owner) ([]cd.Installed, error)
}

// StateDropper drops what the host keeps of an owner outside of its status.
type StateDropper interface {
	DropState(ctx context.Context, stack *v1alpha1.Stack) error
}

// Reconcile looks at one Stack: observe, decide, act, write the status once.
func (r *StackReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	stack, err := r.owners().Read(ctx, req.NamespacedName)
	if apierrors.IsNotFound(err) {
		r.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	ctx = calledBy(ctx, stack.UID)
	if r.Wakes.Behind(req.NamespacedName, stack.ResourceVersion, r.now()) {
		return ctrl.Result{RequeueAfter: cacheLag}, nil
	}
	r.Index.Set(req.NamespacedName, stack.Status.Inputs)
	inputs, err := r.currentInputs(ctx, stack.Status.Inputs)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("compare inputs: %w", err)
	}
	wake := r.Wakes.Take(req.NamespacedName)
	d := decide(observation{
		stack: stack, wake: wake, inputsDigest: inputsDigest(inputs),
		untilResync: r.Wakes.UntilResync(req.NamespacedName, r.now(), jitter(r.resync())),
	})
	log.FromContext(ctx).V(1).Info("woke", "because", d.because)
	result, err := r.act(ctx, stack, inputs, d)
	if err == nil {
		return result, nil
	}
	// What woke the Stack has not been dealt with, and the queue knows its name only.
	r.Wakes.Add(req.NamespacedName, wake)
	return conflictIsSilent(err)
}

// act does what was decided.
func (r *StackReconciler) act(ctx context.Context, stack *v1alpha1.Stack, inputs []v1alpha1.InputRecord, d decision) (ctrl.Result, error) {
	if d.forget {
		r.Memory.Forget(string(stack.UID))
	}
	switch d.action {
	case actionProvision:
		return r.provision(ctx, stack, inputs)
	case actionDeprovision:
		return r.deprovision(ctx, stack, inputs)
	case actionSuspend:
		return ctrl.Result{}, r.writeStatus(ctx, stack, suspendedStatus(stack, metav1.NewTime(r.now())))
	case actionNone:
		return ctrl.Result{RequeueAfter: d.resyncIn}, nil
	default:
		return ctrl.Result{}, nil
	}
}

// provision puts the finalizer on before the first side effect, and runs a pass.
func (r *StackReconciler) provision(ctx context.Context, stack *v1alpha1.Stack, inputs []v1alpha1.InputRecord) (ctrl.Result, error) {
	if err := r.owners().Hold(ctx, stack); err != nil {
		return ctrl.Result{}, err
	}
	return r.finish(ctx, stack, r.run(ctx, stack, inputs, actionProvision))
}

// deprovision runs a deletion pass, and lets go of the Stack when nothing is left.
func (r *StackReconciler) deprovision(ctx context.Context, stack *v1alpha1.Stack, inputs []v1alpha1.InputRecord) (ctrl.Result, error) {
	result := r.run(ctx, stack, inputs, actionDeprovision)
	if !result.outcome.OK() {
		return r.finish(ctx, stack, result)
	}
	if err := r.State.DropState(ctx, stack); err != nil {
		return ctrl.Result{}, fmt.Errorf("drop state: %w", err)
	}
	if err := r.writeStatus(ctx, stack, nextStatus(stack, result)); err != nil {
		return ctrl.Result{}, err
	}
	kind := "Normal"
	if len(result.abandoned) > 0 {
		kind = "Warning"
	}
	r.Events.Eventf(stack, nil, kind, v1alpha1.ReasonDeprovisioned, "Deprovision", "%s", clip(farewell(result)))
	if err := r.owners().Release(ctx, stack); err != nil {
		return ctrl.Result{}, err
	}
	r.Memory.Forget(string(stack.UID))
	r.forget(client.ObjectKeyFromObject(stack))
	return ctrl.Result{}, nil
}

// finish writes the status and schedules the next pass. A pass that ends in a park is
// parked only once that is written: a lost write comes back as an error and requeues.
func (r *StackReconciler) finish(ctx context.Context, stack *v1alpha1.Stack, result passResult) (ctrl.Result, error) {
	if result.outcome.Cancelled {
		return ctrl.Result{}, nil
	}
	name := client.ObjectKeyFromObject(stack)
	before := stack.Status.DeepCopy()
	r.Index.Set(name, result.inputs)
	if err := r.writeStatus(ctx, stack, nextStatus(stack, result)); err != nil {
		return ctrl.Result{}, err
	}
	r.recordTransition(stack, before, result)
	failed := 0
	if result.outcome.Class == abi.Retry {
		failed = r.Wakes.Failed(name)
	} else {
		r.Wakes.Succeeded(name)
	}
	after := requeueAfter(result.outcome, result.inputs, failed, r.resync())
	if result.outcome.OK() || result.outcome.Parks() {
		r.Wakes.Synced(name, r.now(), after)
	}
	if r.missedInput(ctx, result.inputs) {
		after = retryBase
	}
	return ctrl.Result{RequeueAfter: after}, nil
}

// missedInput reports whether an input changed while the pass ran. Its event may have
// come before the index knew that anybody reads it; one that comes later finds the
// index filled.
func (r *StackReconciler) missedInput(ctx context.Context, inputs []v1alpha1.InputRecord) bool {
	current, err := r.currentInputs(ctx, inputs)
	return err != nil || inputsDigest(current) != inputsDigest(inputs)
}

// forget drops what is kept in memory of a Stack that is gone.
func (r *StackReconciler) forget(name types.NamespacedName) {
	r.Wakes.Forget(name)
	r.Index.Set(name, nil)
}

// writeStatus writes the status if it differs.
func (r *StackReconciler) writeStatus(ctx context.Context, stack *v1alpha1.Stack, status v1alpha1.StackStatus) error {
	if equality.Semantic.DeepEqual(stack.Status, status) {
		return nil
	}
	now := metav1.NewTime(r.now())
	status.LastPassTime = &now
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	if err := r.owners().WriteStatus(ctx, stack, status); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	r.Wakes.Wrote(client.ObjectKeyFromObject(stack), stack.ResourceVersion, r.now())
	return nil
}

// isNews reports whether an event is due: the phase has changed, or somebody has to do
// something else than before. What is under way or tried again changes its words too often
// for events.
func isNews(old, next *metav1.Condition) bool {
	if old == nil || old.Reason != next.Reason {
		return true
	}
	asks := next.Reason == v1alpha1.ReasonUserActionRequired || next.Reason == v1alpha1.ReasonTerminal
	return asks && old.Message != next.Message
}

// recordTransition records an event when something has happened to the Stack.
func (r *StackReconciler) recordTransition(stack *v1alpha1.Stack, before *v1alpha1.StackStatus, result passResult) {
	old := availableOf(before)
	if next := availableOf(&stack.Status); next != nil && isNews(old, next) {
		kind := "Normal"
		if result.outcome.Headline.Disposition >= abi.Retry {
			kind = "Warning"
		}
		r.Events.Eventf(stack, nil, kind, next.Reason, "Reconcile", "%s", clip(next.Message))
	}
	if len(stack.Status.Abandoned) > len(before.Abandoned) {
		r.Events.Eventf(stack, nil, "Warning", eventAbandoned, "Deprovision", "%s", clip(givenUp(stack.Status.Abandoned)))
	}
}

func (r *StackReconciler) owners() Owners {
	if r.Owners == nil {
		return stacks{client: r.Client}
	}
	return r.Owners
}

func (r *StackReconciler) now() time.Time {
	if r.Clock == nil {
		return time.Now()
	}
	return r.Clock()
}

func (r *StackReconciler) resync() time.Duration {
	if r.Resync == 0 {
		return DefaultResync
	}
	return r.Resync
}

// conflictIsSilent retries a write that lost a race without making an error of it.
func conflictIsSilent(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: retryBase}, nil
	}
	return ctrl.Result{}, err
}
