package demo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// counters reads the operator's metrics.
func (d *demo) counters(ctx context.Context) (counters, error) {
	body, err := d.metrics(ctx)
	if err != nil {
		return counters{}, err
	}
	defer body.Close() //nolint:errcheck // Nothing was written.
	return parseCounters(body)
}

// metrics asks the operator for its metrics. The caller closes what comes back.
func (d *demo) metrics(ctx context.Context) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.operator.Metrics+"/metrics", http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("read metrics: %s", res.Status), res.Body.Close())
	}
	return res.Body, nil
}

// load is what an operator does, and to whom it speaks.
type load struct {
	counters
	home, remote float64
}

func (l load) minus(o load) load {
	return load{counters: l.counters.minus(o.counters), home: l.home - o.home, remote: l.remote - o.remote}
}

// load reads the operator's metrics, with its requests by cluster.
func (d *demo) load(ctx context.Context) (load, error) {
	body, err := d.metrics(ctx)
	if err != nil {
		return load{}, err
	}
	defer body.Close() //nolint:errcheck // Nothing was written.
	home, err := url.Parse(d.home.config.Host)
	if err != nil {
		return load{}, fmt.Errorf("read the address of home: %w", err)
	}
	return parseLoad(body, home.Host)
}

// parseLoad tells the requests to home from those to any other host.
func parseLoad(r io.Reader, home string) (load, error) {
	var text bytes.Buffer
	var l load
	lines := bufio.NewScanner(io.TeeReader(r, &text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, ok := sample(lines.Text())
		switch {
		case !ok || !strings.HasPrefix(name, "rest_client_requests_total{"):
		case strings.Contains(name, fmt.Sprintf("host=%q", home)):
			l.home += value
		default:
			l.remote += value
		}
	}
	if err := lines.Err(); err != nil {
		return load{}, fmt.Errorf("read metrics: %w", err)
	}
	var err error
	l.counters, err = parseCounters(&text)
	return l, err
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

// faults counts the calls of modules that gave no result.
func (d *demo) faults(ctx context.Context) (float64, error) {
	body, err := d.metrics(ctx)
	if err != nil {
		return 0, err
	}
	defer body.Close() //nolint:errcheck // Nothing was written.
	return parseFaults(body)
}

func parseFaults(r io.Reader) (float64, error) {
	var faults float64
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, ok := sample(lines.Text())
		if ok && strings.HasPrefix(name, "caisson_module_calls_total{") && strings.Contains(name, `result="fault"`) {
			faults += value
		}
	}
	if err := lines.Err(); err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	return faults, nil
}
