package sandbox

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWatchCPU(t *testing.T) {
	t.Run("Over", func(t *testing.T) {
		var used atomic.Int64
		used.Store(int64(time.Hour)) // what earlier calls have used
		ctx, stop := watchCPU(t.Context(), func() (time.Duration, error) { return time.Duration(used.Add(int64(time.Millisecond))), nil }, 5*time.Millisecond)
		defer stop()
		<-ctx.Done()
		var over *cpuExceeded
		require.ErrorAs(t, context.Cause(ctx), &over)
		require.GreaterOrEqual(t, over.used, 5*time.Millisecond)
		require.Less(t, over.used, time.Minute, "only this call counts")
		require.ErrorContains(t, over, "the worker has computed for ")
	})
	t.Run("Stopped", func(t *testing.T) {
		reads := make(chan struct{}, 1000)
		ctx, stop := watchCPU(t.Context(), func() (time.Duration, error) { reads <- struct{}{}; return 0, nil }, time.Millisecond)
		for range 3 {
			<-reads
		}
		require.NoError(t, ctx.Err(), "a worker that waits computes nothing, however long")
		stop()
		require.ErrorIs(t, context.Cause(ctx), context.Canceled)
	})
	t.Run("Gone", func(t *testing.T) {
		reads := make(chan struct{}, 2)
		first := true
		ctx, stop := watchCPU(t.Context(), func() (time.Duration, error) {
			defer func() { reads <- struct{}{} }()
			if first {
				first = false
				return 0, nil
			}
			return 0, os.ErrProcessDone
		}, time.Millisecond)
		defer stop()
		<-reads
		<-reads
		require.NoError(t, ctx.Err(), "its pipe is what tells of a death")
	})
	t.Run("Unsupported", func(t *testing.T) {
		ctx, stop := watchCPU(t.Context(), func() (time.Duration, error) { return 0, errors.ErrUnsupported }, 1)
		stop()
		require.NoError(t, ctx.Err())
	})
	t.Run("Rarely", func(t *testing.T) {
		reads := 0
		_, stop := watchCPU(t.Context(), func() (time.Duration, error) { reads++; return 0, nil }, time.Hour)
		stop()
		require.Equal(t, 1, reads, "a call that is over soon is not looked at")
	})
}

// TestWatchCPUHammer ends watches while they look.
func TestWatchCPUHammer(t *testing.T) {
	var used atomic.Int64
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			ctx, stop := watchCPU(t.Context(), func() (time.Duration, error) { return time.Duration(used.Add(int64(time.Millisecond))), nil }, 300*time.Millisecond)
			select {
			case <-ctx.Done():
			case <-time.After(15 * time.Millisecond):
			}
			stop()
			stop()
			if ctx.Err() == nil {
				t.Error("a watch that is over has ended its context")
			}
		})
	}
	all.Wait()
}

func TestCPUTimeOfAProcess(t *testing.T) {
	p := aliveProcess(t)
	before, err := p.cpuTime()
	if errors.Is(err, errors.ErrUnsupported) {
		return // the deadline is what ends calls there
	}
	require.NoError(t, err)
	require.Positive(t, before, "it has started")
	require.Less(t, before, time.Minute)
	p.kill()
	<-p.exited
	_, err = p.cpuTime()
	require.Error(t, err, "its number may be another's")
}
