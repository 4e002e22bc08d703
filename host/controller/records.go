package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

const (
	// recordPrefix starts the name of the Secret that holds the record of an owner.
	recordPrefix = "caisson-record-"
	// recordKey is the key of the record in it.
	recordKey = "status"
)

// Records keeps what a Stack has in its status for owners whose own status has no place
// for it: one Secret for each owner, in the operator's namespace, out of reach of tenants.
// A record is read once by a process, and written when it changes. It goes with whatever
// else is kept for the owner; see [StateStore.DropState]. It is safe for concurrent use.
type Records struct {
	client    client.Client
	namespace string

	mu    sync.Mutex
	known map[recordName]knownRecord
}

// recordName identifies the place of an object.
type recordName struct {
	group, kind string
	name        types.NamespacedName
}

// knownRecord is a record as it was read or written last.
type knownRecord struct {
	uid    types.UID
	status v1alpha1.StackStatus
	// version is that of the Secret; empty if there is none.
	version string
}

// NewRecords returns the records in the operator's namespace. The client must not read
// from a cache.
func NewRecords(c client.Client, namespace string) *Records {
	return &Records{client: c, namespace: namespace, known: map[recordName]knownRecord{}}
}

// load returns the record of an object; one that has none is empty. A record that cannot
// be read as one counts as none, which costs a pass.
func (r *Records) load(ctx context.Context, kind ObjectKind, object client.Object) (v1alpha1.StackStatus, error) {
	if known, ok := r.recall(kind, object); ok {
		return *known.status.DeepCopy(), nil
	}
	known := knownRecord{uid: object.GetUID()}
	secret := &corev1.Secret{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: recordNameOf(known.uid)}, secret)
	switch {
	case err == nil:
		known.version = secret.ResourceVersion
		if err := json.Unmarshal(secret.Data[recordKey], &known.status); err != nil {
			known.status = v1alpha1.StackStatus{}
		}
	case !apierrors.IsNotFound(err):
		return v1alpha1.StackStatus{}, fmt.Errorf("read the record of %s %s: %w", kind.GVK.Kind, object.GetName(), err)
	}
	r.remember(kind, object, known)
	return *known.status.DeepCopy(), nil
}

// save writes the record of an object. After an error it is read again.
func (r *Records) save(ctx context.Context, kind ObjectKind, object client.Object, status v1alpha1.StackStatus) error {
	known, _ := r.recall(kind, object)
	stored := *status.DeepCopy()
	// The object itself has them.
	stored.Conditions = nil
	data, err := json.Marshal(stored)
	if err != nil {
		return fmt.Errorf("encode the record of %s %s: %w", kind.GVK.Kind, object.GetName(), err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.namespace, Name: recordNameOf(object.GetUID()), ResourceVersion: known.version,
			Labels: map[string]string{ownerLabel: string(object.GetUID())},
		},
		Data: map[string][]byte{recordKey: data},
	}
	if known.version == "" {
		err = r.client.Create(ctx, secret, client.FieldOwner(v1alpha1.FieldManager))
	} else {
		err = r.client.Update(ctx, secret, client.FieldOwner(v1alpha1.FieldManager))
	}
	if err != nil {
		r.forget(kind, client.ObjectKeyFromObject(object))
		return fmt.Errorf("write the record of %s %s: %w", kind.GVK.Kind, object.GetName(), err)
	}
	r.remember(kind, object, knownRecord{uid: object.GetUID(), status: stored, version: secret.ResourceVersion})
	return nil
}

// forget drops what is remembered of an object, and nothing that is kept.
func (r *Records) forget(kind ObjectKind, name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, recordName{group: kind.GVK.Group, kind: kind.GVK.Kind, name: name})
}

func (r *Records) recall(kind ObjectKind, object client.Object) (knownRecord, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.known[recordName{group: kind.GVK.Group, kind: kind.GVK.Kind, name: client.ObjectKeyFromObject(object)}]
	return known, ok && known.uid == object.GetUID()
}

func (r *Records) remember(kind ObjectKind, object client.Object, known knownRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[recordName{group: kind.GVK.Group, kind: kind.GVK.Kind, name: client.ObjectKeyFromObject(object)}] = known
}

func recordNameOf(uid types.UID) string { return recordPrefix + shortHash(string(uid)) }
