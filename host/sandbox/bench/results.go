package main

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/perf/benchmath"
)

// The units of a value.
const (
	unitTime = "ns"
	unitMiB  = "MiB"
)

// confidence is that of every interval.
const confidence = 0.95

// results are the values of every row, one for each round.
type results struct {
	set    settings
	took   time.Duration
	tables []string
	rows   map[string][]string
	values map[string][]float64
	units  map[string]string
}

func newResults(set settings) *results {
	return &results{set: set, rows: map[string][]string{}, values: map[string][]float64{}, units: map[string]string{}}
}

func key(table, name string) string { return table + "\x00" + name }

// declare gives a table and a row of it their place in the report, after those before.
func (r *results) declare(table, name string) {
	if !slices.Contains(r.tables, table) {
		r.tables = append(r.tables, table)
	}
	if !slices.Contains(r.rows[table], name) {
		r.rows[table] = append(r.rows[table], name)
	}
}

func (r *results) add(table, name, unit string, value float64) {
	k := key(table, name)
	r.declare(table, name)
	r.values[k], r.units[k] = append(r.values[k], value), unit
}

// summary is the median of a row and its confidence interval, as benchstat computes them:
// nothing is assumed of the distribution.
func (r *results) summary(table, name string) (benchmath.Summary, bool) {
	return summarize(r.values[key(table, name)])
}

func summarize(values []float64) (benchmath.Summary, bool) {
	if len(values) == 0 {
		return benchmath.Summary{}, false
	}
	return benchmath.AssumeNothing.Summary(benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds), confidence), true
}

// ratio is the median of the ratios of a row to another in the same rounds, with its
// interval, and the probability that the two differ by chance.
func (r *results) ratio(table, name, base string) (benchmath.Summary, float64, bool) {
	a, b := r.values[key(table, name)], r.values[key(table, base)]
	if len(a) == 0 || len(a) != len(b) {
		return benchmath.Summary{}, 1, false
	}
	ratios := make([]float64, len(a))
	for i := range a {
		if b[i] == 0 {
			return benchmath.Summary{}, 1, false
		}
		ratios[i] = a[i] / b[i]
	}
	s, ok := summarize(ratios)
	compared := benchmath.AssumeNothing.Compare(
		benchmath.NewSample(slices.Clone(a), &benchmath.DefaultThresholds), benchmath.NewSample(slices.Clone(b), &benchmath.DefaultThresholds))
	return s, compared.P, ok
}

// show renders a value of a unit.
func show(unit string, value float64) string {
	if unit == unitMiB {
		return fmt.Sprintf("%.2f MiB", value)
	}
	switch {
	case value >= 1e9:
		return fmt.Sprintf("%.2f s", value/1e9)
	case value >= 1e6:
		return fmt.Sprintf("%.2f ms", value/1e6)
	case value >= 1e3:
		return fmt.Sprintf("%.1f µs", value/1e3)
	default:
		return fmt.Sprintf("%.0f ns", value)
	}
}
