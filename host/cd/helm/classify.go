package helm

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"

	"helm.sh/helm/v4/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// verdict is what an error means: what to say while it may still go away by itself, and
// what to say once the deadline has passed.
type verdict struct {
	disposition abi.Disposition
	reason      string
	// final is the disposition after the deadline; a verdict that is none of Yield and
	// Retry is final from the start.
	final abi.Disposition
	// stale says that the cluster's kinds must be looked up again first.
	stale bool
}

// stage is how far an action had come when it failed.
type stage int

const (
	// stageRendering is everything before Helm stored a record: an error without a type is a
	// fault of the chart or the values.
	stageRendering stage = iota
	// stageApplying is everything after it.
	stageApplying
)

func blocked(reason string) verdict {
	return verdict{disposition: abi.UserActionRequired, reason: reason, final: abi.UserActionRequired}
}

func hopeless(reason string) verdict {
	return verdict{disposition: abi.Terminal, reason: reason, final: abi.Terminal}
}

func passing(reason string) verdict {
	return verdict{disposition: abi.Yield, reason: reason, final: abi.UserActionRequired}
}

// classify says what an error of a Helm action means. It goes by types; texts of Helm
// that have no type are only used to be more severe, never less.
func classify(err error, at stage) verdict {
	var typed *provisioner.Error
	switch {
	case errors.As(err, &typed):
		return classifyTyped(typed)
	case mentions(err, "cannot be imported into the current release", "invalid ownership metadata"):
		return blocked(abi.ReasonApplicationOwned)
	case errors.Is(err, errUnreadable):
		return blocked(abi.ReasonApplicationFailed)
	case apierrors.IsRequestEntityTooLargeError(err), apierrors.IsInvalid(err) && mentions(err, "Too long"):
		return hopeless(abi.ReasonReleaseTooLarge)
	case mentions(err, "failed to create typed patch object"):
		// An apply of a field that the kind does not have, or of the wrong type. The API server
		// answers with a 500 and no reason, as if it might go away.
		return hopeless(abi.ReasonRenderFailed)
	case isNoMatch(err):
		return verdict{disposition: abi.Yield, reason: abi.ReasonRenderFailed, final: abi.Terminal, stale: true}
	}
	if v, ok := classifyStatus(err); ok {
		return v
	}
	switch {
	case isTransport(err):
		return passing(abi.ReasonRemoteUnreachable)
	case errors.Is(err, driver.ErrReleaseExists), errors.Is(err, driver.ErrNoDeployedReleases),
		mentions(err, "cannot reuse a name that is still in use", "another operation (install/upgrade/rollback) is in progress"):
		return passing(abi.ReasonApplicationLocked)
	case at == stageRendering:
		return hopeless(abi.ReasonRenderFailed)
	default:
		return passing(abi.ReasonApplicationFailed)
	}
}

func classifyTyped(err *provisioner.Error) verdict {
	v := verdict{disposition: err.Disposition(), reason: err.Reason(), final: err.Disposition()}
	if v.disposition == abi.Yield || v.disposition == abi.Retry {
		v.final = abi.UserActionRequired
	}
	return v
}

// classifyStatus goes by what the API server answered.
func classifyStatus(err error) (verdict, bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return verdict{}, false
	}
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return blocked(abi.ReasonForbidden), true
	case apierrors.IsConflict(err):
		if isFieldConflict(status) {
			return blocked(abi.ReasonFieldConflict), true
		}
		return passing(abi.ReasonApplicationFailed), true
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsUnsupportedMediaType(err):
		return hopeless(abi.ReasonRenderFailed), true
	case apierrors.IsNotFound(err):
		return passing(abi.ReasonAwaitingDependency), true
	case apierrors.IsServiceUnavailable(err), apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err):
		return passing(abi.ReasonRemoteUnreachable), true
	}
	if code := status.Status().Code; code >= http.StatusBadRequest && code < http.StatusInternalServerError {
		// A webhook may deny with any code of its own choice.
		return blocked(abi.ReasonApplicationFailed), true
	}
	return passing(abi.ReasonApplicationFailed), true
}

func isFieldConflict(status apierrors.APIStatus) bool {
	details := status.Status().Details
	if details == nil {
		return false
	}
	for _, cause := range details.Causes {
		if cause.Type == metav1.CauseTypeFieldManagerConflict {
			return true
		}
	}
	return false
}

func isNoMatch(err error) bool {
	return meta.IsNoMatchError(err) || isUnserved(err) || mentions(err, "no matches for kind", "ensure CRDs are installed first")
}

func isTransport(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, scope.ErrSilent) ||
		mentions(err, "kubernetes cluster unreachable", "connection refused", "unexpected EOF", scope.ErrSilent.Error())
}

func mentions(err error, texts ...string) bool {
	message := err.Error()
	for _, text := range texts {
		if strings.Contains(message, text) {
			return true
		}
	}
	return false
}

// readError is the answer when something that had to be read could not be. The pass is
// repeated; only a missing permission needs somebody. A remote that fell silent in the
// middle of a pass is waited for, as one is that was silent at its beginning.
func readError(err error, what string) error {
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return provisioner.UserActionRequired(abi.ReasonForbidden, what).WithCause(err)
	case errors.Is(err, errUnreadable):
		return provisioner.UserActionRequired(abi.ReasonApplicationFailed, what).WithCause(err)
	case errors.Is(err, scope.ErrSilent):
		return provisioner.Yield(abi.ReasonRemoteUnreachable, what).WithCause(err)
	default:
		return provisioner.Retry(abi.ReasonRemoteUnreachable, what).WithCause(err)
	}
}
