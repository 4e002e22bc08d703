package sandbox

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// forkSpawner starts programs through a fork server, where there can be one.
func forkSpawner(t *testing.T) (s *spawner, self string) {
	t.Helper()
	if _, ok := ways(t)["ForkServer"]; !ok {
		t.Skip("this system does not let us make namespaces")
	}
	s, self = testSpawner(t, throughForkServer)
	t.Cleanup(s.close)
	return s, self
}

// KillForkServer kills the process that starts workers, if there is one.
func KillForkServer(s *Sandbox) bool {
	s.spawner.mu.Lock()
	defer s.spawner.mu.Unlock()
	if s.spawner.server == nil {
		return false
	}
	s.spawner.server.close()
	return true
}

// spawned starts a false worker that must start.
func spawned(t *testing.T, s *spawner, self, name string) (child, *os.File) {
	t.Helper()
	c, out, err := spawn(s, self, name)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, out.Close()) })
	return c, out
}

// TestForkedWorkersHoldNothing: a worker can see its streams, and nothing of the operator
// or of the fork server.
func TestForkedWorkersHoldNothing(t *testing.T) {
	s, self := forkSpawner(t)
	for range 2 { // the second is started while the first is open
		c, out := spawned(t, s, self, "attributes")
		said, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.Regexp(t, `^pid 1, dir /, environment \[\], files 0=/dev/null 1=pipe:\[\d+\] 2=pipe:\[\d+\]`, said)
		require.NotContains(t, said, "socket:", "that is how to talk to the fork server")
		require.Equal(t, 2, strings.Count(said, "pipe:"), "and nothing of the other workers")
		group, err := syscall.Getpgid(c.pid())
		require.NoError(t, err)
		require.Equal(t, c.pid(), group, "it has a process group of its own")
		used, err := cpuTime(c.pid())
		require.NoError(t, err)
		require.Positive(t, used)
		c.kill()
		require.Equal(t, "signal: killed", c.wait().Text)
	}
}

// TestForkServerDies: its workers die with it, and the next start begins another one.
func TestForkServerDies(t *testing.T) {
	s, self := forkSpawner(t)
	for range 3 {
		first, _ := spawned(t, s, self, "silent")
		second, _ := spawned(t, s, self, "silent")
		require.NoError(t, s.server.process.Process.Kill())
		for _, c := range []child{first, second} {
			require.Equal(t, exitStatus{-1, "died with the process that had started it"}, c.wait())
			require.Eventually(t, func() bool { return ended(c.pid()) }, 10*time.Second, time.Millisecond)
			c.kill()
		}
	}
	c, _ := spawned(t, s, self, "exits")
	require.Equal(t, 3, c.wait().Code)
}

// ended reports whether a process is gone, or waits for nobody but whoever buries it.
func ended(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err != nil || bytes.Contains(stat, []byte(") Z "))
}

// TestForkServerHangs: one that does not answer is replaced.
func TestForkServerHangs(t *testing.T) {
	s, self := forkSpawner(t)
	s.timeout = 300 * time.Millisecond
	alive, _ := spawned(t, s, self, "silent")
	require.NoError(t, s.server.process.Process.Signal(syscall.SIGSTOP))
	c, _ := spawned(t, s, self, "exits")
	require.Equal(t, 3, c.wait().Code, "the second attempt is another process's")
	require.Equal(t, -1, alive.wait().Code)

	alive, _ = spawned(t, s, self, "silent")
	require.NoError(t, s.server.process.Process.Signal(syscall.SIGSTOP))
	alive.kill()
	require.Equal(t, exitStatus{-1, "died with the process that had started it"}, alive.wait(), "a kill is not left undone")
}

// TestForkServerIsKilledAllTheTime hammers a spawner whose fork server keeps dying: a start
// works or says that it did not, and nobody waits for ever.
func TestForkServerIsKilledAllTheTime(t *testing.T) {
	s, self := forkSpawner(t)
	stop := make(chan struct{})
	var hunter, wg sync.WaitGroup
	hunter.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(30 * time.Millisecond):
			}
			s.mu.Lock()
			if s.server != nil {
				s.server.close()
			}
			s.mu.Unlock()
		}
	})
	for range 4 {
		wg.Go(func() {
			for range 10 {
				c, out, err := spawn(s, self, "exits")
				if err != nil {
					continue
				}
				if exit := c.wait(); exit.Code != 3 && exit.Code != -1 {
					t.Errorf("wait: %+v", exit)
				}
				_ = out.Close()
			}
		})
	}
	wg.Wait()
	close(stop)
	hunter.Wait()
	require.Eventually(t, func() bool {
		c, out, err := spawn(s, self, "exits")
		if err != nil {
			return false
		}
		defer out.Close()
		return c.wait().Code == 3
	}, 10*time.Second, time.Millisecond, "it works again")
}

// TestForkServerEndsWithItsParent: the end of the socket is enough, without any signal.
func TestForkServerEndsWithItsParent(t *testing.T) {
	s, self := forkSpawner(t)
	c, _ := spawned(t, s, self, "silent")
	server := s.server
	require.NoError(t, server.conn.Close())
	select {
	case <-server.gone:
	case <-time.After(10 * time.Second):
		require.Fail(t, "it outlived its parent")
	}
	require.Equal(t, -1, c.wait().Code)
	require.Eventually(t, func() bool { return ended(c.pid()) }, 10*time.Second, time.Millisecond)
}

// TestForkServerOfNoWorker: a program that is none is told apart at once or in time.
func TestForkServerOfNoWorker(t *testing.T) {
	s, self := forkSpawner(t)
	for name, c := range map[string]struct {
		reason  string
		program []string
	}{
		"Ends":    {"it does not know the argument", []string{self, FakeWorker("exits")}},
		"Missing": {"there is no such file", []string{"/nonexistent"}},
		"Waits":   {"it takes the argument for something else", []string{"/bin/sh", "-c", "sleep 3600"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := startForkServer(s.run, c.program, 300*time.Millisecond)
			require.Error(t, err, c.reason)
		})
	}
}

// TestForkRequestTooLarge: the socket takes whole packets only.
func TestForkRequestTooLarge(t *testing.T) {
	s, self := forkSpawner(t)
	_, err := s.start([]string{self, fmt.Sprintf("%0*d", maxForkMessage, 1)}, [3]*os.File{os.Stdin, os.Stdin, os.Stdin})
	require.ErrorIs(t, err, syscall.E2BIG)
	c, _ := spawned(t, s, self, "exits")
	require.Equal(t, 3, c.wait().Code)
}
