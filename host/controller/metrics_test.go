package controller

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/plan"
	"github.com/caisson-dev/caisson/host/provisioner"
)

func TestMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m, err := NewMetrics(registry)
	require.NoError(t, err)
	m.observePass(passResult{nodes: []plan.Result{
		result("all", v1alpha1.KindSerial, "OK", ""), result("all/cni", v1alpha1.KindModule, "OK", ""), result("all/app", v1alpha1.KindApplication, "OK", ""),
	}}, time.Second)
	m.observePass(passResult{outcome: provisioner.OutcomeOf(provisioner.Yield(abi.ReasonFactsMissing, ""))}, time.Second)
	m.observeCall("cilium", abi.ExportProvision, 0, nil, time.Second)
	m.observeCall("cilium", abi.ExportProvision, 1, nil, time.Second)
	m.observeCall("cilium", abi.ExportProvision, 7, nil, time.Second)
	m.observeCall("cilium", abi.ExportProvision, -1, nil, time.Second)
	m.observeCall("cilium", abi.ExportProvision, 0, errors.New("trap"), time.Second)
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP caisson_module_calls_total Calls of modules, by module, export and result: a disposition or a fault.
# TYPE caisson_module_calls_total counter
caisson_module_calls_total{export="provision",module="cilium",result="OK"} 1
caisson_module_calls_total{export="provision",module="cilium",result="Yield"} 1
caisson_module_calls_total{export="provision",module="cilium",result="fault"} 1
caisson_module_calls_total{export="provision",module="cilium",result="invalid"} 2
# HELP caisson_node_outcomes_total Outcomes of leaves, by kind and disposition.
# TYPE caisson_node_outcomes_total counter
caisson_node_outcomes_total{disposition="OK",kind="application"} 1
caisson_node_outcomes_total{disposition="OK",kind="module"} 1
# HELP caisson_passes_total Passes of Stacks, by the phase that they ended in.
# TYPE caisson_passes_total counter
caisson_passes_total{phase="Provisioned"} 1
caisson_passes_total{phase="Provisioning"} 1
`), "caisson_module_calls_total", "caisson_node_outcomes_total", "caisson_passes_total"))
	require.Equal(t, 1, testutil.CollectAndCount(m.passSeconds))
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestMetricsTwice(t *testing.T) {
	registry := prometheus.NewRegistry()
	_, err := NewMetrics(registry)
	require.NoError(t, err)
	_, err = NewMetrics(registry)
	require.Error(t, err, "two hosts in one process need registries of their own")
}
