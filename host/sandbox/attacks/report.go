package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

const (
	// slowdown is how much longer than undisturbed the slowest hundredth of the neighbour's
	// changes may take. The target is 1.5, the rest is for a machine that others use too:
	// what is measured here is more than a pass, namely the API server as well.
	slowdown = 2.5
	// unnoticed is what a change may take in any case, in milliseconds.
	unnoticed = 150
)

// result is what became of one attack.
type result struct {
	Name    string               `json:"name"`
	Tries   string               `json:"tries"`
	By      wasmtest.Containment `json:"containedBy"`
	Want    []string             `json:"want"`
	Got     string               `json:"got"`
	Said    string               `json:"said,omitempty"`
	Seconds float64              `json:"seconds"`
	During  sample               `json:"during"`
	Problem string               `json:"problem,omitempty"`
}

// contained says that it ended as expected.
func (r result) contained() bool { return slices.Contains(r.Want, r.Got) }

func (r result) mark() string {
	if r.contained() {
		return ""
	}
	return strings.TrimSpace("NOT CONTAINED " + r.Problem)
}

// report is the whole run.
type report struct {
	// Calm is what was seen when nobody else did anything.
	Calm sample `json:"calm"`
	// Honest is what was seen when a harmless module was in the place of an attack.
	Honest  sample   `json:"honest"`
	Attacks []result `json:"attacks"`
	// Ended is the end of the operator's log, if it ended.
	Ended string `json:"operatorEnded,omitempty"`
}

// percentile returns the value below which a share of sorted numbers is, or 0 for none.
func percentile(sorted []float64, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(math.Ceil(share*float64(len(sorted))))-1)]
}

// attacked are the neighbour's changes during all attacks.
func (r *report) attacked() []float64 {
	var all []float64
	for _, a := range r.Attacks {
		all = append(all, a.During.Changes...)
	}
	slices.Sort(all)
	return all
}

// verdict is nil if everything was contained and nobody was hurt.
func (r *report) verdict() error {
	var errs []error
	for _, a := range r.Attacks {
		if !a.contained() {
			errs = append(errs, fmt.Errorf("%s is not contained: wanted %s, got %s (%s) %s", a.Name, strings.Join(a.Want, " or "), a.Got, a.Said, a.Problem))
		}
		if a.During.LeaseMissed > 0 {
			errs = append(errs, fmt.Errorf("%s: %d renewals of the lease were missed", a.Name, a.During.LeaseMissed))
		}
	}
	if r.Ended != "" {
		errs = append(errs, fmt.Errorf("the operator has ended:\n%s", r.Ended))
	}
	calm, now := percentile(r.Calm.Changes, 0.99), percentile(r.attacked(), 0.99)
	if target := max(calm*slowdown, unnoticed); now > target {
		errs = append(errs, fmt.Errorf("the neighbour's slowest changes take %.0f ms, the target is %.0f ms", now, target))
	}
	return errors.Join(errs...)
}

func megabytes(bytes int64) int64 { return bytes >> 20 }

// ratio compares the neighbour's usual change with the undisturbed one.
func (r *report) ratio(s sample) string {
	calm := percentile(r.Calm.Changes, 0.5)
	if calm == 0 || len(s.Changes) == 0 {
		return "-" // it was over before the neighbour changed once
	}
	return fmt.Sprintf("%.1f", percentile(s.Changes, 0.5)/calm)
}

// rows are the cells of the table.
func (r *report) rows() [][]string {
	rows := [][]string{{"attack", "contained by", "as", "s", "worker MB", "operator MB", "neighbour", "heartbeat ms", "lease missed"}}
	for _, a := range r.Attacks {
		as := strings.TrimSpace(a.Got)
		if as == "node" {
			as = "node OK"
		}
		if !a.contained() {
			as = "NOT CONTAINED: " + as
		}
		rows = append(rows, []string{
			a.Name, string(a.By), as, fmt.Sprintf("%.1f", a.Seconds), fmt.Sprint(megabytes(a.During.WorkerBytes)), fmt.Sprint(megabytes(a.During.OperatorBytes)),
			r.ratio(a.During), fmt.Sprintf("%.0f", a.During.HeartbeatGap), fmt.Sprint(a.During.LeaseMissed),
		})
	}
	return rows
}

// summary says in sentences what the table says.
func (r *report) summary() string {
	contained, gap, missed := 0, 0.0, 0
	for _, a := range r.Attacks {
		if a.contained() {
			contained++
		}
		gap, missed = max(gap, a.During.HeartbeatGap), missed+a.During.LeaseMissed
	}
	calm, all := r.Calm.Changes, r.attacked()
	text := fmt.Sprintf("%d of %d attacks contained. A change of the neighbour takes %s undisturbed, %s beside a harmless module that comes and goes, and %s under attack",
		contained, len(r.Attacks), times(calm), times(r.Honest.Changes), times(all))
	if slowest := percentile(calm, 0.99); slowest > 0 {
		text += fmt.Sprintf("; the slowest hundredth %.1f and %.1f times as long", percentile(r.Honest.Changes, 0.99)/slowest, percentile(all, 0.99)/slowest)
	}
	return text + fmt.Sprintf(".\nThe operator never left a probe unanswered for longer than %.0f ms (undisturbed %.0f) and missed %d renewals of its lease.\n",
		gap, r.Calm.HeartbeatGap, missed)
}

// times says how long changes took, of sorted ones.
func times(changes []float64) string {
	return fmt.Sprintf("%.0f ms (p99 %.0f, n=%d)", percentile(changes, 0.5), percentile(changes, 0.99), len(changes))
}

// table is the report for a terminal.
func (r *report) table() string {
	rows := r.rows()
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			line += fmt.Sprintf("%-*s  ", widths[i], cell)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String() + "\n" + r.summary()
}

// markdown is the report as the page ATTACKS.md.
func (r *report) markdown() string {
	var b strings.Builder
	b.WriteString("# Attacks\n\nWritten by `make attack`, which lets each of these modules loose on an operator that runs; the table of them is internal/wasmtest.\n\n")
	b.WriteString(r.summary())
	b.WriteString("\n*As* is the reason that the Module, or the node of a Stack, ends with. *Neighbour* is how long a change of another tenant's Stack takes, as a multiple of undisturbed.\n\n")
	for i, row := range r.rows() {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString("|" + strings.Repeat("---|", len(row)) + "\n")
		}
	}
	b.WriteString("\n## What they try\n\n")
	for _, a := range r.Attacks {
		fmt.Fprintf(&b, "* `%s`: %s\n", a.Name, a.Tries)
	}
	return b.String()
}
