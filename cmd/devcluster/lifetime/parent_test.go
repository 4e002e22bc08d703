package lifetime

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNoParent(t *testing.T) {
	t.Parallel()

	ctx, stop := WithParent(t.Context(), 0)
	require.NoError(t, ctx.Err())
	stop()
	require.ErrorIs(t, context.Cause(ctx), context.Canceled)
	stop()
}

func TestProcessEnds(t *testing.T) {
	t.Parallel()

	// The watched process is not this one's parent, so the watch is by its id.
	child := exec.CommandContext(t.Context(), "sleep", "600")
	require.NoError(t, child.Start())
	ctx, stop := WithParent(t.Context(), child.Process.Pid)
	defer stop()
	require.NoError(t, ctx.Err(), "it lives")

	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait(), "killed")
	select {
	case <-ctx.Done():
		require.ErrorIs(t, context.Cause(ctx), ErrParentGone)
	case <-time.After(time.Minute):
		require.Fail(t, "the end went unnoticed")
	}
}

func TestAlive(t *testing.T) {
	t.Parallel()

	ended := exec.CommandContext(t.Context(), "true")
	require.NoError(t, ended.Run())
	cases := map[string]struct {
		reason string
		pid    int
		want   bool
	}{
		"Parent":   {"the test's parent waits for it", os.Getppid(), true},
		"Itself":   {"any process can be watched", os.Getpid(), true},
		"Init":     {"even one that may not be signalled", 1, true},
		"HasEnded": {"an id that is free again", ended.Process.Pid, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			require.Equal(t, c.want, alive(c.pid)(), c.reason)
		})
	}
}

func TestStopEndsTheWatch(t *testing.T) {
	t.Parallel()

	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		watch(ctx, cancel, func() bool { return true })
	}()
	cancel(context.Canceled)
	select {
	case <-ended:
	case <-time.After(time.Minute):
		require.Fail(t, "the watch goes on")
	}
	require.ErrorIs(t, context.Cause(ctx), context.Canceled)
}
