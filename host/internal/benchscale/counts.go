package main

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// counts are the counters of the operator's metrics endpoint.
type counts struct {
	passes, calls, wakes float64
	// requests to the API server by HTTP method, the opening of watches included.
	requests map[string]float64
	// heap is bytes in use, and goroutines are those that exist, at the moment.
	heap, goroutines float64
}

// minus is what was counted since.
func (c counts) minus(o counts) counts {
	c.passes, c.calls, c.wakes = c.passes-o.passes, c.calls-o.calls, c.wakes-o.wakes
	c.requests = maps.Clone(c.requests)
	for method, n := range o.requests {
		c.requests[method] -= n
	}
	return c
}

// writes are the requests that change something, and reads the others: those that are
// not answered by a cache.
func (c counts) writes() float64 {
	return c.requests["POST"] + c.requests["PUT"] + c.requests["PATCH"] + c.requests["DELETE"]
}

func (c counts) reads() float64 { return c.requests["GET"] }

func (c counts) all() float64 {
	sum := 0.0
	for _, method := range slices.Sorted(maps.Keys(c.requests)) {
		sum += c.requests[method]
	}
	return sum
}

// parseCounts reads Prometheus text.
func parseCounts(page []byte) (counts, error) {
	c := counts{requests: map[string]float64{}}
	lines := bufio.NewScanner(bytes.NewReader(page))
	lines.Buffer(nil, 1<<20) // label values of client-go's metrics are long
	for lines.Scan() {
		name, labels, value, ok := series(lines.Text())
		if !ok {
			continue
		}
		switch name {
		case "caisson_passes_total":
			c.passes += value
		case "caisson_module_calls_total":
			c.calls += value
		case "controller_runtime_reconcile_total":
			if labels["controller"] == "stack" {
				c.wakes += value
			}
		case "rest_client_requests_total":
			c.requests[labels["method"]] += value
		case "go_memstats_heap_inuse_bytes":
			c.heap = value
		case "go_goroutines":
			c.goroutines = value
		}
	}
	if err := lines.Err(); err != nil {
		return c, fmt.Errorf("read metrics: %w", err)
	}
	return c, nil
}

// series splits a line into the name, the labels and the value. The labels of interest
// hold no quotes and no commas.
func series(line string) (name string, labels map[string]string, value float64, ok bool) {
	i := strings.LastIndexByte(line, ' ')
	if i < 0 || strings.HasPrefix(line, "#") {
		return "", nil, 0, false
	}
	value, err := strconv.ParseFloat(line[i+1:], 64)
	if err != nil {
		return "", nil, 0, false
	}
	name, rest, _ := strings.Cut(line[:i], "{")
	labels = map[string]string{}
	for pair := range strings.SplitSeq(strings.TrimSuffix(rest, "}"), ",") {
		if key, quoted, found := strings.Cut(pair, "="); found {
			labels[key] = strings.Trim(quoted, `"`)
		}
	}
	return name, labels, value, true
}
