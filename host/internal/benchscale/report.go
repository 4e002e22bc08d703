package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
)

// linearBelow is the exponent of growth up to which a measure counts as linear: twice the
// Stacks may cost 2.3 times as much. Runs on a busy machine differ by as much.
const linearBelow = 1.2

// preamble is the beginning of the report for people.
const preamble = `# How the operator grows with the number of Stacks

Written by ` + "`make bench-scale`" + `: a control plane and the operator as a process of its own, for each size anew. A Stack has ten nodes: a serial, a concurrent,
a conditional, and seven leaves, of which the applications are Helm releases of a chart with one object, and the others are modules out of 20 with 20 digests,
one of them written in Go. Twenty Stacks share a namespace and its ServiceAccount. There is no leader election and no resync while it is measured:
whatever is asked of the API server in the steady state would be asked for the sake of Stacks. The memory is that of the operator; its workers end
when they have been idle for five minutes, and there are two for each core at most.

`

// report is what a run has found.
type report struct {
	Rows     []row        `json:"rows"`
	Fairness []unfairness `json:"fairness,omitempty"`
}

func (r *report) json(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		*report
		Growth []growth `json:"growth"`
	}{r, r.growth()})
}

// growth says how a measure grows from one size to the next, as the exponent of the
// number of Stacks: 1 is linear, 0 is not at all, 2 is quadratic.
type growth struct {
	Measure  string  `json:"measure"`
	From     int     `json:"from"`
	To       int     `json:"to"`
	Exponent float64 `json:"exponent"`
	Linear   bool    `json:"linear"`
}

// growing are the measures that must not grow faster than the number of Stacks.
func growing() []struct {
	name string
	of   func(row) float64
} {
	return []struct {
		name string
		of   func(row) float64
	}{
		{"time to all Available", func(r row) float64 { return r.ReadySeconds }},
		{"CPU of the operator until then", func(r row) float64 { return r.UpCPUSeconds }},
		{"CPU of the workers until then", func(r row) float64 { return r.UpWorkerSeconds }},
		{"requests until then", func(r row) float64 { return r.UpReads + r.UpWrites }},
		{"memory above that without Stacks", func(r row) float64 { return r.ResidentBytes - r.EmptyBytes }},
		{"heap", func(r row) float64 { return r.HeapBytes }},
	}
}

func (r *report) growth() []growth {
	var found []growth
	for i := 1; i < len(r.Rows); i++ {
		before, after := r.Rows[i-1], r.Rows[i]
		if before.Applications != after.Applications || before.Stacks == after.Stacks {
			continue // They differ in more than the number of Stacks.
		}
		for _, m := range growing() {
			e := math.Log(m.of(after)/m.of(before)) / math.Log(float64(after.Stacks)/float64(before.Stacks))
			if math.IsNaN(e) || math.IsInf(e, 0) {
				continue // One of them was too little to be seen.
			}
			found = append(found, growth{Measure: m.name, From: before.Stacks, To: after.Stacks, Exponent: e, Linear: e <= linearBelow})
		}
	}
	return found
}

// quiet reports whether nothing happened in the window: no write, no read that a cache
// does not answer, no pass and no call. Watches end every few minutes and are opened
// again, which counts as a read each; that many are expected of the window.
func (r row) quiet() bool {
	return r.IdleWrites == 0 && r.IdlePasses == 0 && r.IdleCalls == 0 && r.IdleReads <= reopened(r.WindowSeconds)
}

// watchesOfAnOperator are its informers: Stacks, Modules, Applications, Secrets and
// ConfigMaps. Each is opened again every 5 to 10 minutes.
const watchesOfAnOperator = 5

func reopened(seconds float64) float64 {
	const soonest = 5 * 60
	return watchesOfAnOperator * math.Ceil(seconds/soonest)
}

// markdown writes the report for people.
func (r *report) markdown(out io.Writer) error {
	var b strings.Builder
	b.WriteString(preamble)
	fmt.Fprintf(&b, "Measured on %d cores (%s/%s). Absolute numbers depend on the machine; growth does not.\n\n", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
	lines := []struct {
		name string
		of   func(row) string
	}{
		{"Stacks", func(r row) string { return fmt.Sprint(r.Stacks) }},
		{"nodes each, applications among them", func(r row) string { return fmt.Sprintf("%d, %d", r.Nodes, r.Applications) }},
		{"time to all Available", func(r row) string { return fmt.Sprintf("%.1f s", r.ReadySeconds) }},
		{"- for each Stack: time", func(r row) string { return r.each(r.ReadySeconds*1000, "ms") }},
		{"- CPU of the operator", func(r row) string { return r.each(r.UpCPUSeconds*1000, "ms") }},
		{"- CPU of the workers", func(r row) string { return r.each(r.UpWorkerSeconds*1000, "ms") }},
		{"- passes", func(r row) string { return r.each(r.UpPasses, "") }},
		{"- module calls", func(r row) string { return r.each(r.UpCalls, "") }},
		{"- reads, writes", func(r row) string { return r.each(r.UpReads, "") + ", " + r.each(r.UpWrites, "") }},
		{"steady state, for a minute: writes", func(r row) string { return r.minute(r.IdleWrites) }},
		{"- reads that no cache answers", func(r row) string { return r.minute(r.IdleReads) }},
		{"- module calls", func(r row) string { return r.minute(r.IdleCalls) }},
		{"- passes", func(r row) string { return r.minute(r.IdlePasses) }},
		{"- CPU of the operator", func(r row) string { return fmt.Sprintf("%.2f s", r.IdleCPUShare*60) }},
		{"memory without Stacks", func(r row) string { return mebibytes(r.EmptyBytes) }},
		{"memory, resident", func(r row) string { return mebibytes(r.ResidentBytes) }},
		{"- at its peak", func(r row) string { return mebibytes(r.PeakBytes) }},
		{"- of it heap", func(r row) string { return mebibytes(r.HeapBytes) }},
		{"- for each Stack", func(r row) string { return r.each((r.ResidentBytes-r.EmptyBytes)/1024, "KiB") }},
		{"goroutines", func(r row) string { return fmt.Sprintf("%.0f", r.Goroutines) }},
		{"a change of one Stack to Available, median", func(r row) string { return fmt.Sprintf("%.0f ms", r.OneMoreSeconds*1000) }},
		{"quiet between resyncs", func(r row) string { return yes(r.quiet()) }},
	}
	for i, line := range lines {
		fmt.Fprintf(&b, "| %s |", line.name)
		for _, r := range r.Rows {
			fmt.Fprintf(&b, " %s |", line.of(r))
		}
		b.WriteString("\n")
		if i == 0 {
			b.WriteString("|---|" + strings.Repeat("---:|", len(r.Rows)) + "\n")
		}
	}
	if g := r.growth(); len(g) > 0 {
		fmt.Fprintf(&b, "\nGrowth, as the exponent of the number of Stacks (1 is linear; up to %.1f counts as such):\n\n| measure | from | to | exponent | linear |\n|---|---:|---:|---:|---|\n", linearBelow)
		for _, x := range g {
			fmt.Fprintf(&b, "| %s | %d | %d | %.2f | %s |\n", x.Measure, x.From, x.To, x.Exponent, yes(x.Linear))
		}
	}
	if len(r.Fairness) > 0 {
		b.WriteString("\nFairness: a change of a Stack that behaves, until it is Available, while others misbehave; each line on top of those before.\n\n| trouble | median | p95 | median against none | p95 against none |\n|---|---:|---:|---:|---:|\n")
		for _, f := range r.Fairness {
			fmt.Fprintf(&b, "| %s | %.0f ms | %.0f ms | ×%.2f | ×%.2f |\n", f.Trouble, f.MedianSeconds*1000, f.WorstSeconds*1000, f.Ratio, f.WorstRatio)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (r row) each(sum float64, unit string) string {
	return strings.TrimSpace(fmt.Sprintf("%.1f %s", sum/float64(r.Stacks), unit))
}

func (r row) minute(count float64) string {
	return fmt.Sprintf("%.0f", count*60/math.Max(r.WindowSeconds, 1))
}

func mebibytes(b float64) string { return fmt.Sprintf("%.0f MiB", b/(1<<20)) }

func yes(holds bool) string { //nolint:revive // It is what is printed.
	if holds {
		return "yes"
	}
	return "**no**"
}
