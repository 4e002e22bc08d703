package helm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

func errNoMatch() error {
	return fmt.Errorf("unable to build kubernetes objects: %w", &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "x", Kind: "Y"}})
}

func errInvalid(detail string) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "s", field.ErrorList{field.Invalid(field.NewPath("data"), "", detail)})
}

func errFieldConflict() error {
	return apierrors.NewApplyConflict([]metav1.StatusCause{{Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "other"`, Field: ".spec.replicas"}}, "Apply failed")
}

func TestClassify(t *testing.T) {
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	cases := map[string]struct {
		reason string
		err    error
		at     stage
		class  abi.Disposition
		code   string
		final  abi.Disposition
	}{
		"Forbidden":           {"a right is missing", apierrors.NewForbidden(deployments, "d", errors.New("no")), stageApplying, abi.UserActionRequired, abi.ReasonForbidden, abi.UserActionRequired},
		"Quota":               {"a quota is a Forbidden too", apierrors.NewForbidden(deployments, "d", errors.New("exceeded quota")), stageApplying, abi.UserActionRequired, abi.ReasonForbidden, abi.UserActionRequired},
		"Unauthorized":        {"the credential is no good", apierrors.NewUnauthorized("no"), stageApplying, abi.UserActionRequired, abi.ReasonForbidden, abi.UserActionRequired},
		"Invalid":             {"the chart makes something invalid", errInvalid("field is immutable"), stageApplying, abi.Terminal, abi.ReasonRenderFailed, abi.Terminal},
		"UnknownField":        {"an apply that the API server cannot make sense of is a 500", apierrors.NewInternalError(errors.New("failed to create typed patch object (a/b; /v1, Kind=ConfigMap): .dada: field not declared in schema")), stageApplying, abi.Terminal, abi.ReasonRenderFailed, abi.Terminal},
		"BadRequest":          {"strict field validation", apierrors.NewBadRequest("unknown field"), stageApplying, abi.Terminal, abi.ReasonRenderFailed, abi.Terminal},
		"TooLong":             {"B56", errInvalid("Too long: may not be more than 1048576 bytes"), stageRendering, abi.Terminal, abi.ReasonReleaseTooLarge, abi.Terminal},
		"TooLarge":            {"413", apierrors.NewRequestEntityTooLargeError("limit is 3145728"), stageRendering, abi.Terminal, abi.ReasonReleaseTooLarge, abi.Terminal},
		"FieldConflict":       {"B50", fmt.Errorf("conflict occurred: %w", errFieldConflict()), stageApplying, abi.UserActionRequired, abi.ReasonFieldConflict, abi.UserActionRequired},
		"WriteConflict":       {"an optimistic lock is no field conflict", apierrors.NewConflict(deployments, "d", errors.New("modified")), stageApplying, abi.Yield, abi.ReasonApplicationFailed, abi.UserActionRequired},
		"NoMatch":             {"B46", errNoMatch(), stageRendering, abi.Yield, abi.ReasonRenderFailed, abi.Terminal},
		"Unserved":            {"a 404 of the whole resource is a kind that is gone", apierrors.NewGenericServerResponse(http.StatusNotFound, "patch", schema.GroupResource{Group: "x", Resource: "ys"}, "y", "", 0, true), stageApplying, abi.Yield, abi.ReasonRenderFailed, abi.Terminal},
		"NoMatchText":         {"the SDK loses the type in aggregates", errors.New(`no matches for kind "Y" in version "x/v1"`), stageRendering, abi.Yield, abi.ReasonRenderFailed, abi.Terminal},
		"NotFound":            {"a namespace that is not there yet", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "n"), stageApplying, abi.Yield, abi.ReasonAwaitingDependency, abi.UserActionRequired},
		"Webhook":             {"a webhook that is not up yet", apierrors.NewInternalError(errors.New("failed calling webhook")), stageApplying, abi.Yield, abi.ReasonApplicationFailed, abi.UserActionRequired},
		"WebhookDenies":       {"a policy says no, with a code of its own", &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusTeapot, Reason: "Policy"}}, stageApplying, abi.UserActionRequired, abi.ReasonApplicationFailed, abi.UserActionRequired},
		"Unavailable":         {"503", apierrors.NewServiceUnavailable("later"), stageApplying, abi.Yield, abi.ReasonRemoteUnreachable, abi.UserActionRequired},
		"TooMany":             {"429", apierrors.NewTooManyRequests("later", 1), stageApplying, abi.Yield, abi.ReasonRemoteUnreachable, abi.UserActionRequired},
		"ServerTimeout":       {"the server was too slow", apierrors.NewTimeoutError("slow", 1), stageApplying, abi.Yield, abi.ReasonRemoteUnreachable, abi.UserActionRequired},
		"Network":             {"nobody answers", &net.OpError{Op: "dial", Err: errors.New("connection refused")}, stageRendering, abi.Yield, abi.ReasonRemoteUnreachable, abi.UserActionRequired},
		"Silent":              {"it fell silent in the middle", fmt.Errorf("reading: %w", scope.ErrSilent), stageRendering, abi.Yield, abi.ReasonRemoteUnreachable, abi.UserActionRequired},
		"SilentText":          {"the SDK loses the type in aggregates", errors.New("could not get information about the resource: " + scope.ErrSilent.Error()), stageRendering, abi.Yield, abi.ReasonRemoteUnreachable, abi.UserActionRequired},
		"Deadline":            {"time ran out", fmt.Errorf("waiting: %w", context.DeadlineExceeded), stageApplying, abi.Yield, abi.ReasonRemoteUnreachable, abi.UserActionRequired},
		"Unreachable":         {"Helm's own words for it", errors.New("kubernetes cluster unreachable: x"), stageRendering, abi.Yield, abi.ReasonRemoteUnreachable, abi.UserActionRequired},
		"Owned":               {"B33", errors.New("Unable to continue with install: ConfigMap exists and cannot be imported into the current release"), stageRendering, abi.UserActionRequired, abi.ReasonApplicationOwned, abi.UserActionRequired},
		"Exists":              {"somebody else was faster", fmt.Errorf("x: %w", driver.ErrReleaseExists), stageRendering, abi.Yield, abi.ReasonApplicationLocked, abi.UserActionRequired},
		"NameInUse":           {"somebody else was faster", errors.New("cannot reuse a name that is still in use"), stageRendering, abi.Yield, abi.ReasonApplicationLocked, abi.UserActionRequired},
		"Template":            {"what fails before a record is a fault of the chart", errors.New("template: x: nil pointer evaluating"), stageRendering, abi.Terminal, abi.ReasonRenderFailed, abi.Terminal},
		"Hook":                {"what fails after it may pass", errors.New("failed pre-install: job failed"), stageApplying, abi.Yield, abi.ReasonApplicationFailed, abi.UserActionRequired},
		"Panic":               {"so may a fault of the SDK", errPanic, stageApplying, abi.Yield, abi.ReasonApplicationFailed, abi.UserActionRequired},
		"Unreadable":          {"needs a person", errUnreadable, stageApplying, abi.UserActionRequired, abi.ReasonApplicationFailed, abi.UserActionRequired},
		"TypedTerminal":       {"typed errors keep their type", provisioner.Terminal(abi.ReasonChartNotFound, "x"), stageRendering, abi.Terminal, abi.ReasonChartNotFound, abi.Terminal},
		"TypedYield":          {"and get a deadline", provisioner.Yield(abi.ReasonChartUnavailable, "x"), stageRendering, abi.Yield, abi.ReasonChartUnavailable, abi.UserActionRequired},
		"TypedRetryWithCause": {"what a typed error wraps does not matter", provisioner.Retry(abi.ReasonUnexpected, "x").WithCause(apierrors.NewUnauthorized("no")), stageRendering, abi.Retry, abi.ReasonUnexpected, abi.UserActionRequired},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for _, err := range []error{tc.err, &actionError{stage: tc.at, err: fmt.Errorf("wrapped: %w", tc.err)}} {
				got := classify(err, tc.at)
				require.Equal(t, tc.class, got.disposition, tc.reason)
				require.Equal(t, tc.code, got.reason, tc.reason)
				require.Equal(t, tc.final, got.final, tc.reason)
				require.Equal(t, isNoMatch(tc.err), got.stale, "kinds are looked up again only where one is missing")
			}
			_, known := abi.HostSentence(tc.code)
			require.True(t, known)
		})
	}
}

func TestReadError(t *testing.T) {
	forbidden := readError(apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", nil), "reading")
	require.ErrorIs(t, forbidden, provisioner.ErrUserActionRequired)
	require.Equal(t, abi.Retry, provisioner.OutcomeOf(readError(errors.New("EOF"), "reading")).Class)
	require.ErrorIs(t, readError(fmt.Errorf("x: %w", errUnreadable), "reading"), provisioner.ErrUserActionRequired)
	silent := provisioner.OutcomeOf(readError(fmt.Errorf("x: %w", scope.ErrSilent), "reading"))
	require.Equal(t, abi.Yield, silent.Class, "what fell silent is waited for")
	require.Equal(t, abi.ReasonRemoteUnreachable, silent.Headline.Reason)
}

func TestCausesAreCollected(t *testing.T) {
	c := &causes{}
	require.NoError(t, c.join(nil))
	for range 2 * maxCauses {
		c.add(nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", nil))
	}
	require.Len(t, c.errs, maxCauses, "bounded")
	err := c.join(errors.New("failed to delete release: app"))
	require.True(t, apierrors.IsForbidden(err), "the cause that Helm only logs is found by its type")
	require.ErrorContains(t, err, "failed to delete release")
}
