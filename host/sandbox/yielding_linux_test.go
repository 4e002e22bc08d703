package sandbox_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/host/sandbox"
	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// giveWay reports whether all threads of the only worker give way, and whether some do. All
// are as nice as this process.
func giveWay(t *testing.T, s *sandbox.Sandbox) (all, some bool) {
	t.Helper()
	own, err := unix.SchedGetAttr(os.Getpid(), 0)
	require.NoError(t, err)
	pids := sandbox.PIDs(s)
	if len(pids) != 1 {
		return false, false
	}
	threads, _ := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pids[0]), "task")) // it may be gone
	all = len(threads) > 0
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		require.NoError(t, err)
		if is, err := unix.SchedGetAttr(id, 0); err == nil {
			require.Equal(t, own.Nice, is.Nice)
			all, some = all && is.Policy == unix.SCHED_IDLE, some || is.Policy == unix.SCHED_IDLE
		}
	}
	return all, some
}

// TestLongCallsGiveWay: a worker that computes gives way, and the next call of it does not.
// It needs the right to; where there is none, the layer says so and nothing is changed.
func TestLongCallsGiveWay(t *testing.T) {
	s := open(t, sandbox.Options{})
	missing := ""
	for _, layer := range s.Layers() {
		if layer.Name == sandbox.LayerProcessorPriority {
			missing = layer.Missing
		}
	}
	// call returns whether every thread gave way during the call.
	call := func(n int64) (yielded bool) {
		m := load(t, s, wasmtest.Computes(n, "event"), sandbox.Limits{})
		over := make(chan error, 1)
		go func() {
			_, _, err := m.Call(t.Context(), "tenant", "provision", nil, func(context.Context, string, []byte) []byte { return []byte(`{"ok":true}`) })
			over <- err
		}()
		for done := false; !done; {
			select {
			case err := <-over:
				require.NoError(t, err)
				done = true
			case <-time.After(2 * time.Millisecond):
				all, _ := giveWay(t, s)
				yielded = yielded || all
			}
		}
		require.Len(t, sandbox.PIDs(s), 1, "it is kept")
		_, some := giveWay(t, s)
		require.False(t, some, "the next call is as important as ever")
		m.Close()
		require.Eventually(t, func() bool { return len(sandbox.PIDs(s)) == 0 }, 10*time.Second, time.Millisecond)
		return yielded
	}
	require.False(t, call(1), "it is over soon")
	if missing != "" {
		require.False(t, call(1<<30), missing)
		return
	}
	yielded := false
	for n := int64(1 << 28); n <= 1<<32 && !yielded; n *= 2 { // machines differ
		yielded = call(n)
	}
	require.True(t, yielded)
}
