package provisioner

import (
	"errors"
	"strings"
	"time"

	"github.com/caisson-dev/caisson/abi"
)

// The sentinels. Compare with errors.Is on the error of a single provisioner only: a
// folded error may be several of them at once, so read it with [OutcomeOf].
var (
	// ErrYield says that there will be progress with nobody acting.
	ErrYield = errors.New("yield")
	// ErrNotFound says that something does not exist; a resolver wraps it to say that
	// its cluster is gone for good.
	ErrNotFound = errors.New("not found")
	// ErrUserActionRequired says that somebody must change something outside the spec.
	ErrUserActionRequired = errors.New("user action required")
	// ErrTerminal says that the spec must change.
	ErrTerminal = errors.New("terminal")
	// ErrShutdown is the cause with which a controller cancels the context of a pass
	// when the process ends. Any other cancellation is a used-up budget.
	ErrShutdown = errors.New("shutting down")
)

// Error is an error that carries what to do about it. Error() contains the why, for
// logs; Reason and Sentence are safe to show to users.
type Error struct {
	disposition abi.Disposition
	reason      string
	sentence    string
	why         string
	retryAfter  time.Duration
	cause       error
}

// Yield says that there will be progress with nobody acting. The reason is a code of
// the closed vocabulary, why is detail for operators.
func Yield(reason, why string) *Error { return newError(abi.Yield, reason, why) }

// Retry says that something failed that may work next time.
func Retry(reason, why string) *Error { return newError(abi.Retry, reason, why) }

// UserActionRequired says that somebody must change something outside the spec.
func UserActionRequired(reason, why string) *Error {
	return newError(abi.UserActionRequired, reason, why)
}

// Terminal says that the spec must change.
func Terminal(reason, why string) *Error { return newError(abi.Terminal, reason, why) }

// New makes an error of any disposition but OK, for code that maps one vocabulary to
// another; an invalid disposition becomes a Retry with the reason unspecified.
func New(d abi.Disposition, reason, why string) *Error {
	if !d.Valid() || d == abi.OK {
		return newError(abi.Retry, abi.ReasonUnspecified, why)
	}
	return newError(d, reason, why)
}

func newError(d abi.Disposition, reason, why string) *Error {
	if !abi.ValidReason(reason) {
		why = strings.TrimSpace("invalid reason " + reason + " " + why)
		reason = abi.ReasonUnspecified
	}
	sentence, ok := abi.HostSentence(reason)
	if !ok {
		sentence, _ = abi.HostSentence(abi.ReasonUnspecified)
	}
	return &Error{disposition: d, reason: reason, sentence: sentence, why: why}
}

// WithSentence returns a copy with another user-facing sentence. It must come from a
// fixed vocabulary, such as a module's manifest, never from an error's text.
func (e *Error) WithSentence(sentence string) *Error {
	c := *e
	c.sentence = sentence
	return &c
}

// WithRetryAfter returns a copy with a hint when to try again.
func (e *Error) WithRetryAfter(d time.Duration) *Error {
	c := *e
	c.retryAfter = d
	return &c
}

// WithCause returns a copy that wraps an error: it is found by errors.Is and As, and
// its text is part of the why.
func (e *Error) WithCause(err error) *Error {
	c := *e
	c.cause = err
	return &c
}

// Disposition is what the controller must do next.
func (e *Error) Disposition() abi.Disposition { return e.disposition }

// Reason is the short code, safe to show to users.
func (e *Error) Reason() string { return e.reason }

// Sentence is the fixed text for the reason, safe to show to users.
func (e *Error) Sentence() string { return e.sentence }

// Why is detail for operators. It belongs into logs only.
func (e *Error) Why() string {
	switch {
	case e.cause == nil:
		return e.why
	case e.why == "":
		return e.cause.Error()
	default:
		return e.why + ": " + e.cause.Error()
	}
}

// RetryAfter is a hint when to try again, or 0.
func (e *Error) RetryAfter() time.Duration { return e.retryAfter }

// Error implements error. The text contains the why.
func (e *Error) Error() string {
	if e == nil {
		return "nil *provisioner.Error"
	}
	text := e.disposition.String() + " (" + e.reason + ")"
	if why := e.Why(); why != "" {
		text += ": " + why
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.cause
}

// Is makes errors.Is find the sentinel of the error's disposition.
func (e *Error) Is(target error) bool {
	if e == nil {
		return false
	}
	switch target {
	case ErrYield:
		return e.disposition == abi.Yield
	case ErrUserActionRequired:
		return e.disposition == abi.UserActionRequired
	case ErrTerminal:
		return e.disposition == abi.Terminal
	default:
		return false
	}
}

// IsTerminal reports whether err parks: nothing will change before somebody acts. It
// is true for Terminal and for UserActionRequired, and false while any part of a
// folded error can still make progress.
func IsTerminal(err error) bool {
	return err != nil && OutcomeOf(err).Parks()
}
