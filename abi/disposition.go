package abi

import "strconv"

// Disposition is the result of a call: what the host must do next.
type Disposition int32

// The dispositions. The numbers are part of the ABI: they travel as the i32 that
// an export returns. A host treats any other number as [Retry].
const (
	// OK says that the desired state has been observed.
	OK Disposition = 0
	// Yield says that there will be progress without anybody acting; call again.
	Yield Disposition = 1
	// Retry says that something failed that may work next time; call again, later.
	Retry Disposition = 2
	// UserActionRequired says that a person or another system must change something
	// outside the module's own input.
	UserActionRequired Disposition = 3
	// Terminal says that the input itself must change before a call can succeed.
	Terminal Disposition = 4
)

// Valid reports whether d is one of the five dispositions of this version.
func (d Disposition) Valid() bool { return d >= OK && d <= Terminal }

// String returns the name that the API uses for d, for instance in the status of
// a Stack; an unknown number reads "Disposition(7)".
func (d Disposition) String() string {
	switch d {
	case OK:
		return "OK"
	case Yield:
		return "Yield"
	case Retry:
		return "Retry"
	case UserActionRequired:
		return "UserActionRequired"
	case Terminal:
		return "Terminal"
	default:
		return "Disposition(" + strconv.Itoa(int(d)) + ")"
	}
}
