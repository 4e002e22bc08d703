package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// target is something that the sandbox is to reach.
type target struct {
	what, limit string
	// measure returns the value, whether it is good enough, and whether it was measured.
	measure func() (value string, met, measured bool)
}

// targets are those of the project's performance goals that are about the sandbox; the
// others are measured where a control plane is.
func (r *results) targets(a *artefacts) []target {
	call := callTable(typical())
	below := func(table, name, base string, limit float64) func() (string, bool, bool) {
		return func() (string, bool, bool) {
			s, _, ok := r.ratio(table, name, base)
			return fmt.Sprintf("%.2f× (%.2f – %.2f)", s.Center, s.Lo, s.Hi), s.Center <= limit, ok
		}
	}
	value := func(table, name string, limit float64) func() (string, bool, bool) {
		return func() (string, bool, bool) {
			s, ok := r.summary(table, name)
			return show(r.units[key(table, name)], s.Center), s.Center <= limit, ok
		}
	}
	const ms = 1e6
	targets := []target{
		{"lean Go module, fresh state, in the worker, 4 KB, 3 host calls", "≤ 1.0× go-plugin", below(call, "worker lean, restored", wayPlugin, 1)},
		{"the same, moonshot", "≤ 0.5× go-plugin", below(call, "worker lean, restored", wayPlugin, 0.5)},
		{"Go module with encoding/json, the same call", "≤ 1.0× go-plugin", below(call, "worker go, restored", wayPlugin, 1)},
		{"C module, the same call", "≤ 0.2× go-plugin", below(call, "worker C, restored", wayPlugin, 0.2)},
		{"lean Go module against go-sdk with a timeout", "≤ 0.25×", below(call, "worker lean, restored", "go-sdk lean, timeout", 0.25)},
		{"Go module with encoding/json against go-sdk with a timeout", "≤ 0.25×", below(call, "worker go, restored", "go-sdk go, timeout", 0.25)},
		{"C module against go-sdk with a timeout", "≤ 0.25×", below(call, "worker C, restored", "go-sdk C, timeout", 0.25)},
		{"restore to fresh state, Go module", "≤ 0.1 ms", value(tableRestore, "Restore/Go/tracked", 0.1*ms)},
		{"restore to fresh state, small module", "≤ 0.01 ms", value(tableRestore, "Restore/Small/tracked", 0.01*ms)},
		{"cached load of a lean Go module to the first result", "≤ 0.15 s", value(tableCached, "worker lean", 150*ms)},
		{"cached load of a Go module with encoding/json to the first result", "≤ 0.15 s", value(tableCached, "worker go", 150*ms)},
		{"active lean Go module", "≤ 10 MiB", value(tableMemory, "worker lean, active", 10)},
		{"active Go module with encoding/json", "≤ 10 MiB", value(tableMemory, "worker go, active", 10)},
		{"one more active instance of the lean Go module", "≤ 10 MiB", value(tableMemory, "worker lean, one more for another tenant", 10)},
		{"one more active instance of the Go module with encoding/json", "≤ 10 MiB", value(tableMemory, "worker go, one more for another tenant", 10)},
		{"active lean Go module, without pages of files", "≤ 10 MiB", value(tableMemory, "worker lean, active, without pages of files", 10)},
		{"active Go module with encoding/json, without pages of files", "≤ 10 MiB", value(tableMemory, "worker go, active, without pages of files", 10)},
		{"idle Go module", "≤ 1 MiB", value(tableMemory, "worker go, idle", 1)},
		{"Go module whose config goes through encoding/json", "≤ 5.5 MB", size(len(a.guests[guestGo]), 5.5)},
	}
	for _, name := range slices.Sorted(maps.Keys(a.firstParty)) {
		targets = append(targets, target{"first-party module " + name, "≤ 3.5 MB", size(a.firstParty[name], 3.5)})
	}
	return targets
}

// size compares a number of bytes with a limit in megabytes.
func size(bytes int, limit float64) func() (string, bool, bool) {
	return func() (string, bool, bool) {
		return fmt.Sprintf("%.2f MB", float64(bytes)/1e6), float64(bytes) <= limit*1e6, bytes > 0
	}
}

// writeTargets writes each target with what was measured.
func (r *results) writeTargets(b *strings.Builder, a *artefacts) {
	fmt.Fprint(b, "## Targets\n\n| what | target | measured | |\n|---|---|---|---|\n")
	for _, t := range r.targets(a) {
		value, met, measured := t.measure()
		verdict := "missed"
		switch {
		case !measured:
			value, verdict = "–", "not measured"
		case met:
			verdict = "met"
		}
		fmt.Fprintf(b, "| %s | %s | %s | **%s** |\n", t.what, t.limit, value, verdict)
	}
	fmt.Fprint(b, "\nWhat needs a control plane (memory with 1,000 Stacks, no-op passes, time to Available, neighbours of an\nattacked module) is measured by the tests that have one.\n\n")
}
