package host

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/controller"
	"github.com/caisson-dev/caisson/host/plan"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// Kind is a kind of objects that trees are run for. T is a pointer to its Go type, such as
// *v1.Environment, which the manager's scheme must know. The CRD must have a status
// subresource with a list of conditions, mapped by their type.
type Kind[T client.Object] struct {
	// Name is the finalizer, and the field manager of what is written to objects: a
	// qualified name such as platform.example.com/environment. It must not change while
	// there are objects. Required.
	Name string
	// Tree makes the tree of an object for one pass, also of one that is being deleted, and
	// calls nothing. An error keeps the object where it is; see the errors of package
	// provisioner for what comes next. Required.
	Tree func(pass *Pass, object T) (provisioner.Provisioner, error)
	// Account names the ServiceAccount that a tree acts as at home. If nil, it is
	// Options.DefaultServiceAccount in the object's namespace, or in the operator's for an
	// object that has none. An empty name is refused: nothing is done with the operator's
	// own rights.
	Account func(object T) types.NamespacedName
	// Remotes declares the other clusters that nodes of the tree are on; see the field
	// remotes of a Stack. Their kubeconfigs are read in the object's namespace. Nil
	// declares none.
	Remotes func(object T) []v1alpha1.Remote
}

// Manage adds a controller to the manager that reconciles a kind by the rules that hold
// for Stacks: the finalizer comes before the first side effect; a pass runs the tree once
// and folds its outcomes; Available, Ready, Reconciling and Stalled tell users of it, by
// server-side apply; what yields is looked at again, what waits for somebody is parked
// until an input or the annotation caisson.dev/retry changes, over restarts as well; and
// a deletion takes the tree down before the object goes.
//
// An error says what is missing in the kind, or what the manager refused.
func Manage[T client.Object](h *Host, kind Kind[T]) error {
	described, err := describe(h, kind)
	if err != nil {
		return err
	}
	passes := *h.passes
	passes.Wakes, passes.Index = controller.NewWakes(), controller.NewInputIndex()
	r := &controller.ObjectReconciler{Kind: described, Passes: &passes, Records: h.records}
	if err := controller.SetupObject(h.mgr, r, h.parts.driver, h.watched); err != nil {
		return fmt.Errorf("set up the controller of %s: %w", described.GVK.Kind, err)
	}
	return nil
}

// describe translates a kind.
func describe[T client.Object](h *Host, kind Kind[T]) (controller.ObjectKind, error) {
	var none controller.ObjectKind
	pointer := reflect.TypeFor[T]()
	switch {
	case pointer.Kind() != reflect.Pointer:
		return none, fmt.Errorf("a kind is managed by a pointer to its type, and %s is none", pointer)
	case kind.Tree == nil:
		return none, errors.New("a kind needs a tree")
	case strings.Count(kind.Name, "/") != 1:
		return none, fmt.Errorf("the name of a kind is a qualified one, such as platform.example.com/environment, and %q is not", kind.Name)
	}
	fresh := func() client.Object { return reflect.New(pointer.Elem()).Interface().(client.Object) } //nolint:forcetypeassert // T is one.
	gvk, err := apiutil.GVKForObject(fresh(), h.mgr.GetScheme())
	if err != nil {
		return none, fmt.Errorf("find the kind of %s in the scheme: %w", pointer, err)
	}
	return controller.ObjectKind{
		GVK: gvk, Name: kind.Name, New: fresh,
		Account: func(object client.Object) (string, string) { return h.account(object, kind.accountOf(object)) },
		Plan: func(object client.Object, owner *v1alpha1.Stack, inputs provisioner.InputRecorder) (controller.Tree, error) {
			return kind.plan(h, object, owner, inputs)
		},
	}, nil
}

// accountOf returns what the kind says, and nil if it says nothing.
func (k Kind[T]) accountOf(object client.Object) *types.NamespacedName {
	typed, ok := object.(T)
	if k.Account == nil || !ok {
		return nil
	}
	named := k.Account(typed)
	return &named
}

// account returns the ServiceAccount of an object.
func (h *Host) account(object client.Object, named *types.NamespacedName) (namespace, name string) {
	if named != nil {
		return named.Namespace, named.Name
	}
	if object.GetNamespace() == "" {
		return h.options.Namespace, h.options.DefaultServiceAccount
	}
	return object.GetNamespace(), h.options.DefaultServiceAccount
}

func (k Kind[T]) plan(h *Host, object client.Object, owner *v1alpha1.Stack, inputs provisioner.InputRecorder) (controller.Tree, error) {
	typed, ok := object.(T)
	if !ok {
		return nil, fmt.Errorf("a %T was read where a %s was asked for", object, reflect.TypeFor[T]())
	}
	var remotes []v1alpha1.Remote
	if k.Remotes != nil {
		remotes = k.Remotes(typed)
	}
	dependencies, state := h.trees.of(owner, inputs)
	if h.watched != controller.CaissonObjects {
		// Its objects could not be read.
		dependencies.Catalogue = nil
	}
	kit := plan.NewKit(owner, remotes, dependencies)
	root, err := k.Tree(&Pass{kit: kit, catalogue: dependencies.Catalogue}, typed)
	if err != nil {
		return nil, err
	}
	tree, err := kit.Tree(root)
	if err != nil {
		return nil, err
	}
	return keeping(tree, state), nil
}
