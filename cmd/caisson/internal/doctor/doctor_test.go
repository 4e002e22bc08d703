package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/sandbox"
)

func TestSandbox(t *testing.T) {
	broken := Sandbox(nil, errors.New("no such file"))
	require.Len(t, broken, 1)
	require.Equal(t, Failed, Worst(broken))
	require.Contains(t, broken[0].Remedy, "--worker")

	every := []string{
		sandbox.LayerNamespaces, sandbox.LayerDescriptors, sandbox.LayerLimits, sandbox.LayerMemoryPriority, sandbox.LayerPrivileges,
		sandbox.LayerDump, sandbox.LayerUser, sandbox.LayerCapabilities, sandbox.LayerFiles, sandbox.LayerCalls, sandbox.LayerProcessorTime, sandbox.LayerProcessorPriority, "of-tomorrow",
	}
	var whole, lacking []sandbox.Layer
	for _, name := range every {
		whole = append(whole, sandbox.Layer{Name: name})
		lacking = append(lacking, sandbox.Layer{Name: name, Missing: "the kernel is too old"})
	}
	for i, c := range Sandbox(whole, nil)[1:] {
		require.Equal(t, OK, c.Result)
		require.Equal(t, every[i] == "of-tomorrow", c.Says == "", "each layer that is known says what it is for: %s", c.Name)
	}
	checks := Sandbox(lacking, nil)
	require.Equal(t, Warning, Worst(checks), "a layer that is missing does not keep modules from being run")
	for _, c := range checks[1:] {
		require.Equal(t, "the kernel is too old", c.Says)
		require.Contains(t, c.Remedy, "; the other layers hold without it")
	}
}

// site is a cluster that answers as told.
type site struct {
	lists map[string]error
	lease map[string]any
	err   error
	stack v1alpha1.Stack
	bad   []v1alpha1.Module
}

func (s *site) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	kind := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", list), "*v1alpha1."), "List")
	if err := s.lists[kind]; err != nil {
		return err
	}
	switch l := list.(type) {
	case *v1alpha1.StackList:
		l.Items = []v1alpha1.Stack{s.stack}
	case *v1alpha1.ModuleList:
		l.Items = s.bad
	}
	return nil
}

func (s *site) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if s.err != nil {
		return s.err
	}
	if key.Namespace != "caisson-system" || key.Name != "caisson-operator" {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	if lease, ok := object.(*unstructured.Unstructured); ok {
		lease.Object["spec"] = s.lease
	}
	return nil
}

func TestCluster(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	leads := map[string]any{"holderIdentity": "pod-1", "leaseDurationSeconds": int64(15), "renewTime": "2026-11-30T11:59:50.000000Z"}
	dead := map[string]any{"holderIdentity": "pod-1", "leaseDurationSeconds": int64(15), "renewTime": "2026-11-30T11:00:00.000000Z"}
	free := map[string]any{"holderIdentity": "", "leaseDurationSeconds": int64(1), "renewTime": "2026-11-30T11:59:59.000000Z"}
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "", nil)
	available := v1alpha1.Stack{}
	meta.SetStatusCondition(&available.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionTrue, Reason: "Provisioned"})
	parked := v1alpha1.Stack{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web"}}
	meta.SetStatusCondition(&parked.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionFalse, Reason: "Terminal"})
	module := v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{Name: "cilium"}}
	refused := *module.DeepCopy()
	meta.SetStatusCondition(&refused.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "PullFailed", Message: "no such tag"})
	cases := map[string]struct {
		reason string
		site   site
		name   string
		want   Result
		says   string
	}{
		"well":         {reason: "a leader that renewed its Lease in time", site: site{lease: leads, stack: available}, name: "operator", want: OK, says: "pod-1 leads"},
		"dead":         {reason: "one that did not is dead", site: site{lease: dead}, name: "operator", want: Failed, says: "nobody leads: pod-1 renewed its Lease last at 2026-11-30T11:00"},
		"given back":   {reason: "one that ended gave it back", site: site{lease: free}, name: "operator", want: Failed, says: "gave its Lease back"},
		"no operator":  {reason: "it may run without election", site: site{err: apierrors.NewNotFound(schema.GroupResource{}, "x")}, name: "operator", want: Warning, says: "there is no Lease caisson-system/caisson-operator"},
		"no right":     {reason: "not to be allowed to look is no fault", site: site{err: forbidden}, name: "operator", want: Skipped, says: "you may not read"},
		"silent":       {reason: "the API server does not answer", site: site{lists: map[string]error{"Stack": errors.New("connection refused")}}, name: "connection", want: Failed, says: "connection refused"},
		"no CRDs":      {reason: "nothing is installed", site: site{lists: map[string]error{"Module": &meta.NoKindMatchError{}, "Stack": &meta.NoKindMatchError{}}}, name: "definitions", want: Failed, says: "does not serve Stacks, Modules"},
		"few rights":   {reason: "less is looked at", site: site{lists: map[string]error{"Module": forbidden}, lease: leads, stack: available}, name: "definitions", want: Skipped, says: "you may not list Modules"},
		"parked":       {reason: "Stacks are named", site: site{lease: leads, stack: parked}, name: "stacks", want: Warning, says: "1 of 1 are not Available: team/web (Terminal)"},
		"refused":      {reason: "Modules too, with their conditions", site: site{lease: leads, bad: []v1alpha1.Module{refused}}, name: "modules", want: Warning, says: "cilium (PullFailed: no such tag)"},
		"fresh":        {reason: "one that nobody has seen", site: site{lease: leads, bad: []v1alpha1.Module{module}}, name: "modules", want: Warning, says: "cilium (nobody has looked at it yet)"},
		"many":         {reason: "not more than a line holds", site: site{lease: leads, bad: []v1alpha1.Module{module, module, module, module, module, module, module}}, name: "modules", want: Warning, says: "and 2 more"},
		"all is ready": {reason: "none is none", site: site{lease: leads, stack: available}, name: "modules", want: OK, says: "0 of 0 are ready"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, check := range Cluster(t.Context(), &c.site, "caisson-system", now) {
				require.Equal(t, check.Result == Warning || check.Result == Failed, check.Remedy != "", "what is wrong has a remedy: %+v", check)
				if check.Name == c.name {
					require.Equal(t, c.want, check.Result, c.reason)
					require.Contains(t, check.Says, c.says, c.reason)
					return
				}
			}
			require.Fail(t, "there is no such check", c.name)
		})
	}
}

func TestLines(t *testing.T) {
	checks := []Check{
		{Area: "sandbox", Name: "landlock", Result: Warning, Says: "no\x1b[2J such thing", Remedy: "run a newer kernel"},
		{Area: "cluster", Name: "operator", Result: Failed, Says: "nobody leads", Remedy: "start it"},
		{Area: "cluster", Name: "stacks", Result: OK},
	}
	require.Equal(t, []string{
		"SANDBOX",
		"  landlock  warning  no\uFFFD[2J such thing",
		"",
		"CLUSTER",
		"  operator  failed   nobody leads",
		"  stacks    ok",
		"",
		"What to do:",
		"* operator: start it",
		"* landlock: run a newer kernel",
	}, Lines(checks, tree.Style{}))
	require.Contains(t, Lines(checks, tree.Style{Coloured: true})[4], "\x1b[31mfailed ", "a failure is red")
	long := []Check{{Area: "sandbox", Name: "landlock", Result: OK, Says: "one word and another and one more"}}
	require.Equal(t, []string{
		"SANDBOX",
		"  landlock  ok       one word and another",
		"                     and one more",
	}, Lines(long, tree.Style{Width: 44})[:3], "what does not fit goes on below")
	require.Equal(t, []string{"", "Nothing is to be done."}, Lines(nil, tree.Style{}))
	require.Equal(t, Skipped, Worst(append(Unconnected(Skipped, errors.New("none")), Check{Result: OK})))
	require.Equal(t, OK, Worst(nil))
}
