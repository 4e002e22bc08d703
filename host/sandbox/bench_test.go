package sandbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/sandbox"
	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// envelope is an input of 4 KB for the Go guest, which makes as many host calls.
func envelope(b *testing.B, calls int) []byte {
	b.Helper()
	extra := map[string]any{}
	for i := range 60 {
		extra[fmt.Sprintf("key-%02d", i)] = map[string]any{"name": fmt.Sprintf("value-%02d", i), "replicas": i, "on": true}
	}
	input, err := json.Marshal(map[string]any{"do": "", "calls": calls, "extra": extra})
	require.NoError(b, err)
	return append(input, bytes.Repeat([]byte(" "), max(0, 4096-len(input)))...)
}

// BenchmarkCallGo is one call of a std Go guest: 4 KB in, three host calls, a fresh
// instance.
func BenchmarkCallGo(b *testing.B) {
	s := open(b, sandbox.Options{Worker: []string{realWorker(b)}})
	m := load(b, s, goGuest(b), sandbox.Limits{})
	input := envelope(b, 3)
	b.ReportMetric(float64(len(input)), "input-bytes")
	for b.Loop() {
		code, _, err := m.Call(b.Context(), "tenant", "provision", input, answerConfigMap)
		if err != nil || code != 0 {
			b.Fatal(code, err)
		}
	}
	b.StopTimer()
	b.ReportMetric(residentMiB(b, s), "worker-MiB")
}

// BenchmarkCallSmall is the same for a guest of a few hundred bytes: what is left is
// the price of the process boundary.
func BenchmarkCallSmall(b *testing.B) {
	s := open(b, sandbox.Options{Worker: []string{realWorker(b)}})
	m := load(b, s, wasmtest.Asks("kube_get", 3), sandbox.Limits{})
	input := envelope(b, 3)
	for b.Loop() {
		if _, _, err := m.Call(b.Context(), "tenant", "provision", input, answerConfigMap); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(residentMiB(b, s), "worker-MiB")
}

// residentMiB is the resident memory of the only worker.
func residentMiB(b *testing.B, s *sandbox.Sandbox) float64 {
	b.Helper()
	pids := sandbox.PIDs(s)
	require.Len(b, pids, 1)
	content, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pids[0]), "statm"))
	if err != nil {
		return 0 // there is no /proc on this system
	}
	var size, resident int
	_, err = fmt.Sscan(string(content), &size, &resident)
	require.NoError(b, err)
	return float64(resident*os.Getpagesize()) / (1 << 20)
}

// BenchmarkLoadCold is preflight, compile, describe: what a new digest costs.
func BenchmarkLoadCold(b *testing.B) {
	wasm := goGuest(b)
	for b.Loop() {
		b.StopTimer()
		s := open(b, sandbox.Options{Worker: []string{realWorker(b)}, CacheDir: b.TempDir()})
		b.StartTimer()
		_, err := s.Load(b.Context(), wasm, sandbox.Limits{})
		require.NoError(b, err)
		b.StopTimer()
		require.NoError(b, s.Close())
		b.StartTimer()
	}
}

// BenchmarkLoadCached is the same when the native code is on disk: spawn to the first
// result.
func BenchmarkLoadCached(b *testing.B) {
	for name, wasm := range map[string][]byte{"Go": goGuest(b), "Small": wasmtest.Returns(0)} {
		b.Run(name, func(b *testing.B) {
			s := open(b, sandbox.Options{Worker: []string{realWorker(b)}})
			load(b, s, wasm, sandbox.Limits{}).Close()
			for b.Loop() {
				m, err := s.Load(b.Context(), wasm, sandbox.Limits{})
				require.NoError(b, err)
				m.Close()
			}
		})
	}
}

// BenchmarkSpawn is a worker from nothing to its greeting, and its end.
func BenchmarkSpawn(b *testing.B) {
	s := open(b, sandbox.Options{Worker: []string{realWorker(b)}})
	for b.Loop() {
		require.NoError(b, sandbox.Probe(s))
	}
}

func BenchmarkPreflight(b *testing.B) {
	wasm := goGuest(b)
	b.SetBytes(int64(len(wasm)))
	b.ReportAllocs()
	for b.Loop() {
		_, err := sandbox.Preflight(wasm, sandbox.Limits{})
		require.NoError(b, err)
	}
}

// BenchmarkHostCall is one round trip from the guest to the parent and back.
func BenchmarkHostCall(b *testing.B) {
	s := open(b, sandbox.Options{Worker: []string{realWorker(b)}})
	const calls = 500
	m := load(b, s, wasmtest.Asks("event", calls), sandbox.Limits{})
	input := []byte(strings.Repeat("x", 100))
	for b.Loop() {
		_, _, err := m.Call(b.Context(), "tenant", "provision", input, answerConfigMap)
		require.NoError(b, err)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/calls, "ns/hostcall")
}
