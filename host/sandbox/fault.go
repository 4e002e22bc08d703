package sandbox

import (
	"context"
	"fmt"
	"strings"

	"github.com/caisson-dev/caisson/abi"
)

// FaultKind classifies a call that gave no result.
type FaultKind string

// The kinds of faults.
const (
	// FaultTimeout says that the call was not over in time; its worker was killed.
	FaultTimeout FaultKind = "timeout"
	// FaultCPU says that the call computed for too long; its worker was killed.
	FaultCPU FaultKind = "cpu"
	// FaultMemory says that the guest, or the worker because of it, ran out of memory.
	FaultMemory FaultKind = "memory"
	// FaultTable says that the guest was refused a larger table and then trapped.
	FaultTable FaultKind = "table"
	// FaultInput says that the input is over its limit; the guest was not called.
	FaultInput FaultKind = "input"
	// FaultOutput says that the output is over its limit.
	FaultOutput FaultKind = "output"
	// FaultHostCalls says that the guest went on calling host functions, or trapped, after
	// it had been told that it has used up their number.
	FaultHostCalls FaultKind = "host-calls"
	// FaultHostBytes says the same of the size of all requests and responses together.
	FaultHostBytes FaultKind = "host-bytes"
	// FaultTrap says that the guest trapped, panicked or exited.
	FaultTrap FaultKind = "trap"
	// FaultCrash says that the worker died or broke the protocol.
	FaultCrash FaultKind = "crash"
)

// Fault is a call that gave no result because of the module. A caller maps it by
// [Fault.Reason]; its text is for operators and goes to the log only, since a guest
// has a say in it.
type Fault struct {
	// Kind says what happened.
	Kind FaultKind
	// Digest and Export say in what.
	Digest string
	Export string
	// Limit and Got are the two numbers of a limit that was hit: milliseconds for
	// FaultTimeout and FaultCPU, calls for FaultHostCalls, elements for FaultTable, bytes
	// otherwise. Got is 0 where
	// nobody can know it.
	Limit, Got int64
	// Detail says what happened, in one line.
	Detail string
	// GuestError is what the guest had given to Extism's error_set before, or empty.
	GuestError string
	// Stderr is the last lines that the guest wrote to standard error.
	Stderr []string

	trap    string
	crashed bool
}

// Error implements error.
func (f *Fault) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "module %s: %s of %s: %s", f.Digest, f.Kind, f.Export, f.Detail)
	switch {
	case f.Limit == 0:
	case f.Got == 0:
		fmt.Fprintf(&b, " (the limit is %d %s)", f.Limit, f.Kind.unit())
	default:
		fmt.Fprintf(&b, " (%d %s, the limit is %d)", f.Got, f.Kind.unit(), f.Limit)
	}
	if f.GuestError != "" {
		b.WriteString(": " + f.GuestError)
	}
	return b.String()
}

// unit is what the numbers of a fault count.
func (k FaultKind) unit() string {
	switch k {
	case FaultTimeout:
		return "ms"
	case FaultCPU:
		return "ms of processor time"
	case FaultHostCalls:
		return "calls"
	case FaultTable:
		return "elements"
	default:
		return "bytes"
	}
}

// Reason returns the reason of the ABI that users are shown.
func (f *Fault) Reason() string {
	switch f.Kind {
	case FaultTimeout:
		return abi.ReasonTimeout
	case FaultCPU:
		return abi.ReasonCPUExceeded
	case FaultHostCalls:
		return abi.ReasonHostCallsExceeded
	case FaultHostBytes:
		return abi.ReasonHostBytesExceeded
	case FaultMemory:
		return abi.ReasonMemoryExceeded
	case FaultTable:
		return abi.ReasonTableExceeded
	case FaultOutput:
		return abi.ReasonOutputTooLarge
	case FaultTrap:
		return abi.ReasonModuleTrap
	case FaultCrash:
		return abi.ReasonModuleCrashed
	case FaultInput:
		return abi.ReasonInputTooLarge
	default:
		return abi.ReasonUnexpected
	}
}

// Trap identifies a trap: equal texts of one module mean the same fault at the same
// place in its code. It is empty for faults of other kinds.
func (f *Fault) Trap() string { return f.trap }

// Crashed reports whether the worker died by itself or had to be put down for
// breaking the protocol. A deadline that was missed is no crash.
func (f *Fault) Crashed() bool { return f.crashed }

// Unwrap makes a timeout recognisable as [context.DeadlineExceeded].
func (f *Fault) Unwrap() error {
	if f.Kind == FaultTimeout {
		return context.DeadlineExceeded
	}
	return nil
}
