package helm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// inventoryPrefix starts the name of the Secret that belongs to one owner.
	inventoryPrefix = "caisson-inventory-"
	// applicationPrefix starts the keys of that Secret that hold one application each.
	// Other keys belong to others and are left alone.
	applicationPrefix = "application."
	// hashLength is how many hex digits of SHA-256 tell entries and owners apart.
	hashLength = 20

	labelManagedBy   = "app.kubernetes.io/managed-by"
	managedByCaisson = "caisson"
	// labelOwnerUID finds everything that is kept for an owner.
	labelOwnerUID = "caisson.dev/owner-uid"
)

func entryKey(scopeID, path string) string {
	return applicationPrefix + hashOf(scopeID+"\x00"+path)
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:hashLength]
}

// inventory keeps the entries of each owner in a Secret of its own. Only the process
// that leads uses one, so what was read or written last is remembered. It is safe for
// concurrent use.
type inventory struct {
	client    client.Client
	namespace string
	// locks serialise what reads and writes an owner's Secret.
	locks keyedMutex
	known snapshots
}

func newInventory(c client.Client, namespace string, now func() time.Time) *inventory {
	return &inventory{client: c, namespace: namespace, known: snapshots{now: now}}
}

func inventoryName(ownerUID string) string { return inventoryPrefix + hashOf(ownerUID) }

// get returns one entry, or nil if there is none.
func (i *inventory) get(ctx context.Context, ownerUID, key string) (*entry, error) {
	held, err := i.load(ctx, ownerUID)
	if err != nil {
		return nil, err
	}
	if err := held.broken[key]; err != nil {
		return nil, fmt.Errorf("inventory %s: %w", inventoryName(ownerUID), err)
	}
	e, ok := held.entries[key]
	if !ok {
		return nil, nil
	}
	e = e.clone()
	return &e, nil
}

// list returns the entries of an owner, sorted by path and scope.
func (i *inventory) list(ctx context.Context, ownerUID string) ([]entry, error) {
	held, err := i.load(ctx, ownerUID)
	if err != nil {
		return nil, err
	}
	for _, err := range held.broken {
		return nil, fmt.Errorf("inventory %s: %w", inventoryName(ownerUID), err)
	}
	entries := make([]entry, 0, len(held.entries))
	for _, e := range held.entries {
		entries = append(entries, e.clone())
	}
	sort.Slice(entries, func(a, b int) bool {
		if entries[a].Path != entries[b].Path {
			return entries[a].Path < entries[b].Path
		}
		return entries[a].ScopeID < entries[b].ScopeID
	})
	return entries, nil
}

// load returns what an owner's Secret holds, and reads it only if that is not known. The
// lock keeps what was read before a write from being remembered after it.
func (i *inventory) load(ctx context.Context, ownerUID string) (holding, error) {
	if held, ok := i.known.get(ownerUID); ok {
		return held, nil
	}
	defer i.locks.lock(ownerUID)()
	if held, ok := i.known.get(ownerUID); ok {
		return held, nil
	}
	secret, err := i.read(ctx, ownerUID)
	if err != nil {
		return holding{}, err
	}
	var held holding
	if secret != nil {
		held = decodeHolding(secret.Data)
	}
	i.known.set(ownerUID, held)
	return held, nil
}

// forget makes the next call read an owner's Secret.
func (i *inventory) forget(ownerUID string) { i.known.drop(ownerUID) }

// put writes an entry unless the Secret says the same already.
func (i *inventory) put(ctx context.Context, e entry) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encoding an inventory entry: %w", err)
	}
	return i.change(ctx, e.Owner.UID, func(data map[string][]byte) bool {
		if old, err := decodeEntry(data[e.key()]); err == nil && reflect.DeepEqual(old, e) {
			return false
		}
		data[e.key()] = raw
		return true
	})
}

// drop forgets an entry; with the last one goes the Secret.
func (i *inventory) drop(ctx context.Context, ownerUID, key string) error {
	return i.change(ctx, ownerUID, func(data map[string][]byte) bool {
		_, ok := data[key]
		delete(data, key)
		return ok
	})
}

// conflictBackoff waits long enough for some dozen writers of one owner in other
// processes; those in this one are serialised and never meet.
func conflictBackoff() wait.Backoff {
	return wait.Backoff{Steps: 8, Duration: 20 * time.Millisecond, Factor: 2, Jitter: 0.5}
}

// change applies mutate to the data of an owner's Secret, as often as somebody else was
// faster. mutate reports whether there is anything to write. It always reads first:
// what is recorded before a side effect must be there. After an error nothing is known,
// because the write may have been carried out all the same.
func (i *inventory) change(ctx context.Context, ownerUID string, mutate func(map[string][]byte) bool) error {
	defer i.locks.lock(ownerUID)()
	var held holding
	err := retry.OnError(conflictBackoff(), retriable, func() error {
		secret, err := i.read(ctx, ownerUID)
		if err != nil {
			return err
		}
		if secret == nil {
			secret = i.fresh(ownerUID)
		}
		changed := mutate(secret.Data)
		held = decodeHolding(secret.Data)
		if !changed {
			return nil
		}
		if secret.UID == "" {
			return i.client.Create(ctx, secret)
		}
		if len(secret.Data) == 0 {
			version := secret.ResourceVersion
			return client.IgnoreNotFound(i.client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID, ResourceVersion: &version}))
		}
		err = i.client.Update(ctx, secret)
		if apierrors.IsNotFound(err) { // its last entry went after it was read
			return apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, secret.Name, err)
		}
		return err
	})
	if err != nil {
		i.known.drop(ownerUID)
		return fmt.Errorf("writing inventory %s: %w", inventoryName(ownerUID), err)
	}
	i.known.set(ownerUID, held)
	return nil
}

// retriable reports whether another attempt can succeed where this one was too slow.
func retriable(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// fresh is the Secret of an owner that has none.
func (i *inventory) fresh(ownerUID string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: inventoryName(ownerUID), Namespace: i.namespace,
			Labels: map[string]string{labelManagedBy: managedByCaisson, labelOwnerUID: labelValue(ownerUID)},
		},
		Data: map[string][]byte{},
	}
}

// read returns the Secret of an owner, or nil if there is none.
func (i *inventory) read(ctx context.Context, ownerUID string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: i.namespace, Name: inventoryName(ownerUID)}
	if err := i.client.Get(ctx, key, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading inventory %s: %w", key.Name, err)
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	return secret, nil
}

// labelValue returns text if it may be the value of a label, which every UID of an API
// server may, and a hash of it otherwise.
func labelValue(text string) string {
	const longest = 63
	for _, r := range text {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' {
			return hashOf(text)
		}
	}
	if len(text) > longest || strings.HasPrefix(text, "-") || strings.HasSuffix(text, "-") {
		return hashOf(text)
	}
	return text
}
