package controller

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// mapper serves one resource, or fails.
type mapper struct {
	meta.RESTMapper
	err error
}

func (m mapper) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	if m.err != nil {
		return nil, m.err
	}
	if resource.GroupResource() == (schema.GroupResource{Group: "compute.example.com", Resource: "servers"}) {
		return []schema.GroupVersionKind{{Group: resource.Group, Version: "v1", Kind: "Server"}}, nil
	}
	return nil, &meta.NoResourceMatchError{PartialResource: resource}
}

// Case 112: who holds a Stack back, and who does not.
func TestCase112References(t *testing.T) {
	cases := map[string]struct {
		reason     string
		finalizers []string
		err        error
		want       abi.Disposition
		code       string
	}{
		"none":           {reason: "ours alone", finalizers: []string{v1alpha1.StackFinalizer}},
		"reference":      {reason: "a Server still uses it", finalizers: []string{v1alpha1.StackFinalizer, "servers.compute.example.com/web-1"}, want: abi.Yield, code: abi.ReasonAwaitingReferences},
		"foreground":     {reason: "the garbage collector removes the dependents first", finalizers: []string{metav1.FinalizerDeleteDependents, v1alpha1.StackFinalizer}, want: abi.Yield, code: abi.ReasonAwaitingReferences},
		"orphan":         {reason: "near miss: dependents are let go, which takes no time", finalizers: []string{metav1.FinalizerOrphanDependents, v1alpha1.StackFinalizer}},
		"step":           {reason: "near miss: of that form, and no resource", finalizers: []string{"kubernetes.io/pvc-protection", v1alpha1.StackFinalizer}},
		"other resource": {reason: "near miss: nobody serves it, so nobody will take it away", finalizers: []string{"disks.compute.example.com/web-1", v1alpha1.StackFinalizer}},
		"no name":        {reason: "near miss: refers to nothing", finalizers: []string{"servers.compute.example.com/", v1alpha1.StackFinalizer}},
		"no slash":       {reason: "near miss: the resource alone", finalizers: []string{"servers.compute.example.com", v1alpha1.StackFinalizer}},
		"no group":       {reason: "near miss: the form has one", finalizers: []string{"servers/web-1", v1alpha1.StackFinalizer}},
		"unknown":        {reason: "not knowing is not knowing that it is none", finalizers: []string{"servers.compute.example.com/web-1"}, err: errors.New(secretText), want: abi.Retry, code: abi.ReasonUnexpected},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			stack := newDeletedStack(t)
			stack.Finalizers = c.finalizers
			o := provisioner.OutcomeOf(awaitReferences(stack, mapper{err: c.err}))
			require.Equal(t, c.want, o.Class, c.reason)
			require.Equal(t, c.code, o.Headline.Reason)
			require.NotContains(t, o.Headline.Sentence, "hunter2")
		})
	}
}

// Case 112: nothing is removed while something refers to the Stack, and it goes as soon as
// that has let go.
func TestCase112AwaitsReferences(t *testing.T) {
	for name, finalizer := range map[string]string{"reference": "stacks.caisson.dev/other", "foreground": metav1.FinalizerDeleteDependents} {
		t.Run(name, func(t *testing.T) {
			stack := newDeletedStack(t)
			stack.Finalizers = append(stack.Finalizers, finalizer)
			stack.Status.Retained = []string{"Namespace/gpu-operator"}
			w := newWorld(t, stack)
			require.Positive(t, w.reconcile().RequeueAfter)
			require.Equal(t, []step{"patch status"}, w.steps(), "before any child is called")
			require.Equal(t, "False/Deprovisioning", available(w.stack()))
			sentence, _ := abi.HostSentence(abi.ReasonAwaitingReferences)
			require.Equal(t, sentence+" ("+abi.ReasonAwaitingReferences+")", availableOf(&w.stack().Status).Message)
			require.Equal(t, []string{"Namespace/gpu-operator"}, w.stack().Status.Retained)
			w.reconcile()
			require.Empty(t, w.steps(), "said once")

			before := w.stack()
			w.edit(func(s *v1alpha1.Stack) { s.Finalizers = []string{v1alpha1.StackFinalizer} })
			require.True(t, stackChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: w.stack()}), "which is seen")
			w.reconcile()
			require.True(t, w.gone())
		})
	}
}
