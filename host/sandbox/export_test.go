package sandbox

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What tests may look at, and do, that users may not.

// running lists the processes of a sandbox that have not ended.
func (s *Sandbox) running() []*process {
	s.mu.Lock()
	defer s.mu.Unlock()
	var running []*process
	for p := range s.processes {
		running = append(running, p)
	}
	return running
}

// KillWorkers kills every worker like an administrator or the kernel would.
func KillWorkers(tb testing.TB, s *Sandbox) {
	tb.Helper()
	running := s.running()
	require.NotEmpty(tb, running)
	for _, p := range running {
		require.NoError(tb, p.cmd.Process.Kill())
		<-p.exited
	}
}

// WorkersAtWork counts the workers that are not idle.
func WorkersAtWork(s *Sandbox) int {
	s.pool.mu.Lock()
	idle := len(s.pool.idle)
	s.pool.mu.Unlock()
	return len(s.running()) - idle
}

// Compiled reports whether the cache has native code of the module.
func Compiled(m *Module) bool { return m.compiled() }

// PIDs lists the process identifiers of the workers.
func PIDs(s *Sandbox) []int {
	var pids []int
	for _, p := range s.running() {
		pids = append(pids, p.cmd.Process.Pid)
	}
	return pids
}

// Probe starts a worker and ends it.
func Probe(s *Sandbox) error { return s.probe() }

// ServeFresh gives every call of a module an instance of its own, as where state cannot
// be put back.
func ServeFresh(m *Module) { m.inspected.FreshReason = "a test asks for it" }

// TracksPages reports whether written pages can be found here.
func TracksPages() bool { return newPageTracker() != nil }
