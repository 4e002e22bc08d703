package module

import (
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

// session is what the host keeps of one call of a module, or of one replay.
type session struct {
	node     *Provisioner
	scope    scope.Scope
	instance *Instance
	limits   Limits
	secrets  *secretStore

	mu        sync.Mutex
	closed    bool
	calls     int
	events    int
	unwatched bool
	ensures   bool
	trace     []appCall
	traced    int
	overflow  bool
	verdicts  map[string]verdict
	inputs    []provisioner.Input
}

// verdict is what the driver said beside the reason that the module was told.
type verdict struct {
	why        string
	retryAfter time.Duration
}

func (p *Provisioner) newSession(s scope.Scope, instance *Instance, secrets *secretStore) *session {
	return &session{node: p, scope: s, instance: instance, limits: instance.Limits.orDefaults(), secrets: secrets, verdicts: map[string]verdict{}}
}

// close ends the session: a host function that comes later is refused, and one that is
// still running leaves no trace.
func (s *session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// admit counts a call of a host function and reports why it is not to be answered.
func (s *session) admit() *abi.CallError {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fail(abi.CodeUnavailable, "the call has ended")
	}
	s.calls++
	if s.calls > s.limits.HostCalls {
		return fail(abi.CodeTooLarge, "host function call %d, and %d are allowed", s.calls, s.limits.HostCalls)
	}
	return nil
}

func (s *session) noteCall(f abi.Function, request []byte, digest [sha256.Size]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		// A call whose answer may have come too late for the module is not part of what
		// the module decided on.
		return
	}
	s.traced += len(request)
	if len(s.trace) == maxReplayCalls || s.traced > maxReplayBytes {
		s.overflow = true
		s.trace = nil
		return
	}
	s.trace = append(s.trace, appCall{function: f, request: slices.Clone(request), digest: digest})
}

func (s *session) noteVerdict(reason string, v verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.verdicts[reason] = v
	}
}

func (s *session) noteInput(input provisioner.Input) {
	s.mu.Lock()
	s.inputs = append(s.inputs, input)
	s.mu.Unlock()
	if s.node.options.Inputs != nil {
		s.node.options.Inputs.RecordInput(input)
	}
}

// noteUnwatched notes that the module knows something that no watch would tell it again.
func (s *session) noteUnwatched() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unwatched = true
}

func (s *session) noteEnsure() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ensures = true
}

// noteEvent reports whether there is room for one more event.
func (s *session) noteEvent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events++
	return s.events <= maxEvents
}

// verdict returns what the driver last said with that reason.
func (s *session) verdict(reason string) (verdict, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.verdicts[reason]
	return v, ok
}

func (s *session) ensured() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ensures
}

func (s *session) knowsUnwatched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unwatched
}

func (s *session) readSecrets() []provisioner.Input {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.inputs)
}

// replayable returns the app_* calls in order, and whether all of them are there.
func (s *session) replayable() ([]appCall, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trace, !s.overflow
}
