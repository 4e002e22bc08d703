package abi

// Revival is what takes away the cause of a reason. It decides whether anybody has to
// tell the host afterwards, or whether it sees it by itself.
type Revival string

// The revivals.
const (
	// RevivedByTime needs nobody: what is waited for is under way or is tried again.
	RevivedByTime Revival = "time"
	// RevivedByInput is a change of a Secret or ConfigMap that was read; at home it is seen
	// at once.
	RevivedByInput Revival = "input"
	// RevivedBySpec is a change of the Stack's spec, which is seen at once.
	RevivedBySpec Revival = "spec"
	// RevivedByModule is a change of the Module or of what its reference means, which is
	// seen at once or at the next poll of the reference.
	RevivedByModule Revival = "module"
	// RevivedByCatalogue is a change of the Application in the catalogue, seen at once.
	RevivedByCatalogue Revival = "catalogue"
	// RevivedByDriver is a change of what was installed. It is watched, and the driver looks
	// again at every resync, because some of it comes about without any event.
	RevivedByDriver Revival = "driver"
	// RevivedByRetry is a change of something that nobody watches, such as a permission:
	// whoever made it has to say so with the annotation caisson.dev/retry.
	RevivedByRetry Revival = "retry"
)

// Remedy says what to do about a reason of the host's own.
type Remedy struct {
	// Code is the reason.
	Code string
	// Revival is what takes the cause away.
	Revival Revival
	// Text says what to do, in sentences that are safe to show to users.
	Text string
}

// HostRemedies returns a remedy for each reason of [HostReasons], in the same order.
func HostRemedies() []Remedy {
	return []Remedy{
		{ReasonUnspecified, RevivedByRetry, "Ask who wrote the module what it met, with the operator's log of this Stack at hand."},
		{ReasonUnexpected, RevivedByTime, "If it stays like this, look for the name of the Stack in the operator's log."},
		{ReasonDeadlineExceeded, RevivedByTime, "If it stays like this, an API server or a module is slow; the operator's log says which."},
		{ReasonModuleNotFound, RevivedByModule, "Create the Module, or correct the name in the node's ref."},
		{ReasonModuleNotReady, RevivedByModule, "Mend what the conditions of the Module say."},
		{ReasonModuleNotAllowed, RevivedByModule, "An admin has to add the namespace of the Stack to spec.allowedNamespaces of the Module."},
		{ReasonModuleFaulted, RevivedByModule, "Publish a version of the module that does not crash, or let the Module refer to an older one."},
		{ReasonModuleBusy, RevivedByTime, "If it stays like this, the module hangs: the operator's log says in which calls."},
		{ReasonWorkerBusy, RevivedByTime, "If it stays like this, an admin can start the operator with a higher --max-workers, or lower the limits of modules that take long."},
		{ReasonModuleTrap, RevivedByModule, "Publish a version of the module without the fault, or let the Module refer to an older one; the trace is in the operator's log."},
		{ReasonModuleCrashed, RevivedByTime, "If it stays like this, the module kills its process; the operator's log says how."},
		{ReasonModuleBadCode, RevivedByModule, "Publish a version of the module that keeps to its contract."},
		{ReasonModuleBadOutput, RevivedByModule, "Publish a version of the module that keeps to its contract."},
		{ReasonTimeout, RevivedByModule, "An admin can raise spec.limits.timeout of the Module; a module that waits should yield instead."},
		{ReasonCPUExceeded, RevivedByModule, "An admin can raise spec.limits.cpu of the Module; a module that computes for seconds should do so in several calls."},
		{ReasonMemoryExceeded, RevivedByModule, "An admin can raise spec.limits.memory of the Module."},
		{ReasonTableExceeded, RevivedByModule, "An admin can raise spec.limits.tableElements of the Module."},
		{ReasonInputTooLarge, RevivedByModule, "Make the configuration of the node smaller, or let an admin raise spec.limits.input of the Module."},
		{ReasonOutputTooLarge, RevivedByModule, "Publish a version of the module that answers with less, or let an admin raise spec.limits.output of the Module; facts and state have limits of their own."},
		{ReasonHostCallsExceeded, RevivedByModule, "An admin can raise spec.limits.hostCalls of the Module; a module with much to do should yield and go on in the next call."},
		{ReasonHostBytesExceeded, RevivedByModule, "An admin can raise spec.limits.hostCallTotal of the Module; a module should ask for what it needs and not for all there is."},
		{ReasonInvalidStack, RevivedBySpec, "Correct the tree in the spec."},
		{ReasonInvalidExpression, RevivedBySpec, "Correct the expression in the spec."},
		{ReasonInvalidConfig, RevivedBySpec, "Correct the configuration of the node in the spec, or what it takes values from."},
		{ReasonFactsMissing, RevivedByTime, "It goes on when the node that publishes the fact does; if none does, correct the expression."},
		{ReasonAwaitingDependency, RevivedByTime, "It goes on when what it depends on is there."},
		{ReasonAwaitingReferences, RevivedByTime, "It goes on when the other objects let go; look at what still refers to it."},
		{ReasonServiceAccountMissing, RevivedBySpec, "Set spec.serviceAccountName to a ServiceAccount in the namespace of the Stack."},
		{ReasonForbidden, RevivedByRetry, "Grant what is lacking; the operator's log names it."},
		{ReasonNotGranted, RevivedByModule, "An admin has to extend spec.grant of the Module."},
		{ReasonSecretMissing, RevivedByInput, "Create the Secret, or the key that it lacks."},
		{ReasonInvalidKubeconfig, RevivedByInput, "Replace the kubeconfig with one that holds its credentials and its CA itself, and runs no program."},
		{ReasonRemotePending, RevivedByTime, "It goes on when the kubeconfig is there; whoever makes the cluster writes it."},
		{ReasonRemoteUnreachable, RevivedByTime, "See whether the remote cluster runs, and whether the operator's network reaches it."},
		{ReasonRemoteGone, RevivedByTime, "If the cluster is not coming back, take what runs on it out of the spec, or delete the Stack."},
		{ReasonRegistrationFailed, RevivedByTime, "If it stays like this, look for the name of the Stack in the operator's log."},
		{ReasonRemoteInUse, RevivedByTime, "It goes on when the last application there is gone."},
		{ReasonRemoteUndeclared, RevivedBySpec, "Declare the remote again until its applications are gone."},
		{ReasonApplicationNotFound, RevivedByCatalogue, "Create the Application, or correct the name in the node's ref."},
		{ReasonVersionNotFound, RevivedByCatalogue, "Add the version to the Application, or correct the version of the node."},
		{ReasonValuesMissing, RevivedByInput, "Create the ConfigMap or Secret, or the key that it lacks."},
		{ReasonChartNotFound, RevivedByRetry, "Publish the chart, or correct the version in the node or in the Application."},
		{ReasonChartUnavailable, RevivedByTime, "If it stays like this, see whether the repository runs, and whether the operator's network reaches it."},
		{ReasonChartInvalid, RevivedByRetry, "Publish a valid chart, or correct the reference in the Application."},
		{ReasonRenderFailed, RevivedBySpec, "Correct the values of the node; the operator's log has what the chart said."},
		{ReasonApplicationInstalling, RevivedByTime, "It goes on when the application is installed."},
		{ReasonApplicationUpgrading, RevivedByTime, "It goes on when the application is upgraded."},
		{ReasonApplicationWaiting, RevivedByTime, "It goes on when the workloads are ready."},
		{ReasonApplicationSuspended, RevivedByTime, "Resume the workload: it is paused in its own spec."},
		{ReasonApplicationUnknown, RevivedByTime, "It goes on when the state can be told; if it stays like this, see whether the kinds of the chart's objects are installed."},
		{ReasonApplicationDegraded, RevivedByDriver, "Look at the events of the application's workloads, and mend what they say."},
		{ReasonApplicationStuck, RevivedByDriver, "Look at the application's workloads: something that they wait for does not come."},
		{ReasonApplicationFailed, RevivedByDriver, "Look for the name of the Stack in the operator's log: it has what Helm said."},
		{ReasonApplicationLocked, RevivedByTime, "It goes on when the other process is done, or has not been heard of for long enough."},
		{ReasonApplicationDeleting, RevivedByTime, "It goes on when the application's objects are gone; a finalizer on one of them may hold it up."},
		{ReasonApplicationOwned, RevivedByDriver, "Choose another release name for the node, or remove the release that is in the way."},
		{ReasonFieldConflict, RevivedByDriver, "Leave the field out of the values, or let the other controller give it up."},
		{ReasonReleaseTooLarge, RevivedBySpec, "Use a smaller chart, or fewer and smaller values."},
		{ReasonInvalidRelease, RevivedBySpec, "Set a release name of at most 53 lower-case letters, digits and dashes."},
	}
}

// HostRemedy returns the remedy for one of the host's own reasons, and whether there is
// one.
func HostRemedy(code string) (Remedy, bool) {
	for _, r := range HostRemedies() {
		if r.Code == code {
			return r, true
		}
	}
	return Remedy{}, false
}
