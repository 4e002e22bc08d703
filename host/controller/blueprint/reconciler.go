package blueprint

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/plan"
)

const (
	// retryBase and retryMax bound the backoff while a kind is not installed, or rights on
	// it are missing. A CRD that comes is seen at once; a role is not.
	retryBase = time.Second
	retryMax  = time.Minute
	// recheck is how long it is believed what the API server said of a kind and of rights.
	recheck = 10 * time.Minute
	// countsDelay gathers changes of owners before they are counted in the status.
	countsDelay = time.Second
)

// Reconciler puts Blueprints in force.
type Reconciler struct {
	// client is the operator's own, reading from its cache.
	client   client.Client
	fleet    *Fleet
	resolver *resolver
	clock    func() time.Time
	backoff  workqueue.TypedRateLimiter[types.UID]

	mu sync.Mutex
	// known is what was found out of Blueprints, by UID.
	known map[types.UID]*knowledge
}

// knowledge is what is remembered of a Blueprint between two looks at it.
type knowledge struct {
	generation int64
	plan       *plan.Blueprint
	invalid    string
	kind       *kind
	lacks      []string
	checked    time.Time
}

// finding is what came of a look at a Blueprint.
type finding struct {
	accepted, ready, written *metav1.Condition
	kind                     *kind
	counts                   counts
	after                    time.Duration
}

// Reconcile looks at one Blueprint.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	b := &v1alpha1.Blueprint{}
	if err := r.client.Get(ctx, req.NamespacedName, b); err != nil {
		if apierrors.IsNotFound(err) {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("read blueprint: %w", err)
	}
	var err error
	var f finding
	if b.DeletionTimestamp != nil {
		f, err = r.end(ctx, b)
	} else {
		f, err = r.enforce(ctx, b)
	}
	if err == nil {
		err = r.writeStatus(ctx, b, f)
	}
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: again}, nil
	}
	return ctrl.Result{RequeueAfter: f.after}, client.IgnoreNotFound(err)
}

// enforce has a run work for the Blueprint if it is in force, and none if not.
func (r *Reconciler) enforce(ctx context.Context, b *v1alpha1.Blueprint) (finding, error) {
	if !controllerutil.ContainsFinalizer(b, v1alpha1.BlueprintFinalizer) {
		before := b.DeepCopy()
		controllerutil.AddFinalizer(b, v1alpha1.BlueprintFinalizer)
		if err := r.patch(ctx, b, before); err != nil {
			return finding{}, fmt.Errorf("add finalizer: %w", err)
		}
	}
	rival, err := r.rival(ctx, b)
	if err != nil {
		return finding{}, err
	}
	gk := groupKind(b)
	if rival != "" {
		r.fleet.stop(gk, b.UID)
		return rejected(v1alpha1.ReasonConflict, fmt.Sprintf("The Blueprint %s, which is older, maps the same kind.", rival)), nil
	}
	k, err := r.look(ctx, b)
	if err != nil {
		return finding{}, err
	}
	switch {
	case k.kind == nil:
		r.fleet.stop(gk, b.UID)
		return r.later(b, rejected(v1alpha1.ReasonKindNotInstalled,
			fmt.Sprintf("The API serves no %s that can be watched; install its CRD.", describe(b.Spec.Resource)))), nil
	case len(k.lacks) > 0:
		r.fleet.stop(gk, b.UID)
		return r.later(b, rejected(v1alpha1.ReasonForbidden, remedy(k.lacks))), nil
	}
	invalid := k.invalid
	if problem := namespaceProblem(k.kind, b); problem != "" {
		invalid = problem
	}
	o := &order{
		uid: b.UID, name: b.Name, generation: b.Generation, namespace: b.Spec.Namespace, prefix: b.Spec.ConditionPrefix,
		kind: k.kind, plan: k.plan, invalid: invalid,
	}
	if invalid != "" {
		o.plan = nil
	}
	run, err := r.fleet.ensure(ctx, o)
	if err != nil {
		return finding{}, err
	}
	f := r.state(run, o)
	f.kind = k.kind
	f.after = recheck
	switch {
	case run == nil:
		f.after = again // The manager is about to let runs start.
	case run.synced.Load():
		r.backoff.Forget(b.UID)
	}
	return f, nil
}

// state is what a run that works for a Blueprint is doing.
func (r *Reconciler) state(run *run, o *order) finding {
	var f finding
	f.accepted = condition(v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted, "The Blueprint is in force.")
	f.ready = condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonStarting, "The owners are being listed.")
	if run != nil {
		f.counts = run.tally.sum()
		if run.synced.Load() {
			f.ready = condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRunning, "Owners are watched, and have Stacks.")
		}
	}
	if o.invalid != "" {
		rejection := rejected(v1alpha1.ReasonInvalid, o.invalid)
		f.accepted, f.ready = rejection.accepted, rejection.ready
	}
	f.written = condition(v1alpha1.ConditionConditionsWritten, metav1.ConditionTrue, v1alpha1.ReasonWritten, "Owners carry the conditions of their Stacks.")
	switch {
	case o.kind.shape.list == listNone:
		f.written = condition(v1alpha1.ConditionConditionsWritten, metav1.ConditionFalse, v1alpha1.ReasonNotInSchema,
			fmt.Sprintf("There is no CRD of %s with status.conditions; events on the owners tell of their Stacks.", o.kind))
	case f.counts.troubled > 0:
		f.written = condition(v1alpha1.ConditionConditionsWritten, metav1.ConditionFalse, f.counts.trouble.reason, clip(f.counts.String()))
	}
	return f
}

// namespaceProblem says what is wrong with where the Stacks are to be.
func namespaceProblem(k *kind, b *v1alpha1.Blueprint) string {
	switch {
	case !k.namespaced && b.Spec.Namespace == "":
		return fmt.Sprintf("namespace: %s have no namespace, so that it must say where their Stacks are to be", k)
	case k.namespaced && b.Spec.Namespace != "":
		return fmt.Sprintf("namespace: it must be empty, because the Stacks of %s are in the namespaces of their owners", k)
	}
	return ""
}

// rival returns the name of an older Blueprint for the same kind, or "". One that is being
// deleted counts until it has let go of the owners.
func (r *Reconciler) rival(ctx context.Context, b *v1alpha1.Blueprint) (string, error) {
	all := &v1alpha1.BlueprintList{}
	if err := r.client.List(ctx, all); err != nil {
		return "", fmt.Errorf("list blueprints: %w", err)
	}
	oldest := b
	for i := range all.Items {
		if other := &all.Items[i]; groupKind(other) == groupKind(b) && older(other, oldest) {
			oldest = other
		}
	}
	if oldest.UID == b.UID {
		return "", nil
	}
	return oldest.Name, nil
}

// older orders Blueprints; those of one second by name.
func older(a, b *v1alpha1.Blueprint) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// look compiles the Blueprint, finds its kind, and asks for rights, as far as what is known
// of them is out of date.
func (r *Reconciler) look(ctx context.Context, b *v1alpha1.Blueprint) (*knowledge, error) {
	r.mu.Lock()
	k := r.known[b.UID]
	r.mu.Unlock()
	if k != nil && k.generation == b.Generation && k.kind != nil && len(k.lacks) == 0 && r.clock().Sub(k.checked) < recheck {
		return k, nil
	}
	next := &knowledge{generation: b.Generation, checked: r.clock()}
	if k != nil && k.generation == b.Generation {
		next.plan, next.invalid = k.plan, k.invalid
	} else {
		var err error
		if next.plan, next.invalid, err = compile(b); err != nil {
			return nil, err
		}
	}
	// From here on a change of the kind makes this look out of date.
	r.mu.Lock()
	r.known[b.UID] = next
	r.mu.Unlock()
	kind, err := r.resolver.resolve(ctx, b.Spec.Resource)
	if err != nil {
		r.doubt(b.UID)
		return nil, err
	}
	var lacks []string
	if kind != nil {
		if lacks, err = missing(ctx, r.client, kind); err != nil {
			r.doubt(b.UID)
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known[b.UID] == next {
		found := *next
		found.kind, found.lacks = kind, lacks
		r.known[b.UID] = &found
	}
	result := *next
	result.kind, result.lacks = kind, lacks
	return &result, nil
}

func compile(b *v1alpha1.Blueprint) (compiled *plan.Blueprint, invalid string, err error) {
	compiled, err = plan.CompileBlueprint(b)
	if found := (*plan.InvalidError)(nil); errors.As(err, &found) {
		return nil, clip(found.Error()), nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("compile the blueprint: %w", err)
	}
	return compiled, "", nil
}

// doubt has kind and rights looked up again.
func (r *Reconciler) doubt(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.known[uid]; k != nil {
		r.known[uid] = &knowledge{generation: k.generation, plan: k.plan, invalid: k.invalid}
	}
}

// later looks again by and by.
func (r *Reconciler) later(b *v1alpha1.Blueprint, f finding) finding {
	f.after = r.backoff.When(b.UID)
	return f
}

func (r *Reconciler) patch(ctx context.Context, b, before *v1alpha1.Blueprint) error {
	return r.client.Patch(ctx, b, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(v1alpha1.FieldManager))
}

func groupKind(b *v1alpha1.Blueprint) schema.GroupKind {
	return schema.GroupKind{Group: b.Spec.Resource.Group, Kind: b.Spec.Resource.Kind}
}

// describe names the kind that a Blueprint asks for.
func describe(k v1alpha1.ResourceKind) string {
	name := k.Kind
	if k.Group != "" {
		name += "." + k.Group
	}
	if k.Version != "" {
		name += " in version " + k.Version
	}
	return name
}
