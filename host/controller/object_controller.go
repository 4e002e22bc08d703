package controller

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// ObjectKind describes a kind of objects, other than Stack, that passes are run for. All
// fields are required. Its CRD must have a status subresource; see [ObjectReconciler] for
// what is written there.
type ObjectKind struct {
	// GVK is the group, version and kind.
	GVK schema.GroupVersionKind
	// Name is the finalizer and the field manager: a qualified name such as
	// platform.example.com/environment.
	Name string
	// New returns an empty object.
	New func() client.Object
	// Account returns the ServiceAccount, at home, that an object's tree acts as. An empty
	// name is refused.
	Account func(object client.Object) (namespace, name string)
	// Plan makes the tree of an object for one pass. The Stack stands for the object: it
	// has its type and metadata, and the status that earlier passes left. It is called for
	// objects that are being deleted as well, and an error keeps them from going.
	Plan func(object client.Object, stack *v1alpha1.Stack, inputs provisioner.InputRecorder) (Tree, error)
}

// ObjectReconciler runs passes for objects of any kind, by the rules that hold for Stacks.
//
// Of an object it writes the finalizer and, by server-side apply, the conditions
// Available, Ready, Reconciling and Stalled in status.conditions, and
// status.observedGeneration if the Go type has it. Everything else that a Stack has in its
// status, such as the parked record and the inputs, is kept by [Records].
type ObjectReconciler struct {
	// Kind is what passes are run for.
	Kind ObjectKind
	// Passes is how: Owners, Planner and Tenants.Tenant's namespace come from here.
	Passes *StackReconciler
	// Records keeps what is known of the objects.
	Records *Records
}

// Reconcile looks at one object.
func (r *ObjectReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	// Everything that is shared is behind pointers, so a copy is a view of it that belongs
	// to one object.
	passes := *r.Passes
	owner := &objectOwner{kind: r.Kind, client: r.Passes.Client, records: r.Records}
	passes.Owners, passes.Planner, passes.native = owner, owner, true
	passes.Tenants = accounts{owner: owner, tenants: r.Passes.Tenants}
	return passes.Reconcile(ctx, req)
}

// accounts connects as the account of one object, which need not be in its namespace.
type accounts struct {
	owner   *objectOwner
	tenants Tenants
}

var _ Tenants = accounts{}

// Tenant implements Tenants.
func (a accounts) Tenant(_, serviceAccount string) (*rest.Config, client.Client, error) {
	namespace, _ := a.owner.kind.Account(a.owner.object)
	return a.tenants.Tenant(namespace, serviceAccount)
}
