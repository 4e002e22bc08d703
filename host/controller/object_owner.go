package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// objectOwner is one object as the owner of one pass.
type objectOwner struct {
	kind    ObjectKind
	client  client.Client
	records *Records
	// object is what Read has read.
	object client.Object
}

var (
	_ Owners  = (*objectOwner)(nil)
	_ Planner = (*objectOwner)(nil)
)

// Owns implements Owners.
func (o *objectOwner) Owns(owner scope.Owner) bool { return o.kind.owns(owner) }

func (k ObjectKind) owns(owner scope.Owner) bool {
	return owner.Kind == k.GVK.Kind && owner.APIVersion == k.GVK.GroupVersion().String()
}

// Read implements Owners. The conditions are those that the object has, whoever wrote
// them; the rest of the status is the record's.
func (o *objectOwner) Read(ctx context.Context, name types.NamespacedName) (*v1alpha1.Stack, error) {
	object := o.kind.New()
	if err := o.client.Get(ctx, name, object); err != nil {
		if client.IgnoreNotFound(err) == nil {
			o.records.forget(o.kind, name)
		}
		return nil, fmt.Errorf("read %s: %w", o.kind.GVK.Kind, err)
	}
	o.object = object
	conditions, err := conditionsOf(object)
	if err != nil {
		return nil, err
	}
	status, err := o.records.load(ctx, o.kind, object)
	if err != nil {
		return nil, err
	}
	status.Conditions = conditions
	stack := &v1alpha1.Stack{Status: status}
	stack.APIVersion, stack.Kind = o.kind.GVK.ToAPIVersionAndKind()
	_, stack.Spec.ServiceAccountName = o.kind.Account(object)
	o.describe(stack)
	return stack, nil
}

// describe gives a Stack the metadata of the object.
func (o *objectOwner) describe(stack *v1alpha1.Stack) {
	stack.ObjectMeta = metav1.ObjectMeta{
		Name: o.object.GetName(), Namespace: o.object.GetNamespace(), UID: o.object.GetUID(),
		ResourceVersion: o.object.GetResourceVersion(), Generation: o.object.GetGeneration(),
		DeletionTimestamp: o.object.GetDeletionTimestamp(), Annotations: o.object.GetAnnotations(),
	}
	if controllerutil.ContainsFinalizer(o.object, o.kind.Name) {
		stack.Finalizers = []string{v1alpha1.StackFinalizer}
	}
}

// Plan implements Planner.
func (o *objectOwner) Plan(stack *v1alpha1.Stack, inputs provisioner.InputRecorder) (Tree, error) {
	return o.kind.Plan(o.object, stack, inputs)
}

// Hold implements Owners.
func (o *objectOwner) Hold(ctx context.Context, stack *v1alpha1.Stack) error {
	err := hold(ctx, o.client, o.object, o.kind.Name, o.kind.Name)
	o.describe(stack)
	return err
}

// Release implements Owners.
func (o *objectOwner) Release(ctx context.Context, _ *v1alpha1.Stack) error {
	if err := release(ctx, o.client, o.object, o.kind.Name, o.kind.Name); err != nil {
		return err
	}
	o.records.forget(o.kind, client.ObjectKeyFromObject(o.object))
	return nil
}

// WriteStatus implements Owners. The conditions come first: a record without them would
// say that there is nothing to do.
func (o *objectOwner) WriteStatus(ctx context.Context, stack *v1alpha1.Stack, status v1alpha1.StackStatus) error {
	if !equality.Semantic.DeepEqual(stack.Status.Conditions, status.Conditions) || stack.Status.ObservedGeneration != status.ObservedGeneration {
		version, err := o.apply(ctx, status)
		if err != nil {
			return err
		}
		stack.ResourceVersion = version
		// The finalizer is taken off what there is then.
		o.object.SetResourceVersion(version)
	}
	stack.Status = status
	if farewelled(status) {
		// What was kept has been dropped already, and the object goes next.
		return nil
	}
	return o.records.save(ctx, o.kind, o.object, status)
}

// farewelled reports whether a status is the last one of an owner.
func farewelled(status v1alpha1.StackStatus) bool {
	available := availableOf(&status)
	return available != nil && available.Reason == v1alpha1.ReasonDeprovisioned
}

// apply writes the fields that are ours, and returns the version of the object then. The
// UID makes sure that it is not one that was made again under the name.
func (o *objectOwner) apply(ctx context.Context, status v1alpha1.StackStatus) (string, error) {
	fields := map[string]any{}
	list := make([]any, 0, len(status.Conditions))
	for _, c := range status.Conditions {
		encoded, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&c)
		if err != nil {
			return "", fmt.Errorf("encode condition %s: %w", c.Type, err)
		}
		list = append(list, encoded)
	}
	fields["conditions"] = list
	if o.kind.observesGeneration() {
		fields["observedGeneration"] = status.ObservedGeneration
	}
	patch := &unstructured.Unstructured{Object: map[string]any{"status": fields}}
	patch.SetGroupVersionKind(o.kind.GVK)
	patch.SetNamespace(o.object.GetNamespace())
	patch.SetName(o.object.GetName())
	patch.SetUID(o.object.GetUID())
	err := o.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(patch), client.FieldOwner(o.kind.Name), client.ForceOwnership)
	if err != nil {
		return "", fmt.Errorf("apply the conditions of %s: %w", o.kind.GVK.Kind, err)
	}
	return patch.GetResourceVersion(), nil
}

// observesGeneration reports whether the Go type of the kind has
// status.observedGeneration: a field that its CRD does not know is refused.
func (k ObjectKind) observesGeneration() bool {
	probe := k.New()
	if _, untyped := probe.(runtime.Unstructured); untyped {
		return false
	}
	if err := json.Unmarshal([]byte(`{"status":{"observedGeneration":1}}`), probe); err != nil {
		return false
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(probe)
	if err != nil {
		return false
	}
	_, found, err := unstructured.NestedInt64(object, "status", "observedGeneration")
	return found && err == nil
}

// conditionsOf returns those conditions of an object that a Stack has.
func conditionsOf(object client.Object) ([]metav1.Condition, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", object.GetName(), err)
	}
	var typed struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &typed); err != nil {
		return nil, fmt.Errorf("read the conditions of %s: %w", object.GetName(), err)
	}
	var ours []metav1.Condition
	for _, kind := range ourConditions() {
		if c := meta.FindStatusCondition(typed.Status.Conditions, kind); c != nil {
			ours = append(ours, *c)
		}
	}
	return ours, nil
}

// ourConditions are the types that are written, sorted.
func ourConditions() []string {
	types := []string{v1alpha1.ConditionAvailable, v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled}
	slices.Sort(types)
	return types
}
