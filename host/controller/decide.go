package controller

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// action is what a wake of a Stack leads to.
type action int

const (
	// actionNone does nothing at all: no module call, no write.
	actionNone action = iota
	actionProvision
	actionDeprovision
	actionSuspend
)

// decision is the answer to a wake.
type decision struct {
	action action
	// forget drops what is remembered of module calls, because something that they
	// depend on changed without being part of their envelope.
	forget bool
	// resyncIn is when to look again after actionNone; 0 means never, which is what
	// parking is.
	resyncIn time.Duration
	// because is for the log.
	because string
}

// observation is everything that decides about a wake.
type observation struct {
	stack *v1alpha1.Stack
	// wake is why the Stack is looked at.
	wake Wake
	// inputsDigest is that of the recorded inputs as they are now.
	inputsDigest string
	// untilResync is how long it is until the Stack is due; not positive when it is.
	untilResync time.Duration
}

// decide is pure. It trusts nothing in the status but the facts that name what the last
// pass saw: the generation, the inputs and the parked record.
func decide(o observation) decision {
	s := o.stack
	if !s.DeletionTimestamp.IsZero() {
		if !controllerutil.ContainsFinalizer(s, v1alpha1.StackFinalizer) {
			return decision{because: "deleted, and not ours to clean up"}
		}
		return decision{action: actionDeprovision, because: "deleted"}
	}
	if s.Spec.Suspend {
		if isSuspended(s) {
			return decision{because: "suspended"}
		}
		return decision{action: actionSuspend, because: "suspended"}
	}
	if s.Generation != s.Status.ObservedGeneration {
		return decision{action: actionProvision, because: "spec changed"}
	}
	if s.Status.Parked != nil {
		return decideParked(o)
	}
	if !meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionAvailable) {
		return decision{action: actionProvision, forget: o.inputsDigest != s.Status.InputsDigest, because: "in progress"}
	}
	switch {
	case o.inputsDigest != s.Status.InputsDigest:
		return decision{action: actionProvision, forget: true, because: "an input changed"}
	case o.wake.Driver:
		return decision{action: actionProvision, because: "an application changed"}
	case o.untilResync <= 0:
		return decision{action: actionProvision, forget: true, because: "resync"}
	default:
		return decision{resyncIn: o.untilResync, because: "nothing changed"}
	}
}

func decideParked(o observation) decision {
	parked := o.stack.Status.Parked
	switch {
	case o.stack.Annotations[v1alpha1.RetryAnnotation] != parked.RetryToken:
		return decision{action: actionProvision, forget: true, because: "retry was asked for"}
	case parked.Generation != o.stack.Generation:
		return decision{action: actionProvision, because: "spec changed"}
	case o.inputsDigest != parked.InputsDigest:
		return decision{action: actionProvision, forget: true, because: "an input changed"}
	case o.wake.Driver:
		return decision{action: actionProvision, because: "an application changed"}
	case !mendsUnseen(parked.Reason, o.stack.Status.Inputs):
		return decision{because: "parked, and nothing changed"}
	case o.untilResync <= 0:
		return decision{action: actionProvision, because: "what it waits for may have come unseen"}
	default:
		return decision{resyncIn: o.untilResync, because: "parked, and not due"}
	}
}

// mendsUnseen reports whether what a park waits for can come about without any event that
// is seen: a load balancer gets its address at minute 11, or a kubeconfig that is kept on
// a remote is replaced. The driver reminds its owner by itself; this is for what it does
// not watch, and for a process that was restarted since. Whoever grants a permission is
// told to ask for a retry instead: the API server tells nobody of it.
func mendsUnseen(reason string, inputs []v1alpha1.InputRecord) bool {
	switch reason {
	case abi.ReasonApplicationStuck, abi.ReasonApplicationDegraded, abi.ReasonApplicationFailed,
		abi.ReasonApplicationOwned, abi.ReasonFieldConflict:
		return true
	case abi.ReasonSecretMissing, abi.ReasonInvalidKubeconfig:
		return slices.ContainsFunc(inputs, func(r v1alpha1.InputRecord) bool { return !watched(r) })
	default:
		return false
	}
}

// isSuspended reports whether the status already says so for this generation.
func isSuspended(s *v1alpha1.Stack) bool {
	c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionAvailable)
	return c != nil && c.Reason == v1alpha1.ReasonSuspended && c.ObservedGeneration == s.Generation
}
