package v1alpha1

import "time"

// The names that Caisson puts on objects.
const (
	// StackFinalizer keeps a Stack until everything that it made is gone.
	StackFinalizer = "caisson.dev/stack"
	// BlueprintFinalizer keeps a Blueprint until its controller has stopped and has let go
	// of the owners.
	BlueprintFinalizer = "caisson.dev/blueprint"
	// OwnerFinalizer keeps an owner until its Stack is gone.
	OwnerFinalizer = "caisson.dev/owner"
	// BlueprintLabel is on Stacks that a Blueprint made, with its name, cut to what a label
	// holds.
	BlueprintLabel = "caisson.dev/blueprint"
	// SpecDigestAnnotation is on Stacks that a Blueprint made: the digest of what was applied.
	SpecDigestAnnotation = "caisson.dev/spec-digest"
	// ConditionsAnnotation is on owners whose conditions are a list without keys: the types
	// of the conditions in it that are ours.
	ConditionsAnnotation = "caisson.dev/conditions"
	// RetryAnnotation wakes a parked Stack when its value changes. Another value that is not
	// empty also makes modules forget what they keep until a retry is asked for.
	RetryAnnotation = "caisson.dev/retry"
	// GoneAnnotation is a human's word that remotes are gone for good: the names of declared
	// remotes, separated by commas. It counts while the Stack is being deleted only, where
	// it ends the wait for clusters that nobody will ever reach again: they are not asked
	// any more, even if they would answer, what was recorded of them is dropped, and what
	// may still run there is left. Names that the spec does not declare are ignored.
	GoneAnnotation = "caisson.dev/gone"
	// FieldManager is the server-side apply manager of everything that Caisson writes.
	FieldManager = "caisson"
	// BlueprintFieldManager is that of what Blueprints make: Stacks, and the conditions of
	// owners.
	BlueprintFieldManager = "caisson-blueprint"
)

// DefaultUnreachableGrace is how long a deletion waits for a remote that does not answer
// if the remote does not say. It is longer than the restart of a control plane takes, and
// shorter than anybody waits for a deletion without looking.
const DefaultUnreachableGrace = 15 * time.Minute

// The condition types of a Stack.
const (
	// ConditionAvailable is the one that users wait for: every node is as desired.
	ConditionAvailable = "Available"
	// ConditionReady always equals Available; tools look for it by this name.
	ConditionReady = "Ready"
	// ConditionReconciling is true while work goes on; absent otherwise, as kstatus asks.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is true while nothing will happen before somebody acts; absent
	// otherwise, as kstatus asks.
	ConditionStalled = "Stalled"
)

// The reasons of a Stack's conditions. They are the phases of its life; what happened
// to a node is in the message, with a reason of the closed vocabulary.
const (
	ReasonProvisioned        = "Provisioned"
	ReasonProvisioning       = "Provisioning"
	ReasonDeprovisioning     = "Deprovisioning"
	ReasonDeprovisioned      = "Deprovisioned"
	ReasonRetrying           = "Retrying"
	ReasonUserActionRequired = "UserActionRequired"
	ReasonTerminal           = "Terminal"
	ReasonSuspended          = "Suspended"
)
