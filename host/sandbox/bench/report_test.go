package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/sandbox/bench/internal/leaf"
)

// TestReport writes a report of invented values: every kind of table, and benchstat's.
func TestReport(t *testing.T) {
	t.Chdir("../../..")
	r := newResults(settings{count: 6})
	r.took = time.Minute
	for i := range 6 {
		for _, c := range leaf.Cases() {
			for k, name := range []string{wayNative, wayPlugin, "worker lean, restored", "go-sdk lean, timeout"} {
				r.add(callTable(c), name, unitTime, float64(1000*(i+10)*(k+1)))
			}
		}
		r.add(tableMemory, "worker go, idle", unitMiB, 0.5)
		r.add(tableMany, "1 modules: warm call", unitTime, 5)
		r.addLine(tableRestore, strings.Fields("BenchmarkRestore/Go/tracked-2 	 100	 5000 ns/op	 60000 median-restore-ns"))
		r.addLine(tableMicro, strings.Fields("BenchmarkSpawn-2 	 100	 5000 ns/op"))
	}
	a := artefactsIn(t.TempDir(), "")
	a.missing[guestC] = "no clang"
	text, err := r.report(context.Background(), a)
	require.NoError(t, err)
	require.Contains(t, text, "| worker lean, restored | 37.5 µs |")
	require.Contains(t, text, "| restore to fresh state, Go module | ≤ 0.1 ms | 60.0 µs | **met** |")
	require.Contains(t, text, "not measured")
	require.NotContains(t, text, "syntax error", "benchstat ends with 0 after an error")
	require.Contains(t, text, "worker-lean-restored")
}
