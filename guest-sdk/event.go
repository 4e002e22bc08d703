package guest

import (
	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/guest-sdk/internal/wire"
)

// EventType is the type of a Kubernetes event.
type EventType string

// The event types.
const (
	Normal  EventType = "Normal"
	Warning EventType = "Warning"
)

// Event records an event on the owner for something that happened. The reason is a code
// of the manifest or of the host's own; its sentence is the event's text. A failure is
// seldom worth more than a line in the log. Capability: event.
func (c *Call) Event(kind EventType, reason string) error {
	body := wire.EncodeEvent(&abi.EventRequest{Type: string(kind), Reason: reason})
	_, err := exchange(c, abi.Event, eventRecord, body, wire.DecodeEvent)
	return err
}
