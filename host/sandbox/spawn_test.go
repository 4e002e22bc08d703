package sandbox

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSpawnerStartsFromAnyGoroutine(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	s := newSpawner()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), self, FakeWorker("exits"), "x")
			if err := s.start(cmd); err != nil {
				t.Errorf("start: %v", err)
				return
			}
			if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 3 {
				t.Errorf("wait: %v", err)
			}
		})
	}
	wg.Wait()
	require.Error(t, s.start(exec.CommandContext(t.Context(), "/nonexistent")))
	s.close()
	require.ErrorIs(t, s.start(exec.CommandContext(t.Context(), self)), ErrClosed)
}

func TestKillIsFinal(t *testing.T) {
	p := aliveProcess(t)
	require.False(t, p.dead())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(p.kill)
	}
	wg.Wait()
	<-p.exited
	require.True(t, p.dead())
	require.Contains(t, p.exit.String(), "killed")
	_, err := readFrame(p.reader, kib)
	require.Error(t, err, "whoever waits for a frame is woken up")
	require.Error(t, writeFrame(p.in, frameCall, 1))
	p.kill()
}

// TestKillWakesUpAWriter fills the pipe of a worker that does not read.
func TestKillWakesUpAWriter(t *testing.T) {
	p := aliveProcess(t)
	done := make(chan error, 1)
	go func() { done <- writeFrame(p.in, frameModule, 0, make([]byte, 8*mib)) }()
	select {
	case <-done:
		require.Fail(t, "a pipe does not hold 8 MiB")
	case <-time.After(20 * time.Millisecond):
	}
	p.kill()
	require.Error(t, <-done)
}

func TestBuryWaitsForTheExit(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	s := newSpawner()
	defer s.close()
	p, err := startProcess(s.start, []string{self, FakeWorker("exits")}, kib)
	require.NoError(t, err)
	require.Equal(t, 3, p.bury(10*time.Second).ExitCode(), "a worker that ends by itself says why")
}

func TestHeadBuffer(t *testing.T) {
	var b headBuffer
	for _, part := range []string{"fatal error: ", strings.Repeat("x", maxStderrBytes), "lost"} {
		n, err := b.Write([]byte(part))
		require.NoError(t, err)
		require.Equal(t, len(part), n, "the writer must never learn that nothing is kept")
	}
	require.Len(t, b.String(), maxStderrBytes)
	require.True(t, strings.HasPrefix(b.String(), "fatal error: x"))
}
