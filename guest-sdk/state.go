package guest

import (
	"encoding/json"
	"errors"
)

// A module forgets everything between two calls. What it wants to know again it leaves
// with the host, in one of three documents that differ in what drops them:
//
//   - State is dropped by the module alone. It is for what must not be forgotten, such as
//     the name of something that the module made.
//   - GenerationState is dropped when the owner's spec changes, a deletion included. It is
//     for counting attempts that an edit makes new.
//   - StickyState is dropped when a person asks for a retry. It is for counting attempts
//     that an edit does not make new.
//
// All of them go with the node, and a deprovision that returns nil ends the node's. They
// may have 64 KiB together. The host keeps them out of users' sight; secrets do not belong
// into them all the same.

// State decodes what the last call of this node left, and reports whether it left
// anything. It fails if that has another shape, for instance after an upgrade of the
// module; into may then be half filled.
func (c *Call) State(into any) (bool, error) { return decodeState("state", c.input.State, into) }

// StateDoc is like [Call.State], for reading what was left without decoding it; it is
// absent if nothing was.
func (c *Call) StateDoc() Doc { return parseDoc("state", c.input.State) }

// SetState leaves a value for the next call of this node, in place of the last one,
// whatever the handler returns. The value is of a type that [Values] lists, or in a
// [Module] any that encoding/json takes; it fails for others.
func (c *Call) SetState(value any) error { return c.encodeState("state", &c.output.State, value) }

// DropState makes the host forget what the last call left.
func (c *Call) DropState() { c.output.State = dropped() }

// GenerationState is like [Call.State], for what the host drops when the owner's spec
// changes.
func (c *Call) GenerationState(into any) (bool, error) {
	return decodeState("generation state", c.input.GenerationState, into)
}

// GenerationStateDoc is like [Call.StateDoc].
func (c *Call) GenerationStateDoc() Doc { return parseDoc("generationState", c.input.GenerationState) }

// SetGenerationState is like [Call.SetState].
func (c *Call) SetGenerationState(value any) error {
	return c.encodeState("generation state", &c.output.GenerationState, value)
}

// DropGenerationState is like [Call.DropState].
func (c *Call) DropGenerationState() { c.output.GenerationState = dropped() }

// StickyState is like [Call.State], for what the host drops when a person asks for a
// retry.
func (c *Call) StickyState(into any) (bool, error) {
	return decodeState("sticky state", c.input.StickyState, into)
}

// StickyStateDoc is like [Call.StateDoc].
func (c *Call) StickyStateDoc() Doc { return parseDoc("stickyState", c.input.StickyState) }

// SetStickyState is like [Call.SetState].
func (c *Call) SetStickyState(value any) error {
	return c.encodeState("sticky state", &c.output.StickyState, value)
}

// DropStickyState is like [Call.DropState].
func (c *Call) DropStickyState() { c.output.StickyState = dropped() }

func decodeState(what string, raw json.RawMessage, into any) (bool, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return false, nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return false, errors.New("decode the " + what + ": " + err.Error())
	}
	return true, nil
}

func (c *Call) encodeState(what string, into *json.RawMessage, value any) error {
	raw, err := encode(value, c.marshal)
	if err != nil {
		return errors.New("encode the " + what + ": " + err.Error())
	}
	*into = raw
	return nil
}

// dropped is how an output says that a document is to be forgotten.
func dropped() json.RawMessage { return json.RawMessage("null") }
