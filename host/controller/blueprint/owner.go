package blueprint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/plan"
)

// again is when a lost race is run again.
const again = time.Second

// ownerReconciler keeps the Stacks of the owners of one kind.
type ownerReconciler struct {
	run *run
	// owners reads from the cache of the run, and client writes.
	owners client.Reader
	client client.Client
	// stacks reads from the cache of the manager, and live from the API server.
	stacks      client.Reader
	live        client.Reader
	writeStacks client.Client
	events      events.EventRecorder
	clock       func() time.Time
	// changed is called when the tally has changed.
	changed func()
	// refused is called when the API server lets the operator not write to an owner: a watch
	// that is open goes on for minutes when a right is taken away.
	refused func()
}

// visit is one look at one owner.
type visit struct {
	*ownerReconciler
	order *order
	owner *unstructured.Unstructured
	// stack is the owner's, or nil; names are those that it may have, and taken those of
	// them that others have.
	stack *v1alpha1.Stack
	taken map[string]bool
	// predecessor is the Stack of an owner of the same name that was deleted before, or nil.
	predecessor *v1alpha1.Stack
	writer      *writer
}

// Reconcile looks at one owner.
func (r *ownerReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o := r.run.order.Load()
	owner := r.run.kind.object()
	if err := r.owners.Get(ctx, req.NamespacedName, owner); err != nil {
		if !apierrors.IsNotFound(err) {
			return ctrl.Result{}, fmt.Errorf("read owner: %w", err)
		}
		if r.run.tally.forget(req.NamespacedName) {
			r.changed()
		}
		return ctrl.Result{}, nil
	}
	v := &visit{ownerReconciler: r, order: o, owner: owner, writer: &writer{client: r.client, kind: o.kind, prefix: o.prefix}}
	if err := v.find(ctx, r.stacks); err != nil {
		return ctrl.Result{}, err
	}
	err := v.act(ctx)
	if v.writer.refused {
		r.refused()
	}
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: again}, nil
	}
	return ctrl.Result{}, err
}

func (v *visit) act(ctx context.Context) error {
	if v.owner.GetDeletionTimestamp() != nil {
		return v.end(ctx)
	}
	if !controllerutil.ContainsFinalizer(v.owner, v1alpha1.OwnerFinalizer) {
		before := v.owner.DeepCopy()
		controllerutil.AddFinalizer(v.owner, v1alpha1.OwnerFinalizer)
		if err := v.writer.patch(ctx, v.owner, before); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("add finalizer: %w", err)
		}
	}
	told, err := v.keep(ctx)
	return errors.Join(err, v.tell(ctx, told))
}

// namespace is where the owner's Stack is.
func (v *visit) namespace() string {
	if v.order.kind.namespaced {
		return v.owner.GetNamespace()
	}
	return v.order.namespace
}

// find looks for the owner's Stack.
func (v *visit) find(ctx context.Context, from client.Reader) error {
	v.stack, v.predecessor, v.taken = nil, nil, map[string]bool{}
	for _, name := range stackNames(v.order.kind.gvk.GroupKind(), v.owner.GetName()) {
		stack := &v1alpha1.Stack{}
		err := from.Get(ctx, client.ObjectKey{Namespace: v.namespace(), Name: name}, stack)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read stack: %w", err)
		}
		reference := metav1.GetControllerOf(stack)
		switch {
		case reference != nil && reference.UID == v.owner.GetUID():
			v.stack = stack
		case reference != nil && reference.Name == v.owner.GetName() && refersTo(reference, v.order.kind):
			v.predecessor = stack
		default:
			v.taken[name] = true
		}
	}
	return nil
}

// refersTo says whether a reference is to an object of the kind, in whichever version.
func refersTo(reference *metav1.OwnerReference, k *kind) bool {
	gv, err := schema.ParseGroupVersion(reference.APIVersion)
	return err == nil && gv.Group == k.gvk.Group && reference.Kind == k.gvk.Kind
}

// keep makes the Stack what the Blueprint says, and returns what the owner is to be told.
// The error is for what may be retried.
func (v *visit) keep(ctx context.Context) (report, error) {
	if v.stack != nil && v.stack.DeletionTimestamp != nil {
		return v.mirror(v.stack), nil // Somebody deleted it. It comes again when it has gone.
	}
	if v.order.plan == nil {
		if v.stack != nil {
			return v.mirror(v.stack), nil
		}
		return v.stalled(v1alpha1.ReasonInvalid, fmt.Sprintf("The Blueprint %s is not valid: %s", v.order.name, v.order.invalid)), nil
	}
	if v.predecessor != nil {
		return v.working(v1alpha1.ReasonProvisioning,
			fmt.Sprintf("The Stack %s of an object that had this name before is still being deleted.", v.predecessor.Name)), nil
	}
	want, invalid, err := v.want(ctx)
	if err != nil {
		return v.working(v1alpha1.ReasonRetrying, "The Stack could not be made out of the Blueprint; it is tried again."), err
	}
	if invalid != "" {
		return v.stalled(v1alpha1.ReasonInvalid, invalid), nil
	}
	if v.stack != nil {
		if done, err := applied(want, v.stack); err != nil || done {
			return v.mirror(v.stack), err
		}
	}
	stack, err := v.apply(ctx, want)
	switch {
	case err == nil:
		return v.mirror(stack), nil
	case apierrors.IsInvalid(err):
		return v.stalled(v1alpha1.ReasonInvalid, "The Stack is not valid: "+clip(err.Error())), nil
	case apierrors.IsNotFound(err):
		return v.working(v1alpha1.ReasonRetrying, fmt.Sprintf("The namespace %s does not exist; the Stack is to be there.", v.namespace())), err
	case apierrors.IsForbidden(err):
		return v.working(v1alpha1.ReasonRetrying, fmt.Sprintf("No Stack may be made in the namespace %s; it may be on its way out.", v.namespace())), err
	}
	return v.working(v1alpha1.ReasonRetrying, "The Stack could not be written; it is tried again."), err
}

// want returns the Stack that the owner is to have, or says why it makes none.
func (v *visit) want(ctx context.Context) (want *unstructured.Unstructured, invalid string, err error) {
	name := v.name()
	if name == "" {
		return nil, "The names that its Stack could have are taken by Stacks that are not ours.", nil
	}
	resource, err := resourceOf(v.owner)
	if err != nil {
		return nil, "", err
	}
	spec, err := v.order.plan.Stack(ctx, resource)
	if found := (*plan.InvalidError)(nil); errors.As(err, &found) {
		return nil, fmt.Sprintf("The Blueprint %s makes no Stack of it: %s", v.order.name, clip(found.Error())), nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("evaluate the blueprint: %w", err)
	}
	want, err = desired(v.owner, v.order.name, v.namespace(), name, spec)
	return want, "", err
}

// name returns that of the owner's Stack, or "" if all are taken.
func (v *visit) name() string {
	if v.stack != nil {
		return v.stack.Name
	}
	for _, name := range stackNames(v.order.kind.gvk.GroupKind(), v.owner.GetName()) {
		if !v.taken[name] {
			return name
		}
	}
	return ""
}

// apply writes the Stack. A new one must not take over a Stack that the cache does not
// know of yet, so that fields of others are respected then.
func (v *visit) apply(ctx context.Context, want *unstructured.Unstructured) (*v1alpha1.Stack, error) {
	options := []client.ApplyOption{client.FieldOwner(v1alpha1.BlueprintFieldManager)}
	if v.stack == nil {
		if err := v.find(ctx, v.live); err != nil {
			return nil, err
		}
		if v.stack == nil && (v.taken[want.GetName()] || v.predecessor != nil) {
			return nil, apierrors.NewConflict(v1alpha1.GroupVersion().WithResource("stacks").GroupResource(), want.GetName(), errors.New("the cache is behind"))
		}
	}
	if v.stack != nil {
		want.SetUID(v.stack.UID)
		options = append(options, client.ForceOwnership)
	}
	if err := v.writeStacks.Apply(ctx, client.ApplyConfigurationFromUnstructured(want), options...); err != nil {
		return nil, fmt.Errorf("apply stack: %w", err)
	}
	raw, err := want.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encode stack: %w", err)
	}
	stack := &v1alpha1.Stack{}
	if err := json.Unmarshal(raw, stack); err != nil {
		return nil, fmt.Errorf("decode stack: %w", err)
	}
	return stack, nil
}

// end removes the Stack of an owner that is being deleted, and then lets go of it.
func (v *visit) end(ctx context.Context) error {
	if !controllerutil.ContainsFinalizer(v.owner, v1alpha1.OwnerFinalizer) {
		return nil
	}
	if v.stack == nil {
		// The cache may not know yet of one that was made a moment ago.
		if err := v.find(ctx, v.live); err != nil {
			return err
		}
	}
	if v.stack == nil {
		before := v.owner.DeepCopy()
		controllerutil.RemoveFinalizer(v.owner, v1alpha1.OwnerFinalizer)
		if err := v.writer.patch(ctx, v.owner, before); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove finalizer: %w", err)
		}
		return nil
	}
	if v.stack.DeletionTimestamp == nil {
		err := v.writeStacks.Delete(ctx, v.stack, client.Preconditions{UID: &v.stack.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete stack: %w", err)
		}
	}
	told := v.mirror(v.stack)
	if v.stack.DeletionTimestamp == nil {
		told = v.working(v1alpha1.ReasonDeprovisioning, fmt.Sprintf("The Stack %s/%s is being deleted.", v.stack.Namespace, v.stack.Name))
	}
	return v.tell(ctx, told)
}

// stackReference is what events about the owner also concern.
func (v *visit) stackReference() runtime.Object {
	if v.stack == nil {
		return nil
	}
	return v.stack
}

func (v *visit) mirror(stack *v1alpha1.Stack) report {
	return mirrored(stack, v.owner.GetGeneration(), v.writer.own(v.owner), v.now())
}

func (v *visit) stalled(reason, message string) report {
	return stalled(reason, clip(message), v.owner.GetGeneration(), v.now())
}

func (v *visit) working(reason, message string) report {
	return working(reason, clip(message), v.owner.GetGeneration(), v.now())
}

func (v *visit) now() metav1.Time { return metav1.NewTime(v.clock().Truncate(time.Second)) }

// tell writes the owner's conditions, and records by an event what they cannot say.
func (v *visit) tell(ctx context.Context, told report) error {
	conditions := told.final(v.order.prefix, v.writer.own(v.owner))
	failed, err := v.writer.write(ctx, v.owner, conditions)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	reason, message, good := told.phase()
	now := entry{available: meta.IsStatusConditionTrue(told.conditions, v1alpha1.ConditionAvailable), phase: reason, trouble: failed}
	was, changed := v.run.tally.set(client.ObjectKeyFromObject(v.owner), now)
	if changed {
		v.changed()
		kind := corev1.EventTypeNormal
		if !good {
			kind = corev1.EventTypeWarning
		}
		v.record(was, now, kind, message)
	}
	return nil
}

// record tells by events: of the phase where there are no conditions, and of a trouble that
// is new. After a restart the first look at an owner is not news.
func (v *visit) record(was, now entry, kind, message string) {
	switch now.trouble.reason {
	case "":
	case v1alpha1.ReasonNotInSchema:
		if was.phase != now.phase && (was.phase != "" || !now.available) {
			v.events.Eventf(v.owner, v.stackReference(), kind, now.phase, "Reconcile", "%s", clip(message))
		}
	default:
		if was.trouble != now.trouble {
			v.events.Eventf(v.owner, v.stackReference(), "Warning", now.trouble.reason, "WriteConditions", "%s", clip(now.trouble.message))
		}
	}
}
