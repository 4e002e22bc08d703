package blueprint

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// ourTypes are the types of the conditions of an owner, without the prefix.
func ourTypes() []string {
	return []string{v1alpha1.ConditionAvailable, v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled}
}

// report is what an owner is to be told: its conditions, without prefix.
type report struct {
	conditions []metav1.Condition
	// keep says that Available and Ready stay as they are, because they are about the
	// Stack before its last change.
	keep bool
}

// mirrored reports what the Stack of an owner says. before are the owner's conditions.
// The Stack is about the owner's generation if it has been applied for that.
func mirrored(stack *v1alpha1.Stack, generation int64, before []metav1.Condition, now metav1.Time) report {
	if stack.Status.ObservedGeneration != stack.Generation {
		return awaited(stack, generation, before, now)
	}
	var r report
	for _, kind := range ourTypes() {
		if c := meta.FindStatusCondition(stack.Status.Conditions, kind); c != nil {
			mirrored := *c
			mirrored.ObservedGeneration = generation
			r.conditions = append(r.conditions, mirrored)
		}
	}
	return r
}

// awaited reports that the Stack has not been looked at since it was last changed.
func awaited(stack *v1alpha1.Stack, generation int64, before []metav1.Condition, now metav1.Time) report {
	reason, words := v1alpha1.ReasonProvisioning, "has been applied, and is looked at next"
	if stack.DeletionTimestamp != nil {
		reason, words = v1alpha1.ReasonDeprovisioning, "is being deleted"
	}
	message := fmt.Sprintf("The Stack %s/%s %s.", stack.Namespace, stack.Name, words)
	r := working(reason, message, generation, now)
	if meta.FindStatusCondition(before, v1alpha1.ConditionAvailable) != nil && stack.DeletionTimestamp == nil {
		r.conditions = slices.DeleteFunc(r.conditions, func(c metav1.Condition) bool { return c.Type != v1alpha1.ConditionReconciling })
		r.keep = true
	}
	return r
}

// working reports that something is under way.
func working(reason, message string, generation int64, now metav1.Time) report {
	return notAvailable(v1alpha1.ConditionReconciling, reason, message, generation, now)
}

// stalled reports that nothing happens before somebody acts.
func stalled(reason, message string, generation int64, now metav1.Time) report {
	return notAvailable(v1alpha1.ConditionStalled, reason, message, generation, now)
}

func notAvailable(beside, reason, message string, generation int64, now metav1.Time) report {
	condition := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: generation, LastTransitionTime: now,
		}
	}
	return report{conditions: []metav1.Condition{
		condition(v1alpha1.ConditionAvailable, metav1.ConditionFalse),
		condition(v1alpha1.ConditionReady, metav1.ConditionFalse),
		condition(beside, metav1.ConditionTrue),
	}}
}

// phase is what an event tells of a report: the reason and message of the first
// condition.
func (r report) phase() (reason, message string, good bool) {
	if len(r.conditions) == 0 {
		return "", "", false
	}
	c := r.conditions[0]
	return c.Reason, c.Message, meta.IsStatusConditionTrue(r.conditions, v1alpha1.ConditionAvailable) || !slices.ContainsFunc(r.conditions, func(c metav1.Condition) bool {
		return c.Type == v1alpha1.ConditionStalled || c.Reason == v1alpha1.ReasonRetrying
	})
}

// final is what is written: with the prefix, and the time of what says the same as before.
// Conditions that are before are the owner's, as far as they are ours and without prefix.
func (r report) final(prefix string, before []metav1.Condition) []metav1.Condition {
	conditions := slices.Clone(r.conditions)
	for i := range conditions {
		c := &conditions[i]
		if old := meta.FindStatusCondition(before, c.Type); old != nil && old.Status == c.Status && !old.LastTransitionTime.IsZero() {
			c.LastTransitionTime = old.LastTransitionTime
		}
	}
	if r.keep {
		for _, old := range before {
			if old.Type == v1alpha1.ConditionAvailable || old.Type == v1alpha1.ConditionReady {
				conditions = append(conditions, old)
			}
		}
	}
	for i := range conditions {
		conditions[i].Type = prefix + conditions[i].Type
	}
	slices.SortFunc(conditions, func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
	return conditions
}
