package module

import (
	"context"

	"github.com/caisson-dev/caisson/abi"
)

// maxEvents bounds the events of one call; the API server drops bursts anyway.
const maxEvents = 16

// event records an event on the owner. Its text is the fixed sentence of the reason.
func event(ctx context.Context, s *session, r *abi.EventRequest) (*abi.EventResult, *abi.CallError) {
	if s.node.options.Events == nil {
		return nil, fail(abi.CodeUnsupported, "this host records no events")
	}
	if r.Type != "Normal" && r.Type != "Warning" {
		return nil, fail(abi.CodeInvalid, "type: %q is neither Normal nor Warning", clip(r.Type))
	}
	sentence, ok := s.instance.Manifest.Sentence(r.Reason)
	if _, own := abi.HostSentence(r.Reason); own {
		sentence, ok = abi.GivenSentence(r.Reason)
	}
	if !ok {
		return nil, fail(abi.CodeInvalid, "reason: %q is not declared", clip(r.Reason))
	}
	if !s.noteEvent() {
		return nil, fail(abi.CodeTooLarge, "a call can record %d events and no more", maxEvents)
	}
	s.node.options.Events.RecordEvent(ctx, Event{
		Owner: s.scope.Owner(), Node: s.node.options.Node, Type: r.Type, Reason: r.Reason, Sentence: sentence,
	})
	return &abi.EventResult{}, nil
}
