package guesttest

import (
	"encoding/json"

	"github.com/caisson-dev/caisson/abi"
)

// maxStates is what a host keeps for a node: SPEC.md §10.
const maxStates = 64 << 10

// states are the documents that a host keeps for a node.
type states struct{ state, generation, sticky json.RawMessage }

// keep takes over what an answer brought. A deprovision that answered OK ends them all.
func (s *states) keep(operation string, d abi.Disposition, out *abi.Output) {
	if operation == abi.ExportDeprovision && d == abi.OK {
		*s = states{}
		return
	}
	replace(&s.state, out.State)
	replace(&s.generation, out.GenerationState)
	replace(&s.sticky, out.StickyState)
}

func (s *states) size() int { return len(s.state) + len(s.generation) + len(s.sticky) }

func replace(kept *json.RawMessage, next json.RawMessage) {
	switch {
	case len(next) == 0:
	case string(next) == "null":
		*kept = nil
	default:
		*kept = next
	}
}

// Edit is what an edit of the owner's spec does: its generation grows, and what the module
// left for the generation is dropped.
func (h *Harness) Edit() {
	h.trace.notef("the spec is edited")
	h.template.Owner.Generation++
	h.kept.generation = nil
}

// Retry is what a person's asking for a retry does: what the module left until then is
// dropped.
func (h *Harness) Retry() {
	h.trace.notef("a retry is asked for")
	h.kept.sticky = nil
}

// State is what the module left for the next call, or nil.
func (h *Harness) State() json.RawMessage { return h.kept.state }

// GenerationState is what it left for the generation, or nil.
func (h *Harness) GenerationState() json.RawMessage { return h.kept.generation }

// StickyState is what it left until a retry is asked for, or nil.
func (h *Harness) StickyState() json.RawMessage { return h.kept.sticky }
