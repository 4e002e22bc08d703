package sandbox_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/sandbox"
)

// TestWorkerRests: a worker with nothing to do lets go of its code, and serves as before.
func TestWorkerRests(t *testing.T) {
	s := open(t, sandbox.Options{})
	m := load(t, s, goGuest(t), sandbox.Limits{})
	call := func() {
		_, _, err := m.Call(t.Context(), "tenant", "provision", []byte("{}"), func(context.Context, string, []byte) []byte { return []byte("{}") })
		require.NoError(t, err)
	}
	call()
	pids := sandbox.PIDs(s)
	require.Len(t, pids, 1)
	resident := func() int {
		content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pids[0]), "statm"))
		require.NoError(t, err)
		pages, err := strconv.Atoi(strings.Fields(string(content))[1])
		require.NoError(t, err)
		return pages * os.Getpagesize() >> 10
	}
	busy := resident()
	require.Eventually(t, func() bool { return resident() < busy-4<<10 }, 20*time.Second, 10*time.Millisecond, "%d KiB", busy)
	t.Logf("%d KiB, and %d after a pause", busy, resident())
	call()
	require.Equal(t, pids, sandbox.PIDs(s))
}
