package sandbox_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/host/sandbox"
	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// policies are the scheduling policies of a process's threads, which are as nice as this
// process.
func policies(t *testing.T, pid int) []uint32 {
	t.Helper()
	own, err := unix.SchedGetAttr(os.Getpid(), 0)
	assert.NoError(t, err)
	var all []uint32
	threads, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "task"))
	assert.NoError(t, err)
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		assert.NoError(t, err)
		attributes, err := unix.SchedGetAttr(id, 0)
		assert.NoError(t, err)
		assert.Equal(t, own.Nice, attributes.Nice)
		all = append(all, attributes.Policy)
	}
	return all
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
	var during []uint32
	look := func(context.Context, string, []byte) []byte {
		during = policies(t, sandbox.PIDs(s)[0])
		return []byte(`{"ok":true}`)
	}
	// call returns whether every thread gave way at the end of the computation.
	call := func(n int64) bool {
		m := load(t, s, wasmtest.Computes(n, "event"), sandbox.Limits{})
		_, _, err := m.Call(t.Context(), "tenant", "provision", nil, look)
		require.NoError(t, err)
		require.Len(t, sandbox.PIDs(s), 1, "it is kept")
		require.NotContains(t, policies(t, sandbox.PIDs(s)[0]), uint32(unix.SCHED_IDLE), "the next call is as important as ever")
		m.Close()
		require.Eventually(t, func() bool { return len(sandbox.PIDs(s)) == 0 }, 10*time.Second, time.Millisecond)
		require.NotEmpty(t, during)
		return !slices.ContainsFunc(during, func(policy uint32) bool { return policy != unix.SCHED_IDLE })
	}
	require.False(t, call(1), "it is over soon")
	if missing != "" {
		require.False(t, call(1<<30), missing)
		return
	}
	// On a machine that is busy it may be as important again just then.
	yielded := false
	for n := int64(1 << 28); n <= 1<<32 && !yielded; n *= 2 {
		yielded = call(n)
	}
	require.True(t, yielded)
}
