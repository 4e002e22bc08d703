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

// envelope is an input of some size for the Go guest, which makes as many host calls.
func envelope(b *testing.B, size, calls int) []byte {
	b.Helper()
	extra := map[string]any{}
	input := func() []byte {
		raw, err := json.Marshal(map[string]any{"do": "", "calls": calls, "extra": extra})
		require.NoError(b, err)
		return raw
	}
	for i := 0; len(input()) < size-80; i++ {
		extra[fmt.Sprintf("key-%02d", i)] = map[string]any{"name": fmt.Sprintf("value-%02d", i), "replicas": i, "on": true}
	}
	return append(input(), bytes.Repeat([]byte(" "), max(0, size-len(input())))...)
}

// bothWays runs a benchmark with an instance whose state is put back, and with an
// instance for each call.
func bothWays(b *testing.B, wasm []byte, run func(b *testing.B, m *sandbox.Module)) {
	b.Helper()
	for _, fresh := range []bool{false, true} {
		name := "restored"
		if fresh {
			name = "fresh"
		}
		b.Run(name, func(b *testing.B) {
			s := open(b, sandbox.Options{Worker: []string{realWorker(b)}})
			m := load(b, s, wasm, sandbox.Limits{})
			if fresh {
				sandbox.ServeFresh(m)
				sandbox.KillWorkers(b, s)
			}
			run(b, m)
			b.StopTimer()
			b.ReportMetric(residentMiB(b, s), "worker-MiB")
		})
	}
}

// BenchmarkCallGo is one call of a std Go guest that decodes its input with
// encoding/json.
func BenchmarkCallGo(b *testing.B) {
	for _, size := range []int{1, 4, 64} {
		for _, calls := range []int{0, 3, 30} {
			b.Run(fmt.Sprintf("%dKB/%dcalls", size, calls), func(b *testing.B) {
				input := envelope(b, size<<10, calls)
				bothWays(b, goGuest(b), func(b *testing.B, m *sandbox.Module) {
					b.Helper()
					for b.Loop() {
						code, _, err := m.Call(b.Context(), "tenant", "provision", input, answerConfigMap)
						if err != nil || code != 0 {
							b.Fatal(code, err)
						}
					}
				})
			})
		}
	}
}

// BenchmarkEchoGo moves bytes into a std Go guest and out again: what the Extism
// interface costs.
func BenchmarkEchoGo(b *testing.B) {
	for _, size := range []int{1, 4, 16, 64} {
		b.Run(fmt.Sprintf("%dKB", size), func(b *testing.B) {
			input := bytes.Repeat([]byte("x"), size<<10)
			b.SetBytes(int64(size << 10))
			bothWays(b, goGuest(b), func(b *testing.B, m *sandbox.Module) {
				b.Helper()
				for b.Loop() {
					_, out, err := m.Call(b.Context(), "tenant", "deprovision", input, nil)
					if err != nil || len(out) != len(input) {
						b.Fatal(len(out), err)
					}
				}
			})
		})
	}
}

// BenchmarkCallSmall is a guest of a few hundred bytes: what is left is the price of the
// process boundary.
func BenchmarkCallSmall(b *testing.B) {
	for _, calls := range []int{0, 3, 30} {
		b.Run(fmt.Sprintf("%dcalls", calls), func(b *testing.B) {
			input := bytes.Repeat([]byte("x"), 4<<10)
			bothWays(b, wasmtest.Asks("kube_get", calls), func(b *testing.B, m *sandbox.Module) {
				b.Helper()
				for b.Loop() {
					if _, _, err := m.Call(b.Context(), "tenant", "provision", input, answerConfigMap); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// BenchmarkRestore is putting back what one call has changed, without the call.
func BenchmarkRestore(b *testing.B) {
	b.Run("Go", func(b *testing.B) { sandbox.TimeSettle(b, goGuest(b), envelope(b, 4<<10, 0)) })
	b.Run("Small", func(b *testing.B) { sandbox.TimeSettle(b, wasmtest.Leavers()["data"], nil) })
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
