package controller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
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

// For returns the state of one owner.
func (s *StateStore) For(ownerUID string) module.State { return &ownerState{store: s, uid: ownerUID} }

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

// ownerState is the state of one owner, for one pass. It is read once, and its nodes
// write one at a time, so that they do not race each other.
type ownerState struct {
	store *StateStore
	uid   string

	mu sync.Mutex
	// known says that secret is what there is; nil then means that there is none.
	known  bool
	secret *corev1.Secret
}

var _ module.State = (*ownerState)(nil)

// Load implements module.State.
func (o *ownerState) Load(ctx context.Context, path string) (json.RawMessage, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.read(ctx); err != nil {
		return nil, fmt.Errorf("read state of %s: %w", path, err)
	}
	if o.secret == nil {
		return nil, nil
	}
	return o.secret.Data[shortHash(path)], nil
}

// Save implements module.State. A write that lost a race, to another replica that has not
// noticed yet that it leads no more, is made again.
func (o *ownerState) Save(ctx context.Context, path string, raw json.RawMessage) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	err := retry.OnError(retry.DefaultBackoff, lostRace, func() error {
		if err := o.read(ctx); err != nil {
			return err
		}
		next, err := o.write(ctx, path, raw)
		// After a failure nobody knows what there is.
		o.known, o.secret = err == nil, next
		return err
	})
	if err != nil {
		return fmt.Errorf("write state of %s: %w", path, err)
	}
	return nil
}

// write writes one document over what was read, and returns what there is then.
func (o *ownerState) write(ctx context.Context, path string, raw json.RawMessage) (*corev1.Secret, error) {
	if o.secret == nil && raw == nil {
		return nil, nil
	}
	if o.secret == nil {
		next := o.fresh(path, raw)
		return next, o.store.client.Create(ctx, next)
	}
	next := o.secret.DeepCopy()
	if next.Data == nil {
		next.Data = map[string][]byte{}
	}
	next.Data[shortHash(path)] = raw
	if raw == nil {
		delete(next.Data, shortHash(path))
	}
	return next, o.store.client.Update(ctx, next, client.FieldOwner(v1alpha1.FieldManager))
}

// lostRace includes that the Secret is gone: it is made again.
func lostRace(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

// read reads the Secret unless it is known.
func (o *ownerState) read(ctx context.Context) error {
	if o.known {
		return nil
	}
	secret := &corev1.Secret{}
	err := o.store.client.Get(ctx, client.ObjectKey{Namespace: o.store.namespace, Name: stateName(o.uid)}, secret)
	switch {
	case apierrors.IsNotFound(err):
		o.known, o.secret = true, nil
	case err != nil:
		return err
	default:
		o.known, o.secret = true, secret
	}
	return nil
}

func (o *ownerState) fresh(path string, raw json.RawMessage) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.store.namespace, Name: stateName(o.uid), Labels: map[string]string{ownerLabel: o.uid}},
		Data:       map[string][]byte{shortHash(path): raw},
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
