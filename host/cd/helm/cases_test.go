package helm

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/release/common"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// What the cases of drivers mean for Helm, as far as no cluster is needed. Where they
// name a status of Argo CD, the reason says what stands for it here.

// now is any moment.
func now() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// live is an object as the API server has it.
func live(apiVersion, kind string, spec, status map[string]any, generation, observed int64) *unstructured.Unstructured {
	if observed > 0 {
		status = maps.Clone(status)
		status["observedGeneration"] = observed
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": "x", "generation": generation}, "spec": spec, "status": status,
	}}
}

// rolledOut is a Deployment whose status says that it is ready, for the generation that
// the status was made for.
func rolledOut(generation, observed int64) *unstructured.Unstructured {
	return live("apps/v1", "Deployment", map[string]any{"replicas": int64(1)}, map[string]any{
		"replicas": int64(1), "updatedReplicas": int64(1), "readyReplicas": int64(1), "availableReplicas": int64(1),
		"conditions": []any{
			map[string]any{"type": "Available", "status": "True"},
			map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
		},
	}, generation, observed)
}

// verdictOn judges a release that consists of one object, right after it was deployed.
func verdictOn(o *unstructured.Unstructured) provisioner.Outcome {
	return verdictOf(findingOf(object{Kind: o.GetKind(), Name: o.GetName()}, o))
}

func verdictOf(findings ...finding) provisioner.Outcome {
	h, why := worst(findings)
	p := patience{progress: 10 * time.Minute, degraded: 2 * time.Minute, poll: time.Second}
	if err := judge(h, why, waiting{}.observe(h, 1, now()), p, now()); err != nil {
		return provisioner.OutcomeOf(err)
	}
	return provisioner.Outcome{}
}

func TestCase082OldStatusIsNoAnswer(t *testing.T) {
	require.True(t, verdictOn(rolledOut(2, 2)).OK(), "a status of this generation counts")
	outcome := verdictOn(rolledOut(2, 1))
	require.Equal(t, abi.Yield, outcome.Class, "Synced and Healthy of before: the status is that of another generation")
	require.Equal(t, abi.ReasonApplicationWaiting, outcome.Headline.Reason)

	want := identity{owner: "o", chart: "new", values: "v"}
	deployed := &revision{number: 1, status: common.StatusDeployed, labels: identity{owner: "o", chart: "old", values: "v"}.labels(), updated: now()}
	require.Equal(t, stepUpgrade, decide(situation{last: deployed, want: want, now: now()}).step, "another version is never judged by what is deployed")
	deployed.labels = want.labels()
	require.Equal(t, stepHealth, decide(situation{last: deployed, want: want, now: now()}).step)
}

func TestCase084NotReadyHasDistinctReasons(t *testing.T) {
	object := object{Kind: "Deployment", Name: "x"}
	deployment := func(spec map[string]any) *unstructured.Unstructured {
		return live("apps/v1", "Deployment", spec, map[string]any{"replicas": int64(0)}, 1, 1)
	}
	for name, tc := range map[string]struct {
		reason string
		got    provisioner.Outcome
		want   string
	}{
		"Progressing": {"Progressing is kstatus InProgress", verdictOn(deployment(map[string]any{"replicas": int64(1)})), abi.ReasonApplicationWaiting},
		"Suspended":   {"Suspended is an object that is paused in its spec and not ready", verdictOn(deployment(map[string]any{"replicas": int64(1), "paused": true})), abi.ReasonApplicationSuspended},
		"SuspendedJob": {
			"a Job says it in another word", verdictOn(live("batch/v1", "Job", map[string]any{"suspend": true}, map[string]any{}, 1, 0)), abi.ReasonApplicationSuspended,
		},
		"Unknown": {"Unknown is an object whose status cannot be told", verdictOf(finding{object: object, status: status.UnknownStatus}), abi.ReasonApplicationUnknown},
		"Nil":     {"nil is a status that nobody has written yet", verdictOn(live("apps/v1", "Deployment", map[string]any{"replicas": int64(1)}, map[string]any{}, 1, 0)), abi.ReasonApplicationWaiting},
		"Both":    {"what somebody must do something about is told first", verdictOf(finding{object: object, status: status.InProgressStatus}, finding{object: object, suspended: true}), abi.ReasonApplicationSuspended},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, abi.Yield, tc.got.Class, tc.reason)
			require.Equal(t, tc.want, tc.got.Headline.Reason, tc.reason)
			require.Positive(t, tc.got.RetryAfter)
		})
	}
	t.Run("Missing", func(t *testing.T) {
		h, _ := worst([]finding{{object: object, status: status.NotFoundStatus}})
		require.Equal(t, healthDrifted, h, "Missing is put back: it is upgraded to the same, which yields application_upgrading")
	})
	t.Run("SuspendedAndReady", func(t *testing.T) {
		paused := rolledOut(1, 1)
		require.NoError(t, unstructured.SetNestedField(paused.Object, true, "spec", "paused"))
		require.True(t, verdictOn(paused).OK(), "what is ready is ready, paused or not")
	})
	t.Run("Deadline", func(t *testing.T) {
		p := patience{progress: 10 * time.Minute}
		for _, h := range []health{healthProgressing, healthSuspended, healthUnknown} {
			err := judge(h, "why", waiting{}.observe(h, 1, now()), p, now().Add(10*time.Minute))
			require.Equal(t, abi.UserActionRequired, err.Disposition(), "every yield has a deadline")
			require.Equal(t, abi.ReasonApplicationStuck, err.Reason())
		}
	})
}

func TestCase085FaultsByWhoCanMendThem(t *testing.T) {
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	for name, tc := range map[string]struct {
		reason string
		err    error
		at     stage
		class  abi.Disposition
		code   string
	}{
		"InvalidSpec":     {"InvalidSpecError is a chart that cannot be rendered with these values", errors.New("template: nil pointer evaluating"), stageRendering, abi.Terminal, abi.ReasonRenderFailed},
		"InvalidObject":   {"or that makes an object which the API server finds invalid", errInvalid("field is immutable"), stageApplying, abi.Terminal, abi.ReasonRenderFailed},
		"OperationFailed": {"an operation that failed at the desired revision is an action that failed, and is tried again", errors.New("failed post-install: job failed"), stageApplying, abi.Yield, abi.ReasonApplicationFailed},
		"Webhook":         {"also if a webhook was not up", apierrors.NewInternalError(errors.New("failed calling webhook")), stageApplying, abi.Yield, abi.ReasonApplicationFailed},
	} {
		t.Run(name, func(t *testing.T) {
			v := classify(tc.err, tc.at)
			failed := (*failure)(nil).next("digest", v, tc.err.Error(), now(), 10*time.Minute)
			told := provisioner.OutcomeOf(failed.holds("digest", now()))
			require.Equal(t, tc.class, told.Class, tc.reason)
			require.Equal(t, tc.code, told.Headline.Reason, tc.reason)
			failed.unread = false
			again := now().Add(failed.pause())
			require.Nil(t, failed.holds("digest", again), "after a pause it is tried again, which is the resync")
			require.Nil(t, failed.holds("another digest", now()), "and at once if the spec changes")
		})
	}
	t.Run("Comparison", func(t *testing.T) {
		for _, err := range []error{errors.New("EOF"), apierrors.NewInternalError(errors.New("etcd")), apierrors.NewTimeoutError("slow", 1), apierrors.NewConflict(deployments, "d", errors.New("modified"))} {
			outcome := provisioner.OutcomeOf(readError(err, "reading the objects of the release"))
			require.Equal(t, abi.Retry, outcome.Class, "ComparisonError is an object that could not be read: %v", err)
		}
	})
}

// Case 98: nothing that is not seen ready counts as ready, and what is on its way is not
// what is broken.
func TestCase098ProgressIsNoDegradation(t *testing.T) {
	progressing := verdictOf(finding{status: status.InProgressStatus})
	degraded := verdictOf(finding{status: status.FailedStatus})
	require.Equal(t, abi.ReasonApplicationWaiting, progressing.Headline.Reason)
	require.Equal(t, abi.ReasonApplicationDegraded, degraded.Headline.Reason)
	require.Equal(t, stepInstall, decide(situation{want: identity{owner: "o"}, now: now()}).step, "no release is nothing to judge the health of")
	for _, s := range []status.Status{status.InProgressStatus, status.TerminatingStatus, status.UnknownStatus, status.NotFoundStatus, status.FailedStatus, ""} {
		h, _ := worst([]finding{{status: s}})
		require.NotEqual(t, healthReady, h, "%q", s)
	}
}
