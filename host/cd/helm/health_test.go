package helm

import (
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/caisson-dev/caisson/abi"
)

func findings(statuses ...status.Status) []finding {
	var list []finding
	for i, s := range statuses {
		list = append(list, finding{object: object{Version: "v1", Kind: "Pod", Name: string(rune('a' + i))}, status: s, message: "is " + s.String()})
	}
	return list
}

func TestWorst(t *testing.T) {
	cases := map[string]struct {
		reason string
		given  []finding
		want   health
		why    string
	}{
		"Nothing":     {"no objects are ready objects", nil, healthReady, ""},
		"Ready":       {"all current", findings(status.CurrentStatus, status.CurrentStatus), healthReady, ""},
		"Progress":    {"one is not there yet", findings(status.CurrentStatus, status.InProgressStatus), healthProgressing, "Pod/b: is InProgress"},
		"Terminating": {"one goes and will have to come back", findings(status.TerminatingStatus), healthProgressing, "Pod/a: is Terminating"},
		"Unknown":     {"nothing is known", findings(status.InProgressStatus, status.UnknownStatus), healthUnknown, "Pod/b: is Unknown"},
		"Failed":      {"a failure outweighs progress", findings(status.InProgressStatus, status.FailedStatus), healthFailed, "Pod/b: is Failed"},
		"Deleted":     {"what can be put back comes first", findings(status.FailedStatus, status.NotFoundStatus), healthDrifted, "Pod/b: is NotFound"},
		"Invented":    {"a status of a later kstatus is not ready", findings("Levitating"), healthUnknown, "Pod/a: is Levitating"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, why := worst(tc.given)
			require.Equal(t, tc.want, got, tc.reason)
			require.Equal(t, tc.why, why, tc.reason)
		})
	}
	many := make([]status.Status, 20)
	for i := range many {
		many[i] = status.InProgressStatus
	}
	_, why := worst(findings(many...))
	require.Equal(t, maxMessages, strings.Count(why, "InProgress"))
	require.True(t, strings.HasSuffix(why, "and 15 more"), why)
}

func TestJudge(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := patience{progress: 10 * time.Minute, degraded: 2 * time.Minute, poll: time.Second}
	lenient := p
	lenient.acceptFailed = true
	cases := map[string]struct {
		reason string
		health health
		after  time.Duration
		p      patience
		class  abi.Disposition
		code   string
	}{
		"Ready":            {"done", healthReady, time.Hour, p, abi.OK, ""},
		"Progressing":      {"will come", healthProgressing, 9 * time.Minute, p, abi.Yield, abi.ReasonApplicationWaiting},
		"Stuck":            {"did not come", healthProgressing, 10 * time.Minute, p, abi.UserActionRequired, abi.ReasonApplicationStuck},
		"StuckLenient":     {"accepting failures is no reason to be content with nothing", healthProgressing, 10 * time.Minute, lenient, abi.UserActionRequired, abi.ReasonApplicationStuck},
		"Degraded":         {"may recover", healthFailed, time.Minute, p, abi.Yield, abi.ReasonApplicationDegraded},
		"DegradedForGood":  {"did not", healthFailed, 2 * time.Minute, p, abi.UserActionRequired, abi.ReasonApplicationDegraded},
		"DegradedAccepted": {"as asked", healthFailed, time.Hour, lenient, abi.OK, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := waiting{}.observe(tc.health, 1, start)
			err := judge(tc.health, "the message", w, tc.p, start.Add(tc.after))
			if tc.class == abi.OK {
				require.Nil(t, err, tc.reason)
				return
			}
			require.Equal(t, tc.class, err.Disposition(), tc.reason)
			require.Equal(t, tc.code, err.Reason(), tc.reason)
			require.Equal(t, "the message", err.Why(), "the last message is the why")
			require.Equal(t, tc.class == abi.Yield, err.RetryAfter() > 0)
		})
	}
}

func TestWaitingCountsFromTheFirstLook(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w := waiting{}.observe(healthProgressing, 1, start)
	w = w.observe(healthProgressing, 1, start.Add(time.Minute))
	require.Equal(t, start, w.since)
	w = w.observe(healthFailed, 1, start.Add(2*time.Minute))
	require.Equal(t, start, w.since)
	require.Equal(t, start.Add(2*time.Minute), w.failed)
	w = w.observe(healthProgressing, 1, start.Add(3*time.Minute))
	require.Zero(t, w.failed, "it recovered and gets a new grace")
	require.Equal(t, start, w.since, "but no new deadline")
	require.Zero(t, w.observe(healthReady, 1, start).since)
	require.Equal(t, start.Add(time.Hour), w.observe(healthProgressing, 2, start.Add(time.Hour)).since, "a new revision has its own time")
}

func TestRepairsSlowDown(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var r repairs
	due := 0
	for range 600 {
		var yes bool
		if r, yes = r.next(now, 10*time.Minute); yes {
			due++
		}
		now = now.Add(time.Second)
	}
	require.Equal(t, maxRepairs, due, "within ten minutes")
	r, again := r.next(now.Add(10*time.Minute), 10*time.Minute)
	require.True(t, again, "after a calm time it is tried again")
	require.Equal(t, 1, r.count)
}

func TestAwaitsAddress(t *testing.T) {
	service := func(spec, status map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Service", "spec": spec, "status": status}}
	}
	balancer := map[string]any{"type": "LoadBalancer"}
	address := map[string]any{"loadBalancer": map[string]any{"ingress": []any{map[string]any{"ip": "192.0.2.1"}}}}
	require.True(t, awaitsAddress(service(balancer, nil)))
	require.False(t, awaitsAddress(service(balancer, address)))
	require.False(t, awaitsAddress(service(map[string]any{"type": "ClusterIP"}, nil)))
	require.False(t, awaitsAddress(service(nil, nil)))
	require.False(t, awaitsAddress(service(map[string]any{"type": "LoadBalancer", "externalIPs": []any{"192.0.2.2"}}, nil)))
	other := service(balancer, nil)
	other.SetAPIVersion("serving.knative.dev/v1")
	require.False(t, awaitsAddress(other), "another group's Service is another thing")
	require.False(t, awaitsAddress(service(map[string]any{"type": 1}, map[string]any{"loadBalancer": "x"})), "whatever the cluster says")
}
