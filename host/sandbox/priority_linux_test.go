package sandbox_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/host/sandbox"
)

// niceness returns how nice the threads of the workers are, as far as they live.
func niceness(t *testing.T, s *sandbox.Sandbox) map[int]int {
	t.Helper()
	threads := map[int]int{}
	for _, pid := range sandbox.PIDs(s) {
		tasks, _ := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "task")) // it may be gone
		for _, task := range tasks {
			id, err := strconv.Atoi(task.Name())
			require.NoError(t, err)
			if raw, err := unix.Getpriority(unix.PRIO_PROCESS, id); err == nil {
				threads[id] = 20 - raw // the system call has no negative results
			}
		}
	}
	return threads
}

// TestCompilersAreNice: whoever compiles is, on every thread, and whoever serves is not.
func TestCompilersAreNice(t *testing.T) {
	s := open(t, sandbox.Options{CacheDir: t.TempDir()})
	loaded := make(chan error, 1)
	go func() {
		_, err := s.Load(t.Context(), goGuest(t), sandbox.Limits{})
		loaded <- err
	}()
	require.Eventually(t, func() bool {
		nice := 0
		threads := niceness(t, s)
		for _, n := range threads {
			if n == 10 {
				nice++
			}
		}
		return nice > 1 && nice == len(threads)
	}, 30*time.Second, time.Millisecond, "no compiler was seen")
	require.NoError(t, <-loaded)
	serving := niceness(t, s)
	require.NotEmpty(t, serving)
	for _, n := range serving {
		require.Zero(t, n)
	}
}
