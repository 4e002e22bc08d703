package guesttest

import (
	"encoding/json"
	"time"

	"github.com/caisson-dev/caisson/abi"
)

// Result is what a call came to.
type Result struct {
	Disposition abi.Disposition
	Reason      string
	Why         string
	RetryAfter  time.Duration
	// Facts are what this call published.
	Facts map[string]json.RawMessage
	// State, GenerationState and StickyState are what is kept for the next call.
	State, GenerationState, StickyState json.RawMessage
	// Calls are the host functions that the module called, in order.
	Calls []Exchange
}

// Exchange is one call of a host function.
type Exchange struct {
	Function abi.Function
	Request  json.RawMessage
	Response json.RawMessage
}

func newResult(d abi.Disposition, out *abi.Output, kept states) Result {
	return Result{
		Disposition: d, Reason: out.Reason, Why: out.Why, Facts: out.Facts,
		State: kept.state, GenerationState: kept.generation, StickyState: kept.sticky,
		RetryAfter: time.Duration(out.RetryAfterSeconds) * time.Second,
	}
}

// String is "OK", or the disposition and the reason: "Yield awaiting_address".
func (r Result) String() string {
	if r.Disposition == abi.OK {
		return r.Disposition.String()
	}
	return r.Disposition.String() + " " + r.Reason
}
