package sandbox_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/host/sandbox"
	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// TestRealWorker runs the program that is shipped, and proves what it has given up.
func TestRealWorker(t *testing.T) {
	s := open(t, sandbox.Options{Worker: []string{realWorker(t)}})
	m := load(t, s, wasmtest.Asks("event", 1), sandbox.Limits{MemoryBytes: 1 << 20})
	var status, limits, environment string
	_, _, err := m.Call(t.Context(), "tenant", "provision", []byte("x"), func(context.Context, string, []byte) []byte {
		pids := sandbox.PIDs(s)
		require.Len(t, pids, 1)
		proc := filepath.Join("/proc", strconv.Itoa(pids[0]))
		for name, text := range map[string]*string{"status": &status, "limits": &limits, "environ": &environment} {
			content, err := os.ReadFile(filepath.Join(proc, name))
			require.NoError(t, err)
			*text = string(content)
		}
		group, err := unix.Getpgid(pids[0])
		require.NoError(t, err)
		require.Equal(t, pids[0], group, "it has a process group of its own")
		return []byte("{}")
	})
	require.NoError(t, err)
	require.Contains(t, status, "NoNewPrivs:\t1")
	require.Regexp(t, `Max core file size +0 +0`, limits)
	require.Regexp(t, `Max open files +32 +32`, limits)
	require.NotRegexp(t, `Max address space +unlimited`, limits)
	require.Empty(t, environment)
}
