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
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/scope"
)

const (
	// inventoryPrefix starts the name of the Secret that belongs to one owner.
	inventoryPrefix = "caisson-inventory-"
	// applicationPrefix starts the keys of that Secret that hold one application each.
	// Other keys belong to others and are left alone.
	applicationPrefix = "application."
	// maxObjects bounds one entry: at some 120 bytes an object, this many fit for the 128
	// nodes of the largest tree into the 1.5 MiB that etcd takes, if few are that large.
	maxObjects = 256
	// hashLength is how many hex digits of SHA-256 tell entries and owners apart.
	hashLength = 20

	labelManagedBy   = "app.kubernetes.io/managed-by"
	managedByCaisson = "caisson"
	// labelOwnerUID finds everything that is kept for an owner.
	labelOwnerUID = "caisson.dev/owner-uid"
)

// entry is what the inventory records of one application: enough to remove it, and to
// prove that it is gone, knowing nothing else.
type entry struct {
	Owner     entryOwner `json:"owner"`
	Path      string     `json:"path"`
	Name      string     `json:"name,omitempty"`
	ScopeID   string     `json:"scope"`
	Release   string     `json:"release"`
	Namespace string     `json:"namespace"`
	Version   string     `json:"version,omitempty"`
	// Chart and Values are the digests that the release carries as labels.
	Chart  string `json:"chart"`
	Values string `json:"values"`
	// Objects is what a removal must see gone. During an upgrade it holds what was there
	// and what will be.
	Objects []object `json:"objects,omitempty"`
	// Omitted counts the objects beyond the bound; for them the release's own record is
	// the only list.
	Omitted int `json:"omitted,omitempty"`
	// Retained is what a removal leaves on purpose.
	Retained []string `json:"retained,omitempty"`
}

// entryOwner is the owner as it was recorded.
type entryOwner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

func recordOwner(o scope.Owner) entryOwner {
	return entryOwner{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID}
}

func (o entryOwner) owner() scope.Owner {
	return scope.Owner{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID}
}

func (e entry) id() scope.ResourceIdentifier {
	return scope.ResourceIdentifier{Owner: e.Owner.owner(), Path: e.Path, Name: e.Name}
}

func (e entry) key() string { return entryKey(e.ScopeID, e.Path) }

func (e entry) release() releaseKey {
	return releaseKey{scope: e.ScopeID, namespace: e.Namespace, name: e.Release}
}

// withObjects returns a copy that lists the objects, as many as are allowed.
func (e entry) withObjects(objects []object) entry {
	e.Objects, e.Omitted = objects, 0
	if len(objects) > maxObjects {
		e.Objects, e.Omitted = objects[:maxObjects], len(objects)-maxObjects
	}
	return e
}

func entryKey(scopeID, path string) string {
	return applicationPrefix + hashOf(scopeID+"\x00"+path)
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:hashLength]
}

// inventory keeps the entries of each owner in a Secret of its own.
type inventory struct {
	client    client.Client
	namespace string
	locks     keyedMutex
}

func inventoryName(ownerUID string) string { return inventoryPrefix + hashOf(ownerUID) }

// get returns one entry, or nil if there is none.
func (i *inventory) get(ctx context.Context, ownerUID, key string) (*entry, error) {
	secret, err := i.read(ctx, ownerUID)
	if err != nil || secret == nil {
		return nil, err
	}
	raw, ok := secret.Data[key]
	if !ok {
		return nil, nil
	}
	e, err := decodeEntry(raw)
	if err != nil {
		return nil, fmt.Errorf("inventory %s: %w", secret.Name, err)
	}
	return &e, nil
}

// list returns the entries of an owner, sorted by path and scope.
func (i *inventory) list(ctx context.Context, ownerUID string) ([]entry, error) {
	secret, err := i.read(ctx, ownerUID)
	if err != nil || secret == nil {
		return nil, err
	}
	var entries []entry
	for key, raw := range secret.Data {
		if !strings.HasPrefix(key, applicationPrefix) {
			continue
		}
		e, err := decodeEntry(raw)
		if err != nil {
			return nil, fmt.Errorf("inventory %s: %w", secret.Name, err)
		}
		entries = append(entries, e)
	}
	sort.Slice(entries, func(a, b int) bool {
		if entries[a].Path != entries[b].Path {
			return entries[a].Path < entries[b].Path
		}
		return entries[a].ScopeID < entries[b].ScopeID
	})
	return entries, nil
}

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
// faster. mutate reports whether there is anything to write.
func (i *inventory) change(ctx context.Context, ownerUID string, mutate func(map[string][]byte) bool) error {
	defer i.locks.lock(ownerUID)()
	err := retry.OnError(conflictBackoff(), retriable, func() error {
		secret, err := i.read(ctx, ownerUID)
		if err != nil {
			return err
		}
		if secret == nil {
			return i.create(ctx, ownerUID, mutate)
		}
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		if !mutate(secret.Data) {
			return nil
		}
		if len(secret.Data) == 0 {
			version := secret.ResourceVersion
			return client.IgnoreNotFound(i.client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID, ResourceVersion: &version}))
		}
		return i.client.Update(ctx, secret)
	})
	if err != nil {
		return fmt.Errorf("writing inventory %s: %w", inventoryName(ownerUID), err)
	}
	return nil
}

// retriable reports whether another attempt can succeed where this one was too slow.
func retriable(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

func (i *inventory) create(ctx context.Context, ownerUID string, mutate func(map[string][]byte) bool) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: inventoryName(ownerUID), Namespace: i.namespace,
			Labels: map[string]string{labelManagedBy: managedByCaisson, labelOwnerUID: labelValue(ownerUID)},
		},
		Data: map[string][]byte{},
	}
	if !mutate(secret.Data) || len(secret.Data) == 0 {
		return nil
	}
	return i.client.Create(ctx, secret)
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
	return secret, nil
}

func decodeEntry(raw []byte) (entry, error) {
	var e entry
	if err := json.Unmarshal(raw, &e); err != nil {
		return entry{}, fmt.Errorf("decoding an inventory entry: %w", err)
	}
	return e, nil
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
