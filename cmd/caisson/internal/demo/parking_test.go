package demo

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/explain"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/follow"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree/treetest"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/scope"
)

// playParking gives the Stack a status in which storage asks for its Secret, and what else
// change makes of it.
func playParking(ctx context.Context, c client.Client, change func(*v1alpha1.Stack)) error {
	if err := playOperator(ctx, c, "secret"); err != nil {
		return err
	}
	stack := &v1alpha1.Stack{}
	if err := c.Get(ctx, platformKey(), stack); err != nil {
		return err
	}
	for i := range stack.Status.Nodes {
		if n := &stack.Status.Nodes[i]; n.Name == "metrics" || n.Name == "ingress" {
			n.Disposition, n.Reason = "OK", ""
		}
	}
	stack.Status.Parked = &v1alpha1.Parked{Disposition: "UserActionRequired", Reason: "secret_missing", Generation: stack.Generation}
	change(stack)
	return c.Update(ctx, stack)
}

func TestPark(t *testing.T) {
	set := func(node, disposition, reason string) func(*v1alpha1.Stack) {
		return func(s *v1alpha1.Stack) {
			for i := range s.Status.Nodes {
				if n := &s.Status.Nodes[i]; n.Name == node {
					n.Disposition, n.Reason = disposition, reason
				}
			}
		}
	}
	cases := map[string]struct {
		reason string
		change func(*v1alpha1.Stack)
		want   string
	}{
		"Parked":   {reason: "storage waits, the others are there", change: func(*v1alpha1.Stack) {}},
		"Others":   {reason: "nothing waits for storage beside it", change: set("ingress", "Yield", "application_installing"), want: "ingress is Yield: it had no reason to wait for storage"},
		"Wrongly":  {reason: "parked because of something else", change: set("storage", "Terminal", "module_trap"), want: "storage is Terminal module_trap, and should ask for the Secret"},
		"Wordless": {reason: "the reason is what tells what to do", change: set("storage", "UserActionRequired", "forbidden"), want: "should ask for the Secret"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, out := lit(t)
			// A watch on the Stack is open when the screen has it twice; only then the operator goes on.
			shown := make(chan struct{}, 100)
			d.Screen = func(start time.Time) follow.Screen {
				return &tellingScreen{Screen: follow.NewLineScreen(out, start), shown: shown}
			}
			d.operator = operatorWith(t, func() (int, string) { return http.StatusOK, "caisson_passes_total{} 7" })
			operated := make(chan error, 1)
			go func() {
				<-shown
				<-shown
				operated <- playParking(t.Context(), d.home.client, tc.change)
			}()
			err := d.park(t.Context())
			require.NoError(t, <-operated)
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
				require.NotEmpty(t, d.before, "what was there is known")
				return
			}
			require.ErrorContains(t, err, tc.want, tc.reason)
		})
	}
}

// playExplain says what caisson says of the Stack that waits for its Secret; of a cluster
// whose kubeconfig is called other, that nothing is known to be missing.
func playExplain(args []string) int {
	for _, s := range treetest.Life() {
		if s.Name != "secret" {
			continue
		}
		if filepath.Base(args[len(args)-1]) != "other" {
			s.Stack.Status.Inputs = []v1alpha1.InputRecord{{Scope: scope.HomeID, Kind: "Secret", Namespace: stackNamespace, Name: "cloud-config", Absent: true}}
		}
		for _, line := range explain.Lines(explain.Of(explain.Cluster{Stack: s.Stack}, time.Now()), tree.Style{}) {
			_, _ = fmt.Fprintln(os.Stdout, line)
		}
	}
	return 0
}

// What the demo shows has to name the Secret; an explanation that does not is a failure.
func TestExplain(t *testing.T) {
	d, out := lit(t)
	require.NoError(t, d.explain(t.Context()))
	require.Contains(t, out.String(), "      to do     Create the Secret cloud-config in namespace platform. ")
	d.home.kubeconfig = filepath.Join(t.TempDir(), "other")
	require.EqualError(t, d.explain(t.Context()), `the explanation does not say "Create the Secret cloud-config in namespace platform"`)
	d.Self = "/does/not/exist"
	require.ErrorContains(t, d.explain(t.Context()), "exist stack explain platform -n platform")
}

func TestRenewals(t *testing.T) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: leaseName}}
	other := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "other"}}
	d := quietly(t, lease.DeepCopy(), other.DeepCopy())
	stop, err := d.renewals(t.Context())
	require.NoError(t, err)
	for _, l := range []*coordinationv1.Lease{lease, other, lease} {
		require.NoError(t, d.home.client.Get(t.Context(), client.ObjectKeyFromObject(l), l))
		now := metav1.NowMicro()
		l.Spec.RenewTime = &now
		require.NoError(t, d.home.client.Update(t.Context(), l))
	}
	require.Equal(t, 2, stop(), "and nobody else's Lease")
	require.Equal(t, 2, stop(), "it may be asked again")
}

func TestReviveSeesTheStack(t *testing.T) {
	d, out := lit(t, readyWorkloads()...)
	require.NoError(t, d.snapshot(t.Context()))
	require.NoError(t, d.home.client.Create(t.Context(), scene(t, "secret")))
	require.NoError(t, playOperator(t.Context(), d.home.client, "available"))
	require.NoError(t, d.revive(t.Context()))
	require.Contains(t, out.String(), " s after the Secret was created, available after ")
	require.True(t, d.before["home"]["Secret/platform/cloud-config"], "the Secret is the user's, and stays")
}

// The requests to home are told from those to any other cluster by the host.
func TestLoad(t *testing.T) {
	d, _ := lit(t)
	d.operator = operatorWith(t, func() (int, string) {
		return http.StatusOK, "caisson_passes_total{} 7\nrest_client_requests_total{code=\"200\",host=\"" + d.home.config.Host[len("http://"):] + "\",method=\"PUT\"} 3\nrest_client_requests_total{code=\"200\",host=\"other:1\",method=\"GET\"} 5\n"
	})
	l, err := d.load(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 3, l.home, 0)
	require.InDelta(t, 5, l.remote, 0)
	require.InDelta(t, 7, l.passes, 0)
	require.Zero(t, l.minus(l))
}
