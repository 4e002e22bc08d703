package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// settings are how long the run is.
type settings struct {
	// count is how many rounds there are, slice how long a row is timed in each.
	count int
	slice time.Duration
	// modules are how many modules the rows about their number have.
	modules []int
	// out is where the report goes.
	out string
}

// readSettings reads BENCH_COUNT, BENCH_SLICE, BENCH_MODULES and BENCH_OUT.
func readSettings() (settings, error) {
	s := settings{count: 10, slice: 40 * time.Millisecond, modules: []int{1, 10, 100, 1000}, out: filepath.Join("host", "sandbox", "BENCHMARKS.md")}
	var err error
	if text := os.Getenv("BENCH_COUNT"); text != "" {
		if s.count, err = strconv.Atoi(text); err != nil || s.count < 1 {
			return s, fmt.Errorf("BENCH_COUNT must be a positive number, not %q", text)
		}
	}
	if text := os.Getenv("BENCH_SLICE"); text != "" {
		if s.slice, err = time.ParseDuration(text); err != nil {
			return s, fmt.Errorf("read BENCH_SLICE: %w", err)
		}
	}
	if text := os.Getenv("BENCH_MODULES"); text != "" {
		limit, err := strconv.Atoi(text)
		if err != nil || limit < 1 {
			return s, fmt.Errorf("BENCH_MODULES must be a positive number, not %q", text)
		}
		kept := s.modules[:0]
		for _, n := range s.modules {
			if n <= limit {
				kept = append(kept, n)
			}
		}
		s.modules = kept
	}
	if text := os.Getenv("BENCH_OUT"); text != "" {
		s.out = text
	}
	return s, nil
}

func run(ctx context.Context) (err error) {
	if len(os.Args) > 2 && os.Args[1] == measureArgument {
		return measureChild(ctx, os.Args[2:])
	}
	set, err := readSettings()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "caisson-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	began := time.Now()
	progress("building the worker and the guests")
	built, err := build(ctx, dir)
	if err != nil {
		return err
	}
	r := newResults(set)
	for _, step := range []struct {
		name string
		do   func(context.Context, settings, *artefacts, *results) error
	}{
		{"calls", measureCalls},
		{"loading", measureLoads},
		{"throughput", measureThroughput},
		{"memory", measureMemory},
		{"many modules", measureMany},
		{"micro-benchmarks", measureMicro},
	} {
		progress("%s", step.name)
		if err := step.do(ctx, set, built, r); err != nil {
			return fmt.Errorf("measure %s: %w", step.name, err)
		}
	}
	r.took = time.Since(began)
	text, err := r.report(ctx, built)
	if err != nil {
		return err
	}
	fmt.Print(text)
	if err := os.WriteFile(set.out, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	progress("written to %s after %s", set.out, r.took.Round(time.Second))
	return nil
}

// progress tells what is happening, on standard error.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}
