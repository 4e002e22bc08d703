package guest

import (
	"errors"
	"time"

	"github.com/caisson-dev/caisson/abi"
)

// Error is an error that says what the host must do next.
type Error struct {
	disposition abi.Disposition
	reason      string
	why         string
	retryAfter  time.Duration
	cause       error
}

// Yield says that there will be progress without anybody acting. The reason is a code
// of the manifest or of the host's own; users see its fixed sentence. why is detail for
// operators and goes to their log only.
func Yield(reason, why string) *Error { return newError(abi.Yield, reason, why) }

// Retry says that something failed that may work next time.
func Retry(reason, why string) *Error { return newError(abi.Retry, reason, why) }

// UserActionRequired says that somebody must change something outside the config.
func UserActionRequired(reason, why string) *Error {
	return newError(abi.UserActionRequired, reason, why)
}

// Terminal says that the config must change before a call can succeed.
func Terminal(reason, why string) *Error { return newError(abi.Terminal, reason, why) }

func newError(d abi.Disposition, reason, why string) *Error {
	return &Error{disposition: d, reason: reason, why: why}
}

// After returns a copy that hints when to call again, in whole seconds; the host clamps
// it. It means something for Yield and Retry.
func (e *Error) After(d time.Duration) *Error {
	c := *e
	c.retryAfter = d
	return &c
}

// Disposition is what the host must do next.
func (e *Error) Disposition() abi.Disposition { return e.disposition }

// Reason is the code that users are shown the sentence of.
func (e *Error) Reason() string { return e.reason }

// Why is the detail for operators.
func (e *Error) Why() string { return e.why }

// RetryAfter is the hint when to call again, or 0.
func (e *Error) RetryAfter() time.Duration { return e.retryAfter }

// Error implements error with all that there is to say.
func (e *Error) Error() string {
	text := e.disposition.String() + " " + e.reason
	if e.why != "" {
		text += ": " + e.why
	}
	return text
}

// Unwrap returns the [abi.CallError] behind the failure of a host function, or nil.
func (e *Error) Unwrap() error { return e.cause }

// IsAbsent reports whether err says that the object does not exist. It is never true
// for a failure to find out.
func IsAbsent(err error) bool { return HasCode(err, abi.CodeAbsent) }

// IsConflict reports whether err says that somebody else changed or owns what was to be
// written.
func IsConflict(err error) bool { return HasCode(err, abi.CodeConflict) }

// IsDenied reports whether err says that the module's grant does not cover the request.
func IsDenied(err error) bool { return HasCode(err, abi.CodeDenied) }

// HasCode reports whether err is the failure of a host function with this code.
func HasCode(err error, code abi.ErrorCode) bool {
	var ce *abi.CallError
	return errors.As(err, &ce) && ce.Code == code
}

// verdict is the one Error that err amounts to. A wrapped Error keeps its disposition
// and gets the whole text as its why. Of joined errors the most severe counts, so that
// a yield never hides a failure. Anything else is a Retry.
func verdict(err error) *Error {
	if e, ok := err.(*Error); ok { //nolint:errorlint // A wrapped one is found below and keeps its whole text.
		return e
	}
	found := search(err)
	if found == nil {
		return Retry(abi.ReasonUnexpected, err.Error())
	}
	c := *found
	c.why = err.Error()
	return &c
}

// search walks the tree of errors by hand, because errors.As would take the first of
// several that are joined.
func search(err error) *Error {
	if e, ok := err.(*Error); ok { //nolint:errorlint // This is the walk.
		return e
	}
	switch wrapped := err.(type) { //nolint:errorlint // This is the walk.
	case interface{ Unwrap() error }:
		if inner := wrapped.Unwrap(); inner != nil {
			return search(inner)
		}
	case interface{ Unwrap() []error }:
		var worst *Error
		for _, inner := range wrapped.Unwrap() {
			if e := verdict(inner); worst == nil || e.disposition > worst.disposition {
				worst = e
			}
		}
		return worst
	}
	return nil
}
