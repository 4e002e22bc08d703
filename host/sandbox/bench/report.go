package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// report writes the page.
func (r *results) report(ctx context.Context, a *artefacts) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, `# Benchmarks of the sandbox

Made by %s; do not edit. %d rounds, %s, %s/%s with %d cores, %s.

Rows of a table were timed in turns, in another order each round. Times are medians with a
95 %% confidence interval, as benchstat computes it. Ratios are medians of the ratios within
a round: they hold on a busy machine, where the times drift. p is the probability that a row
and go-plugin differ by chance only (Mann-Whitney). Every way does the same work: the JSON
envelope in, the host calls with JSON both ways, the JSON output; that is checked before
anything is timed. What a row is, and how to read it, is in [bench/README.md](bench/README.md).

`, "`make bench`", r.set.count, runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), "it took "+r.took.Round(time.Second).String())
	r.writeTargets(&b, a)
	for _, table := range r.tables {
		r.writeTable(&b, table)
	}
	for guest, why := range a.missing {
		fmt.Fprintf(&b, "The guest %s is missing: %s\n\n", guest, strings.TrimSpace(why))
	}
	stat, err := r.benchstat(ctx, a.dir)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&b, "## benchstat\n\nThe calls again, as benchstat shows them.\n\n```\n%s```\n", stat)
	return b.String(), nil
}

// writeTable writes a table, with ratios where it has the baselines.
func (r *results) writeTable(b *strings.Builder, table string) {
	rows := r.rows[table]
	fmt.Fprintf(b, "## %s\n\n", table)
	native, plugin := slices.Contains(rows, wayNative), slices.Contains(rows, wayPlugin)
	head, rule := "| | median | 95 % |", "|---|---|---|"
	if native {
		head, rule = head+" × native |", rule+"---|"
	}
	if plugin {
		head, rule = head+" × go-plugin | 95 % | p |", rule+"---|---|---|"
	}
	fmt.Fprintln(b, head+"\n"+rule)
	for _, name := range r.sorted(table) {
		s, _ := r.summary(table, name)
		unit := r.units[key(table, name)]
		fmt.Fprintf(b, "| %s | %s | %s |", name, show(unit, s.Center), interval(len(r.values[key(table, name)]), s.Lo, s.Hi, func(v float64) string { return show(unit, v) }))
		if native {
			ratio, _, _ := r.ratio(table, name, wayNative)
			fmt.Fprintf(b, " %.2f |", ratio.Center)
		}
		if plugin {
			ratio, p, _ := r.ratio(table, name, wayPlugin)
			fmt.Fprintf(b, " %.2f | %s | %.3f |", ratio.Center, interval(len(r.values[key(table, name)]), ratio.Lo, ratio.Hi, func(v float64) string { return fmt.Sprintf("%.2f", v) }), p)
		}
		fmt.Fprintln(b)
	}
	fmt.Fprintln(b)
}

// sorted puts the baselines first.
func (r *results) sorted(table string) []string {
	rows := slices.Clone(r.rows[table])
	if table == tableMany {
		return rows
	}
	rank := func(name string) int { return slices.Index([]string{wayPlugin, wayNative}, name) }
	slices.SortFunc(rows, func(a, b string) int {
		if x, y := rank(a), rank(b); x != y {
			return y - x
		}
		return strings.Compare(a, b)
	})
	return rows
}

// interval renders a confidence interval; of fewer than six values there is none.
func interval(n int, low, high float64, show func(float64) string) string {
	if n < 6 {
		return fmt.Sprintf("n = %d", n)
	}
	return show(low) + " – " + show(high)
}

// benchstat writes the calls in Go's benchmark format and has benchstat compare them with
// go-plugin.
func (r *results) benchstat(ctx context.Context, dir string) (string, error) {
	file, err := os.CreateTemp(dir, "calls-*.txt")
	if err != nil {
		return "", err
	}
	var ways []string
	var lines bytes.Buffer
	for _, table := range r.tables {
		if !slices.Contains(r.rows[table], wayNative) || table == tableThroughput {
			continue
		}
		for _, name := range r.sorted(table) {
			way := strings.NewReplacer(", ", "-", " ", "-").Replace(name) // a comma would end a value of -col
			if !slices.Contains(ways, way) {
				ways = append(ways, way)
			}
			size, calls := 0, 0
			if _, err := fmt.Sscanf(table, "One call: %d KB envelope, %d host calls", &size, &calls); err != nil {
				return "", fmt.Errorf("read the name of a table: %w", err)
			}
			for _, value := range r.values[key(table, name)] {
				fmt.Fprintf(&lines, "BenchmarkCall/size=%dKB/calls=%d/way=%s 1 %f ns/op\n", size, calls, way, value)
			}
		}
	}
	_, err = file.Write(lines.Bytes())
	if closing := file.Close(); err != nil || closing != nil {
		return "", fmt.Errorf("write the values for benchstat: %w", err)
	}
	// go-plugin is the column that others are compared with.
	others := slices.DeleteFunc(slices.Clone(ways), func(way string) bool { return way == wayPlugin })
	var out strings.Builder
	for _, other := range others {
		cmd := exec.CommandContext(ctx, "go", "tool", "benchstat", "-table", ".config", "-row", "/size,/calls", "-col", "/way@("+wayPlugin+" "+other+")", file.Name())
		cmd.Dir = "host/sandbox/bench"
		cmd.Env = append(os.Environ(), "GOWORK=off")
		text, err := cmd.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("run benchstat: %w: %s", err, text)
		}
		for line := range strings.Lines(string(text)) {
			out.WriteString(strings.TrimRight(line, " \n") + "\n")
		}
		out.WriteByte('\n')
	}
	return out.String(), nil
}
