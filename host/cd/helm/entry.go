package helm

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/caisson-dev/caisson/host/scope"
)

// maxObjects bounds one entry: at some 120 bytes an object, this many fit for the 128
// nodes of the largest tree into the 1.5 MiB that etcd takes, if few are that large.
const maxObjects = 256

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
	// Secrets are the JSON pointers of the values that hold secrets, of this revision and of
	// earlier ones: what the release has there is kept out of logs.
	Secrets []string `json:"secrets,omitempty"`
	// Action is the last action that was begun and not seen to succeed, or nil.
	Action *begun `json:"action,omitempty"`
}

// begun is an action that makes a revision, as it is recorded before Helm stores that
// revision. Only one process of ours runs actions at a time: a pending revision that was
// made by a recorded action, and that this process does not work on, is nobody's.
type begun struct {
	Step     step `json:"step"`
	Revision int  `json:"revision"`
	// Time is when Helm made the revision, as the revision itself has it. A person's helm
	// carries our labels over and may count to the same number, but not at the same instant.
	Time string `json:"time"`
}

// newBegun is an action that is about to make a revision.
func newBegun(s step, revision int, at time.Time) *begun {
	return &begun{Step: s, Revision: revision, Time: instant(at)}
}

// made reports whether a revision is the one that the action was about to store.
func (b *begun) made(r *revision) bool {
	return b != nil && r != nil && b.Revision == r.number && b.Time == instant(r.updated)
}

// instant writes a time in the precision of Helm's records, and the same in every zone.
func instant(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

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

// clone returns a copy that shares nothing with the entry.
func (e entry) clone() entry {
	e.Objects, e.Retained, e.Secrets = slices.Clone(e.Objects), slices.Clone(e.Retained), slices.Clone(e.Secrets)
	if e.Action != nil {
		action := *e.Action
		e.Action = &action
	}
	return e
}

func decodeEntry(raw []byte) (entry, error) {
	var e entry
	if err := json.Unmarshal(raw, &e); err != nil {
		return entry{}, fmt.Errorf("decoding an inventory entry: %w", err)
	}
	return e, nil
}
