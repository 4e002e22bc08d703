package abi

import "encoding/json"

// KubeScope says which cluster a request means.
type KubeScope string

// The scopes of a request.
const (
	// ScopeCurrent is the cluster that the module acts on; the default.
	ScopeCurrent KubeScope = "current"
	// ScopeHome is the cluster that the host runs on.
	ScopeHome KubeScope = "home"
)

// ObjectRef names a kind, and for single-object requests an object.
type ObjectRef struct {
	Scope      KubeScope `json:"scope,omitempty"`
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Namespace  string    `json:"namespace,omitempty"`
	Name       string    `json:"name,omitempty"`
}

// KubeGetRequest is the request of kube_get.
type KubeGetRequest struct {
	ObjectRef
}

// KubeGetResult carries the object without its managedFields.
type KubeGetResult struct {
	Object json.RawMessage `json:"object"`
}

// KubeListRequest is the request of kube_list.
type KubeListRequest struct {
	ObjectRef
	// LabelSelector is in the syntax of kubectl -l.
	LabelSelector string `json:"labelSelector,omitempty"`
	// Limit is the page size, 1 to 500; 0 means 100.
	Limit int `json:"limit,omitempty"`
	// Continue is the cursor of the last page, or empty.
	Continue string `json:"continue,omitempty"`
}

// KubeListResult is one page.
type KubeListResult struct {
	Items    []json.RawMessage `json:"items"`
	Continue string            `json:"continue,omitempty"`
}

// KubeApplyRequest is the request of kube_apply: a server-side apply with the
// host's field manager. The object must be named.
type KubeApplyRequest struct {
	Scope  KubeScope       `json:"scope,omitempty"`
	Object json.RawMessage `json:"object"`
}

// KubeApplyResult carries the object as it is after the apply.
type KubeApplyResult struct {
	Object json.RawMessage `json:"object"`
}

// KubeDeleteRequest is the request of kube_delete.
type KubeDeleteRequest struct {
	ObjectRef
	// UID, if set, must match.
	UID string `json:"uid,omitempty"`
}

// KubeDeleteResult says whether the object is gone; false means that its deletion
// was triggered or is under way.
type KubeDeleteResult struct {
	Gone bool `json:"gone"`
}

// Encoding says how a secret's bytes are to be written where its handle stands.
type Encoding string

// The encodings.
const (
	// EncodingText substitutes the bytes as UTF-8 text.
	EncodingText Encoding = ""
	// EncodingBase64 substitutes standard base64.
	EncodingBase64 Encoding = "base64"
)

// SecretReadRequest is the request of secret_read.
type SecretReadRequest struct {
	Scope     KubeScope `json:"scope,omitempty"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	Key       string    `json:"key"`
	Encoding  Encoding  `json:"encoding,omitempty"`
	// Raw asks for the bytes themselves, which needs a grant of its own.
	Raw bool `json:"raw,omitempty"`
}

// SecretReadResult answers with a handle, or with the bytes where Raw was granted.
type SecretReadResult struct {
	// Handle stands for the secret inside the values of this call's applications; the
	// host replaces it just before the driver renders. It is void after the call.
	Handle string `json:"handle,omitempty"`
	// Digest is keyed by the host and stable for equal bytes: fit for an annotation
	// that rolls pods when the secret changes.
	Digest string `json:"digest"`
	// Value is the secret, base64 in JSON; only with Raw.
	Value []byte `json:"value,omitempty"`
}

// EventRequest is the request of event: a Kubernetes event on the owner.
type EventRequest struct {
	// Type is Normal or Warning.
	Type string `json:"type"`
	// Reason is a code of the manifest, or of the host's own table; its sentence is
	// the event's text.
	Reason string `json:"reason"`
}

// EventResult is empty.
type EventResult struct{}
