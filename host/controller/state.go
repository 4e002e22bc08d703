package controller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/provisioner/module"
)

const (
	// statePrefix starts the name of the Secret that holds the module state of an owner.
	statePrefix = "caisson-state-"
	// ownerLabel finds everything that is kept for an owner, by this package and by the
	// driver.
	ownerLabel = "caisson.dev/owner-uid"
	// Secrets hold, of each node under a hash of its path, the state as it is, and the
	// others with these endings. generationAnnotation and retryAnnotation of the Secret are
	// the ones for which those are kept.
	generationSuffix     = ".generation"
	stickySuffix         = ".sticky"
	generationAnnotation = "caisson.dev/state-generation"
	retryAnnotation      = "caisson.dev/state-retry"
	// nameDigits is how much of a hash goes into names.
	nameDigits = 20
)

// StateStore keeps what modules leave for their next call, in one Secret for each owner
// in the operator's namespace, out of reach of tenants. It is safe for concurrent use.
type StateStore struct {
	client    client.Client
	namespace string
}

// NewStateStore returns a store. The client must not read from a cache.
func NewStateStore(c client.Client, namespace string) *StateStore {
	return &StateStore{client: c, namespace: namespace}
}

// For returns the state of one owner, for one pass. What was kept for another generation
// of it, and what was kept until a retry was asked for that its annotation now asks for, is
// dropped before anything is read.
func (s *StateStore) For(stack *v1alpha1.Stack) *OwnerState {
	return &OwnerState{
		store: s, uid: string(stack.UID), generation: strconv.FormatInt(stack.Generation, 10),
		retry: stack.Annotations[v1alpha1.RetryAnnotation],
	}
}

// DropState implements StateDropper. It drops everything that is kept for the owner in the
// operator's namespace: the credentials of a remote, too, are left over when a Stack was
// edited into one that makes no tree.
func (s *StateStore) DropState(ctx context.Context, stack *v1alpha1.Stack) error {
	kept := &corev1.SecretList{}
	if err := s.client.List(ctx, kept, client.InNamespace(s.namespace), client.MatchingLabels{ownerLabel: string(stack.UID)}); err != nil {
		return fmt.Errorf("list what is kept: %w", err)
	}
	for i := range kept.Items {
		if err := s.client.Delete(ctx, &kept.Items[i]); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete secret %s: %w", kept.Items[i].Name, err)
		}
	}
	return nil
}

// OwnerState is the state of one owner, for one pass. It is read once, and its nodes
// write one at a time, so that they do not race each other. It is safe for concurrent use.
type OwnerState struct {
	store      *StateStore
	uid        string
	generation string
	retry      string

	mu sync.Mutex
	// nodes are the hashes of the paths that something is kept for; nil means of any.
	nodes map[string]bool
	// known says that secret is what there is; nil then means that there is none.
	known  bool
	secret *corev1.Secret
}

var _ module.State = (*OwnerState)(nil)

// Keep says which nodes there are, by their paths. What is kept of others is dropped with
// the next read. Call it before the pass.
func (o *OwnerState) Keep(paths []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.nodes = map[string]bool{}
	for _, path := range paths {
		o.nodes[shortHash(path)] = true
	}
}

// Load implements module.State.
func (o *OwnerState) Load(ctx context.Context, path string) (module.Kept, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	// The drop is part of the read: a module must never see what is to be forgotten, and
	// what was dropped must not come back when an annotation is taken away.
	if err := retry.OnError(retry.DefaultBackoff, lostRace, func() error { return o.read(ctx) }); err != nil {
		return module.Kept{}, fmt.Errorf("read state of %s: %w", path, err)
	}
	if o.secret == nil {
		return module.Kept{}, nil
	}
	key := shortHash(path)
	return module.Kept{State: o.secret.Data[key], Generation: o.secret.Data[key+generationSuffix], Sticky: o.secret.Data[key+stickySuffix]}, nil
}

// Save implements module.State. A write that lost a race, to another replica that has not
// noticed yet that it leads no more, is made again.
func (o *OwnerState) Save(ctx context.Context, path string, kept module.Kept) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	err := retry.OnError(retry.DefaultBackoff, lostRace, func() error {
		if err := o.read(ctx); err != nil {
			return err
		}
		return o.write(ctx, func(secret *corev1.Secret) {
			key := shortHash(path)
			setData(secret, key, kept.State)
			setData(secret, key+generationSuffix, kept.Generation)
			setData(secret, key+stickySuffix, kept.Sticky)
		})
	})
	if err != nil {
		return fmt.Errorf("write state of %s: %w", path, err)
	}
	return nil
}

func setData(secret *corev1.Secret, key string, raw json.RawMessage) {
	if raw == nil {
		delete(secret.Data, key)
		return
	}
	secret.Data[key] = raw
}

// write changes what was read, if that makes a difference.
func (o *OwnerState) write(ctx context.Context, change func(*corev1.Secret)) error {
	next := o.fresh()
	if o.secret != nil {
		next = o.secret.DeepCopy()
	}
	if next.Data == nil {
		next.Data = map[string][]byte{}
	}
	change(next)
	var err error
	switch {
	case o.secret == nil && len(next.Data) == 0:
		return nil
	case o.secret == nil:
		o.mark(next)
		err = o.store.client.Create(ctx, next)
	case equality.Semantic.DeepEqual(o.secret.Data, next.Data):
		return nil
	default:
		o.mark(next)
		err = o.store.client.Update(ctx, next, client.FieldOwner(v1alpha1.FieldManager))
	}
	// After a failure nobody knows what there is.
	o.known, o.secret = err == nil, next
	return err
}

// mark notes what the documents are kept for. A retry that is not asked for any more is
// still the last that was.
func (o *OwnerState) mark(secret *corev1.Secret) {
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	secret.Annotations[generationAnnotation] = o.generation
	if o.retry != "" {
		secret.Annotations[retryAnnotation] = o.retry
	}
}

// lostRace includes that the Secret is gone: it is made again.
func lostRace(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

// read reads the Secret unless it is known, and drops what has had its time.
func (o *OwnerState) read(ctx context.Context) error {
	if o.known {
		return nil
	}
	secret := &corev1.Secret{}
	err := o.store.client.Get(ctx, client.ObjectKey{Namespace: o.store.namespace, Name: stateName(o.uid)}, secret)
	switch {
	case apierrors.IsNotFound(err):
		o.known, o.secret = true, nil
		return nil
	case err != nil:
		return err
	}
	o.known, o.secret = true, secret
	return o.write(ctx, o.forget)
}

// forget drops what has had its time.
func (o *OwnerState) forget(secret *corev1.Secret) {
	edited := secret.Annotations[generationAnnotation] != o.generation
	retried := o.retry != "" && secret.Annotations[retryAnnotation] != o.retry
	maps.DeleteFunc(secret.Data, func(key string, _ []byte) bool {
		node, _, _ := strings.Cut(key, ".")
		return edited && strings.HasSuffix(key, generationSuffix) || retried && strings.HasSuffix(key, stickySuffix) ||
			o.nodes != nil && !o.nodes[node]
	})
}

func (o *OwnerState) fresh() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.store.namespace, Name: stateName(o.uid), Labels: map[string]string{ownerLabel: o.uid}},
	}
}

func stateName(uid string) string { return statePrefix + shortHash(uid) }

func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:nameDigits]
}

// ModuleEvents records the events of modules on the Stack. Their texts come out of
// manifests, never from a guest.
func ModuleEvents(recorder events.EventRecorder) module.EventRecorder {
	return module.EventRecorderFunc(func(_ context.Context, e module.Event) {
		stack := &v1alpha1.Stack{
			TypeMeta:   metav1.TypeMeta{APIVersion: e.Owner.APIVersion, Kind: e.Owner.Kind},
			ObjectMeta: metav1.ObjectMeta{Namespace: e.Owner.Namespace, Name: e.Owner.Name},
		}
		stack.UID = types.UID(e.Owner.UID)
		recorder.Eventf(stack, nil, e.Type, e.Reason, "Module", "%s: %s", e.Node.Path, e.Sentence)
	})
}
