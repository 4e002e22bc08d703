package abi

import "encoding/json"

// Input is the envelope that the host passes to provision and deprovision as the
// Extism input. Absent optional fields are omitted, never null.
type Input struct {
	// ABI is the version that the host speaks.
	ABI int `json:"abi"`
	// Operation is [ExportProvision] or [ExportDeprovision].
	Operation string `json:"operation"`
	// Node is where in its tree the module stands.
	Node Node `json:"node"`
	// Owner is the object that is being reconciled.
	Owner Owner `json:"owner"`
	// Config is what the node passes, already evaluated; {} when it passes nothing.
	Config json.RawMessage `json:"config"`
	// Facts are what earlier nodes published, by fact name.
	Facts map[string]json.RawMessage `json:"facts,omitempty"`
	// State is what the last call of this node left, or absent.
	State json.RawMessage `json:"state,omitempty"`
	// GenerationState is the same for one generation of the owner: the host drops it when
	// the owner's spec changes.
	GenerationState json.RawMessage `json:"generationState,omitempty"`
	// StickyState is the same until somebody asks for a retry: the host drops it then, and
	// not when the owner's spec changes.
	StickyState json.RawMessage `json:"stickyState,omitempty"`
	// Scope is the cluster that the module acts on.
	Scope Scope `json:"scope"`
	// Teardown says how a deprovision is to remove what was made.
	Teardown Teardown `json:"teardown"`
	// Installed says whether the driver knows an application of this node.
	Installed bool `json:"installed"`
	// Capabilities are the host functions that will not answer "denied".
	Capabilities []Function `json:"capabilities,omitempty"`
	// Now is the host's clock at the start of the call, RFC 3339 in UTC.
	Now string `json:"now"`
	// DeadlineMillis is how many milliseconds the call may take from its start.
	DeadlineMillis int64 `json:"deadlineMillis"`
}

// Node is a module's place in its tree.
type Node struct {
	// Name is the node's name in the Stack.
	Name string `json:"name"`
	// Path is the names from the root to the node, joined by slashes.
	Path string `json:"path"`
}

// Owner identifies the object whose tree is run.
type Owner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Generation int64  `json:"generation"`
}

// ScopeState says whether the scope's cluster can be used.
type ScopeState string

// The scope states.
const (
	// ScopeReady says that the cluster answers.
	ScopeReady ScopeState = "ready"
	// ScopePending says that the cluster is not there yet, or cannot be reached.
	ScopePending ScopeState = "pending"
	// ScopeGone says that the cluster is gone for good; there is nothing to call.
	ScopeGone ScopeState = "gone"
)

// Scope describes the cluster that a module acts on, without its credentials.
type Scope struct {
	// ID is a stable identifier; "home" is the cluster that the host runs on.
	ID string `json:"id"`
	// Remote is false for the host's own cluster.
	Remote bool `json:"remote"`
	// Host and Port are the address of the cluster's API as a client outside it sees
	// it; empty and 0 for home.
	Host string `json:"host,omitempty"`
	Port int    `json:"port,omitempty"`
	// State says whether the cluster can be used; always ready in a provision.
	State ScopeState `json:"state"`
}

// Teardown is how the children of a remote are removed.
type Teardown string

// The teardown policies.
const (
	// Drain waits until each thing is gone.
	Drain Teardown = "Drain"
	// Discard does not wait, because the cluster goes anyway.
	Discard Teardown = "Discard"
	// Orphan leaves the workloads.
	Orphan Teardown = "Orphan"
)

// Output is what a module writes as its Extism output. An empty output is the same
// as {}.
type Output struct {
	// Reason explains every disposition but OK: a code of the manifest, or of the
	// host's own table.
	Reason string `json:"reason,omitempty"`
	// Why is detail for operators. It goes to the log and nowhere else.
	Why string `json:"why,omitempty"`
	// RetryAfterSeconds hints when to call again after Yield or Retry; the host
	// clamps it. 0 leaves it to the host.
	RetryAfterSeconds int `json:"retryAfterSeconds,omitempty"`
	// Facts are published to later nodes under their names.
	Facts map[string]json.RawMessage `json:"facts,omitempty"`
	// State replaces what the host keeps for the next call; absent keeps it as it is,
	// null drops it.
	State json.RawMessage `json:"state,omitempty"`
	// GenerationState and StickyState do so for what the host drops by itself; see [Input].
	GenerationState json.RawMessage `json:"generationState,omitempty"`
	StickyState     json.RawMessage `json:"stickyState,omitempty"`
}
