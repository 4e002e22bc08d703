package host

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/sandbox"
)

func TestSandboxMetrics(t *testing.T) {
	stats := sandbox.Stats{Workers: 3, IdleWorkers: 2, Compilations: 5, Discarded: 1, RestoredCalls: 70, FreshCalls: 8}
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(newSandboxMetrics(func() sandbox.Stats { return stats })))
	read := func() map[string]float64 {
		families, err := registry.Gather()
		require.NoError(t, err)
		values := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				name := f.GetName()
				for _, l := range m.GetLabel() {
					name += " " + l.GetValue()
				}
				values[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
		return values
	}
	require.Equal(t, map[string]float64{
		"caisson_sandbox_workers": 3, "caisson_sandbox_workers_idle": 2, "caisson_sandbox_compilations_total": 5,
		"caisson_sandbox_native_discarded_total": 1, "caisson_sandbox_calls_total restored": 70, "caisson_sandbox_calls_total fresh": 8,
	}, read())
	stats.RestoredCalls++
	require.InDelta(t, 71, read()["caisson_sandbox_calls_total restored"], 0)
}
