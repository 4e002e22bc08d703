package v1alpha1

// The names that Caisson puts on objects.
const (
	// StackFinalizer keeps a Stack until everything that it made is gone.
	StackFinalizer = "caisson.dev/stack"
	// RetryAnnotation wakes a parked Stack when its value changes.
	RetryAnnotation = "caisson.dev/retry"
	// FieldManager is the server-side apply manager of everything that Caisson writes.
	FieldManager = "caisson"
)

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
