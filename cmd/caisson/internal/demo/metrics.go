package demo

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// counters reads the operator's metrics.
func (d *demo) counters(ctx context.Context) (counters, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.operator.Metrics+"/metrics", http.NoBody)
	if err != nil {
		return counters{}, fmt.Errorf("read metrics: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return counters{}, fmt.Errorf("read metrics: %w", err)
	}
	defer res.Body.Close() //nolint:errcheck // Nothing was written.
	if res.StatusCode != http.StatusOK {
		return counters{}, fmt.Errorf("read metrics: %s", res.Status)
	}
	return parseCounters(res.Body)
}

// parseCounters sums the samples that the table shows, out of Prometheus text.
func parseCounters(r io.Reader) (counters, error) {
	var c counters
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20) // label values of client-go's metrics are long
	for lines.Scan() {
		name, value, ok := sample(lines.Text())
		if !ok {
			continue
		}
		switch {
		case strings.HasPrefix(name, "caisson_module_calls_total{"):
			c.calls += value
		case strings.HasPrefix(name, "caisson_passes_total{"):
			c.passes += value
		case strings.HasPrefix(name, "caisson_node_outcomes_total{") && strings.Contains(name, `disposition="Yield"`):
			c.yields += value
		case strings.HasPrefix(name, "rest_client_requests_total{"):
			c.requests += value
		}
	}
	if err := lines.Err(); err != nil {
		return counters{}, fmt.Errorf("read metrics: %w", err)
	}
	return c, nil
}

// sample splits a line into the series and its value.
func sample(line string) (string, float64, bool) {
	i := strings.LastIndexByte(line, ' ')
	if i < 0 || strings.HasPrefix(line, "#") {
		return "", 0, false
	}
	value, err := strconv.ParseFloat(line[i+1:], 64)
	return line[:i], value, err == nil
}
