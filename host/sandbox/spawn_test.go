package sandbox

import (
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testSpawner starts programs in a way, as fakes of this binary or otherwise.
func testSpawner(t *testing.T, way isolation) (s *spawner, self string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	s = newSpawner([]string{self}, 10*time.Second)
	s.isolation = way
	return s, self
}

// spawn starts a false worker without anything to read, and returns what it writes.
func spawn(s *spawner, self, name string) (child, *os.File, error) {
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		return nil, nil, err
	}
	defer nothing.Close()
	out, childOut, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer childOut.Close()
	c, err := s.start([]string{self, FakeWorker(name), WorkerArgument}, [3]*os.File{nothing, childOut, childOut})
	return c, out, err
}

// ways are the isolations that this system offers.
func ways(t *testing.T) map[string]isolation {
	t.Helper()
	all := map[string]isolation{"ForkServer": throughForkServer, "Namespaces": withNamespaces, "Plain": withoutNamespaces}
	for name, way := range all {
		s, self := testSpawner(t, way)
		if c, out, err := spawn(s, self, "exits"); err != nil {
			t.Logf("%s: %v", name, err)
			delete(all, name)
		} else {
			c.wait()
			out.Close()
		}
		s.close()
	}
	require.Contains(t, all, "Plain")
	return all
}

func TestSpawnerStartsFromAnyGoroutine(t *testing.T) {
	for name, way := range ways(t) {
		t.Run(name, func(t *testing.T) {
			s, self := testSpawner(t, way)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					c, out, err := spawn(s, self, "exits")
					if err != nil {
						t.Errorf("start: %v", err)
						return
					}
					defer out.Close()
					if exit := c.wait(); exit != (exitStatus{3, "exit status 3"}) {
						t.Errorf("wait: %+v", exit)
					}
				})
				wg.Go(func() {
					c, out, err := spawn(s, self, "silent")
					if err != nil {
						t.Errorf("start: %v", err)
						return
					}
					defer out.Close()
					c.kill()
					c.kill()
					if exit := c.wait(); exit != (exitStatus{-1, "signal: killed"}) {
						t.Errorf("wait: %+v", exit)
					}
					c.kill() // it has ended
				})
			}
			wg.Wait()
			_, _, err := spawn(s, "/nonexistent", "exits")
			require.ErrorIs(t, err, fs.ErrNotExist)
			s.close()
			_, _, err = spawn(s, self, "exits")
			require.ErrorIs(t, err, ErrClosed)
		})
	}
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
	s, self := testSpawner(t, withoutNamespaces)
	defer s.close()
	p, err := startProcess(s.start, []string{self, FakeWorker("exits")}, kib)
	require.NoError(t, err)
	require.Equal(t, 3, p.bury(10*time.Second).Code, "a worker that ends by itself says why")
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
