package demo

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/follow"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree/treetest"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

func TestCheckOrder(t *testing.T) {
	removed := func(nodes ...string) follow.Report {
		var report follow.Report
		for i, n := range nodes {
			report.Transitions = append(report.Transitions, follow.Transition{At: time.Duration(i) * time.Second, Node: n, Disposition: v1alpha1.NodeRemoved})
		}
		return report
	}
	cases := map[string]struct {
		reason string
		report follow.Report
		want   string
	}{
		"Reverse":     {reason: "what came last goes first", report: removed("gpu", "metrics", "ingress", "storage", "cni")},
		"Concurrent":  {reason: "the addons may go in any order", report: removed("gpu", "storage", "ingress", "metrics", "cni")},
		"FastEnd":     {reason: "the Stack may go before its last nodes are seen to", report: removed("gpu", "storage")},
		"OnlyGPU":     {reason: "one node is enough to know the order", report: removed("gpu")},
		"NothingSeen": {reason: "what was not seen did not happen", report: removed(), want: "no node was seen to go before the Stack did"},
		"CNIFirst":    {reason: "the network goes last", report: removed("cni", "gpu"), want: "cni was seen gone before metrics"},
		"CNIEarly":    {reason: "it waits for each of the addons", report: removed("gpu", "metrics", "storage", "cni", "ingress"), want: "cni was seen gone before ingress"},
		"GPULate":     {reason: "the last child goes first", report: removed("metrics", "gpu"), want: "metrics was seen gone before gpu"},
		"NotRemoved": {
			reason: "a node that is being removed is not gone yet",
			report: follow.Report{Transitions: []follow.Transition{{Node: "gpu", Disposition: "Yield", Reason: "application_deleting"}}},
			want:   "no node was seen to go",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := checkOrder(tc.report)
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
				return
			}
			require.ErrorContains(t, err, tc.want, tc.reason)
		})
	}
}

func TestRemovalCheck(t *testing.T) {
	failed := errors.New("failed")
	cases := map[string]struct {
		reason string
		seen   removal
		want   string
	}{
		"InOrder":    {reason: "registered until nothing was left", seen: removal{sawRegistration: true}},
		"NeverThere": {reason: "what was never registered cannot be deregistered last", seen: removal{}, want: "was not seen to be registered"},
		"Early":      {reason: "what still runs is named", seen: removal{sawRegistration: true, early: []string{"cilium 1/1", "x 0/1"}}, want: "these were still there: cilium 1/1, x 0/1"},
		"Failed":     {reason: "who could not look knows nothing", seen: removal{sawRegistration: true, err: failed}, want: "failed"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := tc.seen.check()
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
				return
			}
			require.ErrorContains(t, err, tc.want, tc.reason)
		})
	}
}

func deployment(name string, labels map[string]string) *appsv1.Deployment {
	replicas := int32(2)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: labels},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas}, Status: appsv1.DeploymentStatus{ReadyReplicas: 1},
	}
}

func helm() map[string]string { return map[string]string{"app.kubernetes.io/managed-by": "Helm"} }

func TestWorkloads(t *testing.T) {
	daemons := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cilium", Labels: helm()},
		Status:     appsv1.DaemonSetStatus{NumberReady: 3, DesiredNumberScheduled: 3},
	}
	c := fakeCluster(t, "workload", interceptor.Funcs{}, deployment("ours", helm()), deployment("theirs", nil), daemons)
	found, err := c.workloads(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"ours 1/2", "cilium 3/3"}, found, "what is not of a chart is not counted")

	refused := errors.New("refused")
	c = fakeCluster(t, "workload", interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return refused }})
	_, err = c.workloads(t.Context())
	require.ErrorIs(t, err, refused)
	require.ErrorContains(t, err, "list workloads on workload: ")
}

func TestExpectWorkloads(t *testing.T) {
	d := &demo{}
	all := []string{"cilium 1/1", "cilium-operator 1/1", "csi-controller 1/1", "gpu-operator 1/1", "ingress-nginx-controller 2/2", "metrics-server 1/1", "more 1/1"}
	require.NoError(t, d.expectWorkloads(all))
	all[4] = "ingress-nginx-controller 1/2"
	require.ErrorContains(t, d.expectWorkloads(all), `expected "ingress-nginx-controller 2/2" on the workload cluster, and found cilium 1/1`)
}

// The registration is looked at first: whatever is there after it has gone was there too
// early.
func TestWatchRegistration(t *testing.T) {
	registration := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: registrationPrefix + "abc"}}
	inventory := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "caisson-inventory-abc"}}
	workload := deployment("cilium", helm())
	type look struct{ registered, running bool }
	cases := map[string]struct {
		reason string
		looks  []look
		want   string
	}{
		"InOrder":  {reason: "workloads go, then the registration", looks: []look{{true, true}, {true, false}, {false, false}}},
		"TooEarly": {reason: "the registration went first", looks: []look{{true, true}, {false, true}, {false, false}}, want: "deregistered while these were still there: cilium 1/2"},
		"Never":    {reason: "there was none", looks: []look{{false, true}, {false, false}}, want: "not seen to be registered"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := &demo{home: fakeCluster(t, "home", interceptor.Funcs{}, inventory.DeepCopy()), workload: fakeCluster(t, "workload", interceptor.Funcs{})}
			var seen removal
			for _, l := range tc.looks {
				put(t, d.home, registration, l.registered)
				put(t, d.workload, workload, l.running)
				seen = d.lookAtRegistration(t.Context(), seen)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.Zero(t, <-d.watchRegistration(ctx), "who never looked has seen nothing")
			err := seen.check()
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
				return
			}
			require.ErrorContains(t, err, tc.want, tc.reason)
		})
	}
}

// put makes an object exist, or not.
func put(t *testing.T, c *cluster, o client.Object, exists bool) {
	t.Helper()
	copied, ok := o.DeepCopyObject().(client.Object)
	require.True(t, ok)
	require.NoError(t, client.IgnoreNotFound(c.client.Delete(t.Context(), copied)))
	if exists {
		copied.SetResourceVersion("")
		require.NoError(t, c.client.Create(t.Context(), copied))
	}
}

func TestWatchRegistrationWhileTheAPIIsAway(t *testing.T) {
	registration := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: registrationPrefix + "abc"}}
	var down atomic.Bool
	d := &demo{
		home: fakeCluster(t, "home", interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if down.Load() {
				return errors.New("refused")
			}
			return c.List(ctx, l, opts...)
		}}, registration),
		workload: fakeCluster(t, "workload", interceptor.Funcs{}, deployment("cilium", helm())),
	}
	seen := d.lookAtRegistration(t.Context(), removal{})
	require.True(t, seen.sawRegistration)
	down.Store(true)
	require.Equal(t, seen, d.lookAtRegistration(t.Context(), seen), "no answer is not read as gone")
}

func TestFollowGivesUp(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	d := &demo{
		home: fakeCluster(t, "home", interceptor.Funcs{}, treetest.Stack()), show: &show{out: io.Discard, start: time.Now()},
		Options: Options{Screen: func(start time.Time) follow.Screen { return follow.NewLineScreen(io.Discard, start) }},
	}
	_, err := d.follow(ctx, follow.Available)
	require.ErrorIs(t, err, enough)
}

// What a converged Stack costs is measured on the operator that serves these metrics.
func TestLeaveAlone(t *testing.T) {
	const passes = "caisson_passes_total{} "
	cases := map[string]struct {
		reason  string
		metrics func(call int64) (int, string)
		want    string
	}{
		"AtRest": {reason: "nothing happens", metrics: func(int64) (int, string) { return http.StatusOK, passes + "7" }},
		"Echoes": {reason: "what comes in at the very end is waited for", metrics: func(call int64) (int, string) {
			return http.StatusOK, passes + map[bool]string{true: "7", false: "8"}[call == 1]
		}},
		"Woken": {reason: "a pass while nobody asked for one", want: "a converged Stack was not left alone", metrics: func(call int64) (int, string) {
			return http.StatusOK, passes + map[bool]string{true: "7", false: "8"}[call < 4]
		}},
		"Crashed": {reason: "an operator that does not answer is not at rest", want: "read metrics: ", metrics: func(call int64) (int, string) {
			return map[bool]int{true: http.StatusOK, false: http.StatusBadGateway}[call == 1], passes + "7"
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			stack := treetest.Stack()
			d := &demo{
				operator: operatorWith(t, func() (int, string) { return tc.metrics(calls.Add(1)) }),
				home:     fakeCluster(t, "home", interceptor.Funcs{}, stack), show: &show{out: io.Discard, start: time.Now()},
			}
			err := d.leaveAlone(t.Context())
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
				return
			}
			require.ErrorContains(t, err, tc.want, tc.reason)
		})
	}
}

func TestLeaveAloneIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	d := &demo{
		operator: operatorWith(t, func() (int, string) { cancel(enough); return http.StatusOK, "" }),
		home:     fakeCluster(t, "home", interceptor.Funcs{}, treetest.Stack()), show: &show{out: io.Discard, start: time.Now()},
	}
	require.Error(t, d.leaveAlone(ctx))
}
