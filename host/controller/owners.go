package controller

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/scope"
)

// Owners reads and writes the objects that passes are run for. A pass sees each of them
// as a Stack: with its own metadata, and with what the last pass found out as the status.
// A Stack is just that; for an object of another kind, the rest is kept elsewhere.
type Owners interface {
	// Owns reports whether an owner is of the kind.
	Owns(owner scope.Owner) bool
	// Read returns an owner from a cache. The error of one that is gone is a NotFound.
	Read(ctx context.Context, name types.NamespacedName) (*v1alpha1.Stack, error)
	// Hold puts the finalizer on, and Release takes it off. Both bring the Stack that they
	// were given up to date. An object that has changed since is a Conflict.
	Hold(ctx context.Context, stack *v1alpha1.Stack) error
	Release(ctx context.Context, stack *v1alpha1.Stack) error
	// WriteStatus writes a status that differs, and brings the Stack up to date. An error
	// says that the next Read may return the status as it was.
	WriteStatus(ctx context.Context, stack *v1alpha1.Stack, status v1alpha1.StackStatus) error
}

// stacks are Stacks as owners.
type stacks struct{ client client.Client }

var _ Owners = stacks{}

// Owns implements Owners.
func (stacks) Owns(owner scope.Owner) bool {
	return owner.Kind == stackKind && owner.APIVersion == v1alpha1.GroupVersion().String()
}

// Read implements Owners.
func (s stacks) Read(ctx context.Context, name types.NamespacedName) (*v1alpha1.Stack, error) {
	stack := &v1alpha1.Stack{}
	if err := s.client.Get(ctx, name, stack); err != nil {
		return nil, fmt.Errorf("read stack: %w", err)
	}
	return stack, nil
}

// Hold implements Owners.
func (s stacks) Hold(ctx context.Context, stack *v1alpha1.Stack) error {
	return hold(ctx, s.client, stack, v1alpha1.StackFinalizer, v1alpha1.FieldManager)
}

// Release implements Owners.
func (s stacks) Release(ctx context.Context, stack *v1alpha1.Stack) error {
	return release(ctx, s.client, stack, v1alpha1.StackFinalizer, v1alpha1.FieldManager)
}

// WriteStatus implements Owners.
func (s stacks) WriteStatus(ctx context.Context, stack *v1alpha1.Stack, status v1alpha1.StackStatus) error {
	return s.client.Status().Patch(ctx, stack, statusPatch{status}, client.FieldOwner(v1alpha1.FieldManager))
}

// hold puts a finalizer on an object that has not changed since it was read.
func hold(ctx context.Context, c client.Client, object client.Object, finalizer, manager string) error {
	if controllerutil.ContainsFinalizer(object, finalizer) {
		return nil
	}
	before, _ := object.DeepCopyObject().(client.Object)
	controllerutil.AddFinalizer(object, finalizer)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, object, patch, client.FieldOwner(manager)); err != nil {
		return fmt.Errorf("add finalizer: %w", err)
	}
	return nil
}

// release takes a finalizer off an object that has not changed since it was read.
func release(ctx context.Context, c client.Client, object client.Object, finalizer, manager string) error {
	if !controllerutil.ContainsFinalizer(object, finalizer) {
		return nil
	}
	before, _ := object.DeepCopyObject().(client.Object)
	controllerutil.RemoveFinalizer(object, finalizer)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, object, patch, client.FieldOwner(manager)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove finalizer: %w", err)
	}
	return nil
}
