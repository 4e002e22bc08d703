package sandbox_test

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/sandbox"
)

// BenchmarkSpawn is a worker from nothing to its layers, and its end, for operators that
// hold some memory: with a fork server, and with namespaces that the operator makes itself.
func BenchmarkSpawn(b *testing.B) {
	for _, mib := range []int{0, 100, 400} {
		ballast := make([]byte, mib<<20)
		for _, direct := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dMiB/direct=%t", mib, direct), func(b *testing.B) {
				s := open(b, sandbox.Options{Worker: []string{realWorker(b)}})
				if direct {
					sandbox.SpawnDirectly(s)
				}
				var before, after syscall.Rusage
				require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &before))
				for b.Loop() {
					for i := 0; i < len(ballast); i += os.Getpagesize() {
						ballast[i]++
					}
					require.NoError(b, sandbox.Probe(s))
				}
				require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &after))
				used := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
				b.ReportMetric(float64(used)/float64(b.N)/1e6, "own-CPU-ms/op")
			})
		}
		runtime.KeepAlive(ballast)
	}
}
