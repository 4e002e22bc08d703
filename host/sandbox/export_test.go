package sandbox

import (
	"io"
	"slices"
	"testing"
	"time"

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
		p.child.kill()
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
func Compiled(m *Module) bool { return m.native.verify() == nil }

// PIDs lists the process identifiers of the workers.
func PIDs(s *Sandbox) []int {
	var pids []int
	for _, p := range s.running() {
		if p.child != nil {
			pids = append(pids, p.child.pid())
		}
	}
	return pids
}

// SpawnDirectly has this process start the workers that come.
func SpawnDirectly(s *Sandbox) { s.spawner.isolation = max(s.spawner.isolation, withNamespaces) }

// Probe starts a worker and ends it.
func Probe(s *Sandbox) error { return s.probe() }

// ServeFresh gives every call of a module an instance of its own, as where state cannot
// be put back.
func ServeFresh(m *Module) { m.inspected.FreshReason = "a test asks for it" }

// TimeSettle times what a worker does after each call, in this process and with
// copied images as well, so that the two can be compared.
func TimeSettle(b *testing.B, wasm, input []byte) {
	b.Helper()
	for name, tracker := range map[string]*pageTracker{"tracked": newPageTracker(), "copied": nil} {
		b.Run(name, func(b *testing.B) {
			s := setup{CacheDir: b.TempDir(), MemoryBytes: 128 * mib, ImageBytes: maxImageBytes, ArenaBytes: mib, OutputBytes: mib, HostCallBytes: mib, LogLines: 1, LogBytes: kib}
			skeleton := compileTo(b, wasm, &s)
			g, err := loadGuest(b.Context(), skeleton, s, tracker, nil)
			require.NoError(b, err)
			defer g.runtime.Close(b.Context())
			var times []time.Duration
			for b.Loop() {
				r := g.serve(b.Context(), 1, "provision", input, newLogSink(io.Discard, 1, 1, kib))
				require.Nil(b, r.fault)
				require.NotNil(b, g.kept)
				began := time.Now()
				g.settle(b.Context())
				times = append(times, time.Since(began))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Nanoseconds()), "median-restore-ns")
			g.discard(b.Context())
		})
	}
}
