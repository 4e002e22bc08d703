package sandbox

import (
	"context"
	"fmt"

	"github.com/caisson-dev/caisson/abi"
)

// overtime is how many host functions a guest may call, in vain, after it has been told
// that it has used up its budget: enough to leave in good order, and far too few to keep
// the host busy.
const overtime = 16

// budget is what one call has used of the limits on host functions.
type budget struct {
	calls int
	bytes int64
	// kind is the first limit that was hit, or empty; limit and got are its numbers.
	kind       FaultKind
	limit, got int64
	// beyond counts the calls that were turned down for it.
	beyond int
}

// exceed notes that a limit was hit, and reports whether the guest may still be told so.
func (b *budget) exceed(kind FaultKind, limit, got int64) bool {
	b.beyond++
	if b.kind == "" || b.kind == kind {
		b.kind, b.limit, b.got = kind, limit, got
	}
	return b.beyond <= overtime
}

// blame makes a trap that came after a limit was hit a fault of that limit.
func (b *budget) blame(f *Fault) {
	if b.kind == "" {
		return
	}
	f.Kind, f.Limit, f.Got, f.trap = b.kind, b.limit, b.got, ""
	f.Detail = "the guest was refused more host functions, then: " + f.Detail
}

// answer runs a host function within the budget of the call. What is over it is an error
// that the guest can read, and in the end the end of the call: a [*Fault].
func (c *conversation) answer(ctx context.Context, payload []byte) ([]byte, error) {
	limits, spent := &c.module.limits, &c.spent
	name, request, err := unpackNamed(payload)
	if err != nil {
		return nil, err
	}
	if !c.imports(name) {
		return nil, fmt.Errorf("%w: a call of a function that is not imported", errProtocol)
	}
	if len(request) > limits.HostCallBytes {
		return nil, fmt.Errorf("%w: a request of %d bytes, the limit is %d", errProtocol, len(request), limits.HostCallBytes)
	}
	if spent.calls++; spent.calls > limits.HostCalls {
		return c.refuse(FaultHostCalls, int64(limits.HostCalls), int64(spent.calls))
	}
	if spent.bytes += int64(len(request)); spent.bytes > int64(limits.HostTotalBytes) {
		return c.refuse(FaultHostBytes, int64(limits.HostTotalBytes), spent.bytes)
	}
	if c.host == nil {
		return errorResponse(abi.CodeDenied, "no host function is available here"), nil
	}
	response := c.host(ctx, name, request)
	if len(response) > limits.HostCallBytes {
		return errorResponse(abi.CodeTooLarge, fmt.Sprintf("the response has %d bytes, the limit is %d", len(response), limits.HostCallBytes)), nil
	}
	if with := spent.bytes + int64(len(response)); with > int64(limits.HostTotalBytes) {
		return c.refuse(FaultHostBytes, int64(limits.HostTotalBytes), with)
	}
	spent.bytes += int64(len(response))
	return response, nil
}

// refuse tells the guest of a limit that it has hit, or ends its call.
func (c *conversation) refuse(kind FaultKind, limit, got int64) ([]byte, error) {
	if !c.spent.exceed(kind, limit, got) {
		return nil, &Fault{
			Kind: kind, Digest: c.module.digest, Export: c.export, Limit: limit, Got: got,
			Detail: "the guest goes on calling host functions though it is told that it has used up what it may", Stderr: c.stderr,
		}
	}
	if kind == FaultHostCalls {
		return errorResponse(abi.CodeTooLarge, fmt.Sprintf("this call has used %d host functions, the limit is %d", got, limit)), nil
	}
	return errorResponse(abi.CodeTooLarge, fmt.Sprintf("this call has exchanged %d bytes with host functions, the limit is %d", got, limit)), nil
}
