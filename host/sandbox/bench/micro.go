package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// The tables of benchmarks that are in the product's own test files, because they need
// what only tests may look at.
const (
	tableRestore = "Putting state back after a call"
	tableMicro   = "Parts of the host"
)

// measureMicro runs the product's own benchmarks.
func measureMicro(ctx context.Context, set settings, _ *artefacts, r *results) error {
	for _, run := range []struct{ pkg, pattern, table string }{
		{"./host/sandbox", "^BenchmarkRestore$", tableRestore},
		{"./host/sandbox", "^Benchmark(Spawn|Preflight|HostCall)$", tableMicro},
		{"./host/plan", ".", tableMicro},
		{"./host/scope", ".", tableMicro},
	} {
		cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", run.pattern, "-benchtime", "100ms", "-count", strconv.Itoa(max(3, set.count/2)), run.pkg)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("run the benchmarks of %s: %w: %s", run.pkg, err, out)
		}
		for line := range strings.Lines(string(out)) {
			r.addLine(run.table, strings.Fields(line))
		}
	}
	return nil
}

// addLine adds a line of Go's benchmark format; others are passed over.
func (r *results) addLine(table string, fields []string) {
	if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
		return
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(fields[0], "Benchmark"), "-")
	for i := 2; i+1 < len(fields); i += 2 {
		value, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return
		}
		switch unit := fields[i+1]; {
		case table == tableRestore && unit == "median-restore-ns", table != tableRestore && unit == "ns/op" && !strings.HasPrefix(name, "HostCall"):
			r.add(table, name, unitTime, value)
		case unit == "ns/hostcall":
			r.add(table, name, unitTime, value)
		}
	}
}
