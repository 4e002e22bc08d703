package host

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caisson-dev/caisson/host/sandbox"
)

// sandboxMetrics reads the numbers of a sandbox when somebody asks for metrics.
type sandboxMetrics struct {
	stats func() sandbox.Stats

	workers, idle, calls, compilations, discarded *prometheus.Desc
}

func newSandboxMetrics(stats func() sandbox.Stats) *sandboxMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("caisson_sandbox_"+name, help, labels, nil)
	}
	return &sandboxMetrics{
		stats:        stats,
		workers:      desc("workers", "Worker processes that exist."),
		idle:         desc("workers_idle", "Worker processes that wait for a call."),
		calls:        desc("calls_total", "Calls that returned, by where their state came from: restored, or a fresh instance.", "state"),
		compilations: desc("compilations_total", "Modules that were compiled."),
		discarded:    desc("native_discarded_total", "Native code in the cache that was not what its seal says."),
	}
}

var _ prometheus.Collector = (*sandboxMetrics)(nil)

// Describe implements prometheus.Collector.
func (m *sandboxMetrics) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.workers, m.idle, m.calls, m.compilations, m.discarded} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (m *sandboxMetrics) Collect(metrics chan<- prometheus.Metric) {
	s := m.stats()
	gauge := func(d *prometheus.Desc, value int) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value))
	}
	counter := func(d *prometheus.Desc, value uint64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	gauge(m.workers, s.Workers)
	gauge(m.idle, s.IdleWorkers)
	counter(m.calls, s.RestoredCalls, "restored")
	counter(m.calls, s.FreshCalls, "fresh")
	counter(m.compilations, s.Compilations)
	counter(m.discarded, s.Discarded)
}
