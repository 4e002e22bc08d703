package controller

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// awaitReferences yields while something still depends on a Stack that is being deleted:
// objects that have put a finalizer of their own on it, as <plural>.<group>/<name>, or
// dependents that are to be deleted first. Other finalizers are steps of somebody else's
// clean-up, which may well wait for ours; they hold up nothing.
//
// What tells one from the other is whether the cluster serves such a resource: a
// finalizer like kubernetes.io/pvc-protection has the same form.
func awaitReferences(stack *v1alpha1.Stack, mapper meta.RESTMapper) error {
	for _, finalizer := range stack.Finalizers {
		if finalizer == metav1.FinalizerDeleteDependents {
			return provisioner.Yield(abi.ReasonAwaitingReferences, "dependents are deleted first")
		}
		resource, ok := referrer(finalizer)
		if !ok {
			continue
		}
		_, err := mapper.KindsFor(resource)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return provisioner.Retry(abi.ReasonUnexpected, "find out what "+finalizer+" refers to").WithCause(fmt.Errorf("map resource: %w", err))
		}
		return provisioner.Yield(abi.ReasonAwaitingReferences, "finalizer "+finalizer)
	}
	return nil
}

// referrer returns the resource in front of a finalizer of the form of a reference.
func referrer(finalizer string) (schema.GroupVersionResource, bool) {
	head, name, ok := strings.Cut(finalizer, "/")
	if !ok || name == "" || finalizer == v1alpha1.StackFinalizer {
		return schema.GroupVersionResource{}, false
	}
	resource := schema.ParseGroupResource(head)
	return resource.WithVersion(""), resource.Resource != "" && resource.Group != ""
}
