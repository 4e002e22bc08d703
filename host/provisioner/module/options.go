package module

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/capability"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/application"
	"github.com/caisson-dev/caisson/host/scope"
)

// Limits are those limits of one call that the leaf acts by or tells the guest of. The
// runtime enforces them, and has more. A field that is 0 is that of [DefaultLimits].
type Limits struct {
	// Timeout is the time of one call from when the guest begins.
	Timeout time.Duration
	// OutputBytes caps the output, HostCallBytes a request and a response of a host
	// function, each.
	OutputBytes, HostCallBytes int
	// HostCalls is how many host functions a call may use.
	HostCalls int
	// Concurrency is how many calls may be under way at a time; 0 leaves it to the host.
	Concurrency int
}

// DefaultLimits returns the limits of modules for which nobody says otherwise; see
// abi/SPEC.md.
func DefaultLimits() Limits {
	return Limits{
		// Far more than computing values takes, and short enough that a hanging module does
		// not hold a pass for long.
		Timeout:     30 * time.Second,
		OutputBytes: 4 << 20, HostCallBytes: 4 << 20, HostCalls: 1000,
	}
}

// orDefaults fills in what is 0.
func (l Limits) orDefaults() Limits {
	d := DefaultLimits()
	return Limits{
		Timeout: cmp.Or(max(l.Timeout, 0), d.Timeout), OutputBytes: cmp.Or(l.OutputBytes, d.OutputBytes),
		HostCallBytes: cmp.Or(l.HostCallBytes, d.HostCallBytes), HostCalls: cmp.Or(l.HostCalls, d.HostCalls),
		Concurrency: l.Concurrency,
	}
}

// Runtime runs a guest. Implementations must be safe for concurrent use.
type Runtime interface {
	// Call runs an export in a state that no other call has touched, with host answering
	// its host functions, and returns the export's result and output. tenant names whom it
	// is for: what has served one tenant never serves another. It must return soon after
	// the context ends, and bounds the call by the limits of the module, whose time runs from
	// when the guest begins and not while it waits for its turn. An error is a fault of the guest or of what runs it; one with a
	// Reason() string says which, with a reason of package abi.
	Call(ctx context.Context, tenant, export string, input []byte, host func(ctx context.Context, name string, request []byte) []byte) (int32, []byte, error)
}

// Instance is a loaded module with what it may do.
type Instance struct {
	// Name is that of the Module object.
	Name string
	// Digest identifies the artifact.
	Digest string
	// Manifest has passed its Validate and capability.Check.
	Manifest abi.Manifest
	// Grant is the admin's.
	Grant capability.Grant
	// Runtime runs the module.
	Runtime Runtime
	// Limits are those that the runtime holds the guest to.
	Limits Limits
}

// Facts are what the nodes of a tree tell each other. It must be safe for concurrent use.
type Facts interface {
	// Snapshot returns all facts by name. The caller does not change the map.
	Snapshot() map[string]json.RawMessage
	// Publish sets facts of a node. It is called again with equal facts in every pass.
	Publish(ctx context.Context, node string, facts map[string]json.RawMessage) error
}

// Kept is what the host keeps of a node between calls: JSON documents that differ in what
// drops them. nil is none.
type Kept struct {
	// State is dropped by the module alone.
	State json.RawMessage
	// Generation is dropped when the owner has another generation.
	Generation json.RawMessage
	// Sticky is dropped when a retry is asked for.
	Sticky json.RawMessage
}

// Empty reports whether there is nothing.
func (k Kept) Empty() bool { return k.State == nil && k.Generation == nil && k.Sticky == nil }

// State keeps documents for each node between calls.
type State interface {
	// Load returns what was saved for the node's path and is not dropped since.
	Load(ctx context.Context, path string) (Kept, error)
	// Save replaces it, so that an empty one drops everything. It is only called with
	// something that differs.
	Save(ctx context.Context, path string, kept Kept) error
}

// Event is an event on the owner. Its text is a fixed sentence, never a guest's.
type Event struct {
	Owner scope.Owner
	Node  abi.Node
	// Type is Normal or Warning.
	Type string
	// Reason and Sentence are out of the manifest, or of the host's own table.
	Reason   string
	Sentence string
}

// EventRecorder emits events. It must be safe for concurrent use and must not block.
type EventRecorder interface {
	RecordEvent(ctx context.Context, e Event)
}

// EventRecorderFunc adapts a function to [EventRecorder].
type EventRecorderFunc func(ctx context.Context, e Event)

// RecordEvent implements EventRecorder.
func (f EventRecorderFunc) RecordEvent(ctx context.Context, e Event) { f(ctx, e) }

var _ EventRecorder = EventRecorderFunc(nil)

// Options say what a leaf runs, and with what. Instance and Driver must be set.
type Options struct {
	// Node is the place in the tree.
	Node abi.Node
	// ID identifies the node; the identities of its applications are derived from it.
	ID scope.ResourceIdentifier
	// Instance returns the module. Its errors are returned as they are by Provision; see
	// [Provisioner.Deprovision] for what they mean there.
	Instance func(ctx context.Context) (*Instance, error)
	// Config returns the evaluated config as a JSON object; nil means that there is none.
	Config func(ctx context.Context) (json.RawMessage, error)
	// Driver installs applications.
	Driver cd.Applications
	// Facts, State, Inputs and Events may be nil: nothing is then kept or recorded.
	Facts  Facts
	State  State
	Inputs provisioner.InputRecorder
	Events EventRecorder
	// Catalogue resolves the catalogue entries that a module names; without it such a
	// request is answered as unsupported.
	Catalogue application.Catalogue
	// Abandoned is called when a deprovision goes on without the module having come to an
	// end: its cluster is gone, and for half an hour it has answered anything but OK. If it
	// is nil, or without a Memo, the module is waited for.
	Abandoned func()
	// Memo saves calls and counts traps; without it every pass calls the module.
	Memo *Memo
	// Clock is time.Now if nil.
	Clock func() time.Time
	// SecretKey keys the digests of secrets, with at least 16 bytes that only the host
	// knows and that do not change between passes. Without it secret_read is unsupported.
	SecretKey []byte
}
