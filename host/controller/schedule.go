package controller

import (
	"math/rand/v2"
	"time"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// The schedule of passes. Convergence is driven by events; these are the net below it.
const (
	// yieldInterval is how long to wait for an event after a yield without a hint: the
	// interval that operators of this kind have always polled at.
	yieldInterval = 10 * time.Second
	// retryBase and retryMax bound the backoff after failures: quick enough that a blip is
	// not noticed, slow enough that a thousand broken Stacks do not load the API server.
	retryBase = time.Second
	retryMax  = 5 * time.Minute
	// hintMax caps what one node asks for: the outcome holds the shortest hint only, and
	// the others that make progress may have given none.
	hintMax = retryMax
	// DefaultResync is when a converged Stack is looked at although nothing happened.
	DefaultResync = 10 * time.Minute
	// jitterShare spreads wakes that were scheduled together over a fifth of the interval.
	jitterShare = 0.2
)

// requeueAfter returns when to run the next pass after an outcome; 0 means never. failed
// is the number of retries in a row, inputs are what was read.
func requeueAfter(o provisioner.Outcome, inputs []v1alpha1.InputRecord, failed int, resync time.Duration) time.Duration {
	switch {
	case o.Cancelled:
		return 0
	case o.Parks():
		if mendsUnseen(o.Headline.Reason, inputs) {
			return jitter(resync)
		}
		return 0
	case o.OK():
		return jitter(resync)
	case o.RetryAfter > 0:
		return notBefore(min(o.RetryAfter, hintMax))
	case o.Class == abi.Retry:
		return jitter(backoff(failed))
	default:
		return jitter(yieldInterval)
	}
}

// backoff doubles from retryBase to retryMax.
func backoff(failed int) time.Duration {
	d := retryBase
	for range failed - 1 {
		d *= 2
		if d >= retryMax {
			return retryMax
		}
	}
	return d
}

// jitter returns d spread evenly over d ± a tenth.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration((rand.Float64()-0.5)*jitterShare*float64(d)) //nolint:gosec // Spreading load needs no secret randomness.
}

// notBefore returns d and up to a tenth more, for whoever must not be asked earlier.
func notBefore(d time.Duration) time.Duration {
	return d + time.Duration(rand.Float64()*jitterShare/2*float64(d)) //nolint:gosec // Spreading load needs no secret randomness.
}
