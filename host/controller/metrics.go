package controller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caisson-dev/caisson/abi"
)

// Metrics counts what the operator does. Labels are from closed vocabularies, so their
// number is bounded.
type Metrics struct {
	passes      *prometheus.CounterVec
	passSeconds prometheus.Histogram
	nodes       *prometheus.CounterVec
	calls       *prometheus.CounterVec
	callSeconds *prometheus.HistogramVec
}

// NewMetrics makes the collectors and registers them.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		passes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "caisson_passes_total", Help: "Passes of Stacks, by the phase that they ended in.",
		}, []string{"phase"}),
		passSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "caisson_pass_seconds", Help: "How long passes took.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
		}),
		nodes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "caisson_node_outcomes_total", Help: "Outcomes of leaves, by kind and disposition.",
		}, []string{"kind", "disposition"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "caisson_module_calls_total", Help: "Calls of modules, by module, export and result: a disposition or a fault.",
		}, []string{"module", "export", "result"}),
		callSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "caisson_module_call_seconds", Help: "How long calls of modules took.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 17),
		}, []string{"module"}),
	}
	for _, c := range []prometheus.Collector{m.passes, m.passSeconds, m.nodes, m.calls, m.callSeconds} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) observePass(r passResult, took time.Duration) {
	m.passes.WithLabelValues(phaseOf(r)).Inc()
	m.passSeconds.Observe(took.Seconds())
	for _, n := range r.nodes {
		if n.Kind == "module" || n.Kind == "application" {
			m.nodes.WithLabelValues(n.Kind, n.State).Inc()
		}
	}
}

// observeCall counts one call of a module. err is a fault, or nil.
func (m *Metrics) observeCall(module, export string, code int32, err error, took time.Duration) {
	result := abi.Disposition(code).String()
	if !abi.Disposition(code).Valid() {
		result = "invalid"
	}
	if err != nil {
		result = "fault"
	}
	m.calls.WithLabelValues(module, export, result).Inc()
	m.callSeconds.WithLabelValues(module).Observe(took.Seconds())
}
