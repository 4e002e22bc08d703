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

// codeOf returns how much of its native code a process has mapped, and how much there is, in
// KiB.
func codeOf(t *testing.T, pid int) (mapped, all int) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps"))
	require.NoError(t, err)
	_, code, found := strings.Cut(string(content), "/code.bin\n")
	require.True(t, found)
	for line := range strings.Lines(code) {
		fields := strings.Fields(line)
		size, _ := strconv.Atoi(fields[1]) // Other lines have other things there.
		switch fields[0] {
		case "Size:":
			all = size
		case "Rss:":
			return size, all
		}
	}
	require.Fail(t, "smaps has another form")
	return 0, 0
}

// TestWorkerMapsWhatCallsUse: a worker lets go of the code of the initialiser after its first
// call, and where the kernel maps more than is used, of all in a pause. It serves as before.
func TestWorkerMapsWhatCallsUse(t *testing.T) {
	s := open(t, sandbox.Options{Worker: []string{realWorker(t)}})
	m := load(t, s, goGuest(t), sandbox.Limits{})
	call := func() {
		_, _, err := m.Call(t.Context(), "tenant", "provision", []byte("{}"), func(context.Context, string, []byte) []byte { return []byte("{}") })
		require.NoError(t, err)
	}
	call()
	pids := sandbox.PIDs(s)
	require.Len(t, pids, 1)
	call()
	mapped, all := codeOf(t, pids[0])
	if sandbox.MapsSinglePages() {
		require.Less(t, mapped, all/3)
	}
	require.Eventually(t, func() bool {
		now, _ := codeOf(t, pids[0])
		return now < all/3
	}, 20*time.Second, 10*time.Millisecond, "of %d KiB", all)
	t.Logf("%d of %d KiB", mapped, all)
	call()
	require.Equal(t, pids, sandbox.PIDs(s))
}
