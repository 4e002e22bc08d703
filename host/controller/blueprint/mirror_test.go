package blueprint

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

func at(seconds int64) metav1.Time { return metav1.NewTime(time.Unix(seconds, 0)) }

func says1(kind, status, reason string, generation, since int64) metav1.Condition {
	return metav1.Condition{
		Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: reason + ".",
		ObservedGeneration: generation, LastTransitionTime: at(since),
	}
}

func newStack(observed int64, conditions ...metav1.Condition) *v1alpha1.Stack {
	return &v1alpha1.Stack{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "cluster-prod", Generation: 4},
		Status:     v1alpha1.StackStatus{ObservedGeneration: observed, Conditions: conditions},
	}
}

// TestMirrored: owners are told what their Stack says, about their own generation.
func TestMirrored(t *testing.T) {
	deleted := at(50)
	gone := newStack(3, says1("Available", "True", "Provisioned", 3, 10))
	gone.DeletionTimestamp = &deleted
	before := []metav1.Condition{says1("Available", "True", "Provisioned", 6, 5), says1("Ready", "True", "Provisioned", 6, 5)}
	cases := map[string]struct {
		reason string
		stack  *v1alpha1.Stack
		before []metav1.Condition
		prefix string
		want   []metav1.Condition
	}{
		"available": {
			reason: "the generation is the owner's",
			stack:  newStack(4, says1("Available", "True", "Provisioned", 4, 10), says1("Ready", "True", "Provisioned", 4, 10)),
			want:   []metav1.Condition{says1("Available", "True", "Provisioned", 7, 10), says1("Ready", "True", "Provisioned", 7, 10)},
		},
		"prefix": {
			reason: "for kinds with conditions of the same types",
			stack:  newStack(4, says1("Available", "True", "Provisioned", 4, 10)), prefix: "Caisson",
			want: []metav1.Condition{says1("CaissonAvailable", "True", "Provisioned", 7, 10)},
		},
		"same status": {
			reason: "the time of a condition moves with its status only", before: before,
			stack: newStack(4, says1("Available", "True", "Provisioned", 4, 20)),
			want:  []metav1.Condition{says1("Available", "True", "Provisioned", 7, 5)},
		},
		"stalled goes": {
			reason: "conditions that the Stack no longer has are none of the owner's",
			before: []metav1.Condition{says1("Stalled", "True", "Terminal", 7, 1)},
			stack:  newStack(4, says1("Available", "True", "Provisioned", 4, 20)),
			want:   []metav1.Condition{says1("Available", "True", "Provisioned", 7, 20)},
		},
		"unknown type": {
			reason: "a type that we did not agree on is not the owner's business",
			stack:  newStack(4, says1("Available", "True", "Provisioned", 4, 20), says1("Other", "True", "X", 4, 20)),
			want:   []metav1.Condition{says1("Available", "True", "Provisioned", 7, 20)},
		},
		"applied": {
			reason: "kstatus must not take the last generation's word for this one's", before: before,
			stack: newStack(3, says1("Available", "True", "Provisioned", 3, 10)),
			want: []metav1.Condition{
				before[0], before[1],
				{Type: "Reconciling", Status: "True", Reason: "Provisioning", Message: "The Stack team/cluster-prod has been applied, and is looked at next.", ObservedGeneration: 7, LastTransitionTime: at(99)},
			},
		},
		"deleted": {
			reason: "available no more", before: before, stack: gone,
			want: []metav1.Condition{
				{Type: "Available", Status: "False", Reason: "Deprovisioning", Message: "The Stack team/cluster-prod is being deleted.", ObservedGeneration: 7, LastTransitionTime: at(99)},
				{Type: "Ready", Status: "False", Reason: "Deprovisioning", Message: "The Stack team/cluster-prod is being deleted.", ObservedGeneration: 7, LastTransitionTime: at(99)},
				{Type: "Reconciling", Status: "True", Reason: "Deprovisioning", Message: "The Stack team/cluster-prod is being deleted.", ObservedGeneration: 7, LastTransitionTime: at(99)},
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := mirrored(c.stack, 7, c.before, at(99)).final(c.prefix, c.before)
			require.Equal(t, c.want, got, c.reason)
			require.Equal(t, got, mirrored(c.stack, 7, c.before, at(99)).final(c.prefix, c.before), "the same again")
		})
	}
}

// TestFirstReport: an owner that was never told anything is told that work goes on.
func TestFirstReport(t *testing.T) {
	got := mirrored(newStack(-1), 1, nil, at(9)).final("", nil)
	require.True(t, meta.IsStatusConditionFalse(got, "Available"))
	require.True(t, meta.IsStatusConditionFalse(got, "Ready"))
	require.True(t, meta.IsStatusConditionTrue(got, "Reconciling"))
	require.Len(t, got, 3)
}

func TestPhase(t *testing.T) {
	cases := map[string]struct {
		reason string
		report report
		good   bool
	}{
		"working":   {reason: "nothing is wrong", report: working("Provisioning", "m", 1, at(1)), good: true},
		"stalled":   {reason: "somebody must act", report: stalled("Invalid", "m", 1, at(1))},
		"retrying":  {reason: "something failed", report: working("Retrying", "m", 1, at(1))},
		"available": {reason: "done", report: report{conditions: []metav1.Condition{says1("Available", "True", "Provisioned", 1, 1)}}, good: true},
		"nothing":   {reason: "a Stack without conditions", report: report{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, good := c.report.phase()
			require.Equal(t, c.good, good, c.reason)
		})
	}
}
