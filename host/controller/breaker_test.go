package controller

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// crash is a fault of the kind that may have been the death of a worker.
type crash struct{ died bool }

func (c crash) Error() string  { return "the worker is gone" }
func (c crash) Crashed() bool  { return c.died }
func (c crash) Reason() string { return "module_crashed" }

func TestBreaker(t *testing.T) {
	b, now := &breaker{}, epoch()
	crashed := func(n int) {
		for range n {
			b.observe(fmt.Errorf("call: %w", crash{died: true}), now)
		}
	}
	crashed(crashLimit - 1)
	require.False(t, b.open(), "one crash too few")
	require.Zero(t, b.wait(now))

	b.observe(nil, now)
	crashed(crashLimit - 1)
	require.False(t, b.open(), "a call that ended well begins the count anew")

	b.observe(crash{died: false}, now)
	b.observe(errors.New("some other fault"), now)
	crashed(crashLimit - 1)
	require.False(t, b.open(), "so does one that failed without killing anybody")

	crashed(1)
	require.True(t, b.open())
	want := time.Minute
	for range 12 {
		require.Equal(t, want, b.wait(now), "the pause doubles up to an hour")
		require.Equal(t, want-time.Second, b.wait(now.Add(time.Second)))
		require.Zero(t, b.wait(now.Add(want)), "then one call is let through")
		require.True(t, b.open(), "and the module counts as faulted until it ends well")
		now = now.Add(want)
		crashed(1)
		want = min(2*want, time.Hour)
	}

	b.observe(nil, now)
	require.False(t, b.open())
	require.Zero(t, b.wait(now))
}

// TestBreakerProbe: who changed something is shown at once whether it helped, and nothing
// is forgotten.
func TestBreakerProbe(t *testing.T) {
	b, now := &breaker{}, epoch()
	b.probe()
	for range crashLimit {
		require.Zero(t, b.wait(now), "near miss: a module that is well is not changed by it")
		b.observe(crash{died: true}, now)
	}
	require.Equal(t, probeFirst, b.wait(now))
	b.probe()
	require.Zero(t, b.wait(now), "one call is let through")
	require.True(t, b.open(), "it counts as faulted until it ends well")
	require.False(t, b.observe(crash{died: true}, now))
	require.Equal(t, 2*probeFirst, b.wait(now), "it goes on where it was")
	b.probe()
	require.True(t, b.observe(nil, now))
	require.False(t, b.open(), "it helped")
}

// TestBreakerChanges: opening and closing are reported once each.
func TestBreakerChanges(t *testing.T) {
	b := &breaker{}
	require.False(t, b.observe(nil, epoch()), "it was closed")
	for i := range 2 * crashLimit {
		require.Equal(t, i == crashLimit-1, b.observe(crash{died: true}, epoch()), "crash %d", i+1)
	}
	require.True(t, b.observe(nil, epoch()))
	require.False(t, b.observe(nil, epoch()))
}

// TestBreakerHammer: crashes from many calls are all counted, and one good call closes.
func TestBreakerHammer(t *testing.T) {
	b := &breaker{}
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			b.observe(crash{died: true}, epoch())
			b.wait(epoch())
			b.open()
		})
	}
	wg.Wait()
	require.Equal(t, 64, b.crashes)
	require.Equal(t, time.Hour, b.wait(epoch()))
	b.observe(nil, epoch())
	require.False(t, b.open())
}
