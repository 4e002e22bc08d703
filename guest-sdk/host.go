package guest

import (
	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/guest-sdk/internal/wire"
)

// Host stands in for the host where a module runs natively; see package guesttest. In
// WebAssembly the imports take its place, each bound by itself, so that a module imports
// nothing that it does not call.
type Host interface {
	// Call answers a host function: the JSON of a request in, of an [abi.Response] out.
	Call(f abi.Function, request []byte) (response []byte)
	// Log takes one line.
	Log(level Level, line string)
}

// binding is one imported host function.
type binding func(request []byte) (response []byte)

// exchange calls a host function and decodes its result. A failure that the host
// answers comes back as an [Error] that wraps the [abi.CallError].
func exchange[R any](c *Call, f abi.Function, imported binding, body []byte, decode func(wire.Value) (R, error)) (R, error) {
	var none R
	var raw []byte
	if c.host != nil {
		raw = c.host.Call(f, body)
	} else {
		raw = imported(body)
	}
	response, err := wire.DecodeResponse(raw)
	if err != nil {
		return none, Retry(abi.ReasonUnexpected, string(f)+": decode the host's answer: "+err.Error())
	}
	if response.Error != nil {
		return none, c.failure(f, response.Error)
	}
	// An empty answer must not pass for an application that is ready.
	if response.Result.Kind() <= wire.KindNull {
		return none, Retry(abi.ReasonUnexpected, string(f)+": the host answered neither a result nor an error")
	}
	result, err := decode(response.Result)
	if err != nil {
		return none, Retry(abi.ReasonUnexpected, string(f)+": decode the host's answer: "+err.Error())
	}
	return result, nil
}

// failure gives the failure of a host function the disposition and reason that a module
// without an opinion of its own should return.
func (c *Call) failure(f abi.Function, ce *abi.CallError) *Error {
	d, reason := abi.Retry, abi.ReasonUnexpected
	switch ce.Code {
	case abi.CodeAbsent:
		d, reason = abi.Yield, abi.ReasonAwaitingDependency
		if f == abi.SecretRead {
			d, reason = abi.UserActionRequired, abi.ReasonSecretMissing
		}
	case abi.CodeDenied:
		d, reason = abi.UserActionRequired, abi.ReasonNotGranted
	case abi.CodeForbidden:
		d, reason = abi.UserActionRequired, abi.ReasonForbidden
	case abi.CodeConflict, abi.CodeInvalid, abi.CodeTooLarge, abi.CodeUnavailable, abi.CodeUnsupported:
		// A Retry: none of them is for a user to mend, and the log has the message.
	}
	return &Error{disposition: d, reason: reason, why: string(f) + ": " + ce.Error(), cause: ce}
}
