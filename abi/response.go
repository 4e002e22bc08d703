package abi

import "encoding/json"

// Response wraps the answer of every host function: exactly one field is set.
type Response struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  *CallError      `json:"error,omitempty"`
}

// ErrorCode classifies a failed host function. Host functions never trap for any of
// these: a module decides what to make of them.
type ErrorCode string

// The error codes. A guest treats one that it does not know as [CodeUnavailable].
const (
	// CodeInvalid says that the request is malformed; calling again will not help.
	CodeInvalid ErrorCode = "invalid"
	// CodeDenied says that the grant does not cover the request.
	CodeDenied ErrorCode = "denied"
	// CodeForbidden says that the API server refused the tenant's identity.
	CodeForbidden ErrorCode = "forbidden"
	// CodeAbsent says that the object does not exist; it is never used for a failure
	// to find out.
	CodeAbsent ErrorCode = "absent"
	// CodeConflict says that somebody else changed or owns what was written.
	CodeConflict ErrorCode = "conflict"
	// CodeTooLarge says that an answer or a request is over its limit.
	CodeTooLarge ErrorCode = "too_large"
	// CodeUnavailable says that the cluster could not be asked; try again later.
	CodeUnavailable ErrorCode = "unavailable"
	// CodeUnsupported says that this host does not implement the request.
	CodeUnsupported ErrorCode = "unsupported"
)

// CallError is the failure of a host function.
type CallError struct {
	Code ErrorCode `json:"code"`
	// Message is for the module's log, never for users, and holds no secret.
	Message string `json:"message,omitempty"`
}

// Error implements error.
func (e *CallError) Error() string {
	if e.Message == "" {
		return string(e.Code)
	}
	return string(e.Code) + ": " + e.Message
}
