package abi

import "slices"

// The reasons of the host's own. A module may return any of them; the sentence that
// users see is the one of [HostReasons].
const (
	ReasonUnspecified           = "unspecified"
	ReasonUnexpected            = "unexpected"
	ReasonDeadlineExceeded      = "deadline_exceeded"
	ReasonModuleNotFound        = "module_not_found"
	ReasonModuleNotReady        = "module_not_ready"
	ReasonModuleNotAllowed      = "module_not_allowed"
	ReasonModuleFaulted         = "module_faulted"
	ReasonModuleBusy            = "module_busy"
	ReasonWorkerBusy            = "worker_busy"
	ReasonModuleTrap            = "module_trap"
	ReasonModuleCrashed         = "module_crashed"
	ReasonModuleBadCode         = "module_bad_code"
	ReasonModuleBadOutput       = "module_bad_output"
	ReasonTimeout               = "timeout"
	ReasonCPUExceeded           = "cpu_exceeded"
	ReasonMemoryExceeded        = "memory_exceeded"
	ReasonTableExceeded         = "table_exceeded"
	ReasonInputTooLarge         = "input_too_large"
	ReasonOutputTooLarge        = "output_too_large"
	ReasonHostCallsExceeded     = "host_calls_exceeded"
	ReasonHostBytesExceeded     = "host_bytes_exceeded"
	ReasonInvalidStack          = "invalid_stack"
	ReasonInvalidExpression     = "invalid_expression"
	ReasonInvalidConfig         = "invalid_config"
	ReasonFactsMissing          = "facts_missing"
	ReasonAwaitingDependency    = "awaiting_dependency"
	ReasonAwaitingReferences    = "awaiting_references"
	ReasonServiceAccountMissing = "service_account_missing"
	ReasonForbidden             = "forbidden"
	ReasonNotGranted            = "not_granted"
	ReasonSecretMissing         = "secret_missing"
	ReasonInvalidKubeconfig     = "invalid_kubeconfig"
	ReasonRemotePending         = "remote_pending"
	ReasonRemoteUnreachable     = "remote_unreachable"
	ReasonRemoteGone            = "remote_gone"
	ReasonRegistrationFailed    = "registration_failed"
	ReasonRemoteInUse           = "remote_in_use"
	ReasonRemoteUndeclared      = "remote_undeclared"
	ReasonApplicationNotFound   = "application_not_found"
	ReasonVersionNotFound       = "version_not_found"
	ReasonValuesMissing         = "values_missing"
	ReasonChartNotFound         = "chart_not_found"
	ReasonChartUnavailable      = "chart_unavailable"
	ReasonChartInvalid          = "chart_invalid"
	ReasonRenderFailed          = "render_failed"
	ReasonApplicationInstalling = "application_installing"
	ReasonApplicationUpgrading  = "application_upgrading"
	ReasonApplicationWaiting    = "application_progressing"
	ReasonApplicationSuspended  = "application_suspended"
	ReasonApplicationUnknown    = "application_unknown"
	ReasonApplicationDegraded   = "application_degraded"
	ReasonApplicationStuck      = "application_stuck"
	ReasonApplicationFailed     = "application_failed"
	ReasonApplicationLocked     = "application_locked"
	ReasonApplicationDeleting   = "application_deleting"
	ReasonApplicationOwned      = "application_owned_by_other"
	ReasonFieldConflict         = "field_conflict"
	ReasonReleaseTooLarge       = "release_too_large"
	ReasonInvalidRelease        = "invalid_release"
)

// HostReasons returns the reasons of the host's own with the sentence that users are
// shown for each, in the order of the table in SPEC.md.
func HostReasons() []ReasonText {
	return []ReasonText{
		{ReasonUnspecified, "The module gave no reason that it had declared; its operator finds more in the log."},
		{ReasonUnexpected, "An unexpected error occurred and will be retried; the operator's log has the details."},
		{ReasonDeadlineExceeded, "The time for one pass was used up; it will be continued."},
		{ReasonModuleNotFound, "The node names a Module that does not exist; create it or correct the name."},
		{ReasonModuleNotReady, "The Module is not ready yet; see its own conditions."},
		{ReasonModuleNotAllowed, "The Module is not allowed in this namespace; an admin can add it to its allowedNamespaces."},
		{ReasonModuleFaulted, "The Module crashed too often and is being left alone for a while; see its own conditions."},
		{ReasonModuleBusy, "The module is stuck in calls for others; it is called as soon as one of them ends."},
		{ReasonWorkerBusy, "Every worker of the operator is busy with other modules; this one is called as soon as there is one."},
		{ReasonModuleTrap, "The module stopped with a fault of its own; its author can find the trace in the operator's log."},
		{ReasonModuleCrashed, "The process that ran the module died; the call will be repeated."},
		{ReasonModuleBadCode, "The module answered with a number that is no disposition."},
		{ReasonModuleBadOutput, "The module answered with something that is not the JSON of its contract."},
		{ReasonTimeout, "The module did not answer within its time limit and was stopped."},
		{ReasonCPUExceeded, "The module computed for longer than its limit of processor time and was stopped."},
		{ReasonMemoryExceeded, "The module needed more memory than its limit and was stopped."},
		{ReasonTableExceeded, "The module needed a larger table than its limit and was stopped."},
		{ReasonInputTooLarge, "The module was not called: its configuration, facts and state are over its input limit together."},
		{ReasonOutputTooLarge, "The module answered with more than its output limit."},
		{ReasonHostCallsExceeded, "The module asked the host more often than its limit and was stopped."},
		{ReasonHostBytesExceeded, "The module exchanged more with the host than its limit and was stopped."},
		{ReasonInvalidStack, "The tree of provisioners is not valid; correct the spec."},
		{ReasonInvalidExpression, "An expression in the spec is not valid; correct the spec."},
		{ReasonInvalidConfig, "The configuration of this node is not valid; correct the spec."},
		{ReasonFactsMissing, "A fact that this node reads has not been published yet."},
		{ReasonAwaitingDependency, "Something that this node depends on is not there yet."},
		{ReasonAwaitingReferences, "Other objects still refer to this one; it is removed as soon as they let go of it."},
		{ReasonServiceAccountMissing, "No service account is named to act as; set spec.serviceAccountName, or ask the admin for a default."},
		{ReasonForbidden, "The service account or credential lacks a permission that is needed; grant it, and then set the annotation caisson.dev/retry."},
		{ReasonNotGranted, "The Module's grant does not cover something that the module needs; an admin can extend it."},
		{ReasonSecretMissing, "A Secret or a key of it that is needed does not exist; create it."},
		{ReasonInvalidKubeconfig, "The kubeconfig of the remote cluster cannot be used; replace it."},
		{ReasonRemotePending, "The remote cluster's kubeconfig is not there yet."},
		{ReasonRemoteUnreachable, "The remote cluster does not answer; it will be tried again."},
		{ReasonRemoteGone, "The remote cluster is gone for good."},
		{ReasonRegistrationFailed, "The remote cluster could not be registered; it will be tried again."},
		{ReasonRemoteInUse, "The remote cluster stays registered until every application on it is gone."},
		{ReasonRemoteUndeclared, "Applications are left on a remote that the spec no longer declares; declare it again until they are gone."},
		{ReasonApplicationNotFound, "The catalogue has no Application of that name; create it or correct the name."},
		{ReasonVersionNotFound, "The catalogue entry has no such version; add it or correct the version."},
		{ReasonValuesMissing, "A ConfigMap or Secret that values are taken from does not exist; create it."},
		{ReasonChartNotFound, "The repository has no such chart or version; correct the version, or publish it and then set the annotation caisson.dev/retry."},
		{ReasonChartUnavailable, "The chart's repository does not answer; it will be tried again."},
		{ReasonChartInvalid, "What the repository serves is not a valid chart; correct the reference, or publish it again and then set the annotation caisson.dev/retry."},
		{ReasonRenderFailed, "The chart cannot be rendered or applied with these values; correct them."},
		{ReasonApplicationInstalling, "The application is being installed."},
		{ReasonApplicationUpgrading, "The application is being upgraded."},
		{ReasonApplicationWaiting, "The application is installed and its workloads are becoming ready."},
		{ReasonApplicationSuspended, "A workload of the application is paused and cannot become ready; resume it."},
		{ReasonApplicationUnknown, "The state of the application cannot be told yet; the kind of one of its objects may be missing."},
		{ReasonApplicationDegraded, "The application's workloads have failed; look at their events."},
		{ReasonApplicationStuck, "The application has not become ready in time; look at its workloads."},
		{ReasonApplicationFailed, "Helm could not install, upgrade or remove the application; it will be tried again."},
		{ReasonApplicationLocked, "Another process holds the release; it will be taken over once that has timed out."},
		{ReasonApplicationDeleting, "The application is being removed."},
		{ReasonApplicationOwned, "A release of that name exists and belongs to somebody else; choose another name or remove it."},
		{ReasonFieldConflict, "Another controller owns a field that the chart sets; leave it out of the values."},
		{ReasonReleaseTooLarge, "The release is larger than the cluster can store; use a smaller chart."},
		{ReasonInvalidRelease, "The release name is not valid; at most 53 lower-case letters, digits and dashes."},
	}
}

// HostSentence returns the sentence of one of the host's own reasons, and whether
// there is one.
func HostSentence(code string) (string, bool) {
	for _, r := range HostReasons() {
		if r.Code == code {
			return r.Sentence, true
		}
	}
	return "", false
}

// VerdictReasons returns those of the host's own reasons that say what the host has seen
// of a module or of its worker. A module cannot give them: they would have people look for
// a fault where there is none.
func VerdictReasons() []string {
	return []string{
		ReasonModuleNotFound, ReasonModuleNotReady, ReasonModuleNotAllowed, ReasonModuleFaulted, ReasonModuleBusy,
		ReasonWorkerBusy, ReasonModuleTrap, ReasonModuleCrashed, ReasonModuleBadCode, ReasonModuleBadOutput,
		ReasonTimeout, ReasonCPUExceeded, ReasonMemoryExceeded, ReasonTableExceeded,
		ReasonInputTooLarge, ReasonOutputTooLarge, ReasonHostCallsExceeded, ReasonHostBytesExceeded,
	}
}

// GivenSentence returns the sentence of one of the host's own reasons that a module can
// give, and whether there is one: [HostSentence] without [VerdictReasons].
func GivenSentence(code string) (string, bool) {
	if slices.Contains(VerdictReasons(), code) {
		return "", false
	}
	return HostSentence(code)
}
