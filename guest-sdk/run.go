package guest

import (
	"time"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/guest-sdk/internal/wire"
)

// Run runs one export of p natively: the JSON of an [abi.Input] in, the disposition and
// the JSON of an [abi.Output] out, exactly as a host sees them. Tests use it through
// package guesttest. A panic of a handler comes through.
func Run(p Program, operation string, envelope []byte, host Host) (abi.Disposition, []byte) {
	call, err := newCall(operation, envelope, host)
	if err == nil {
		err = p.handle(call)
	}
	return call.conclude(err)
}

// conclude turns what a handler returned into the answer of the export. Facts and state
// go along with every disposition: progress that was made is worth keeping.
func (c *Call) conclude(err error) (abi.Disposition, []byte) {
	d := abi.OK
	if err != nil {
		e := verdict(err)
		d = e.disposition
		c.output.Reason = e.reason
		c.output.Why = e.why
		c.output.RetryAfterSeconds = wholeSeconds(e.retryAfter)
	}
	// Facts and state are JSON that this package encoded, so this cannot fail.
	out, _ := wire.EncodeOutput(&c.output)
	return d, out
}

// wholeSeconds rounds up, so that a hint of half a second does not mean "no hint".
func wholeSeconds(d time.Duration) int {
	if d <= 0 {
		return 0
	}
	return int((d + time.Second - 1) / time.Second)
}
