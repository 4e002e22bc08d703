package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/guest-sdk/guesttest"
)

// config is what a node passes, as a person writes it.
type config = map[string]any

func workload() guesttest.Option { return guesttest.Remote("workload", "203.0.113.7", 6443) }

func TestLife(t *testing.T) {
	h := guesttest.New(t, module, workload())
	cfg := config{"podCIDR": "10.244.0.0/16", "controlPlanes": 3}

	require.Equal(t, "Yield application_installing", h.Provision(cfg).String())
	h.AppReady("")
	require.Equal(t, "OK", h.Provision(cfg).String())

	cfg["controlPlanes"] = 1
	require.Equal(t, "Yield application_upgrading", h.Provision(cfg).String())
	h.AppReady("")
	require.Equal(t, "OK", h.Provision(cfg).String())

	require.Equal(t, "Yield application_deleting", h.Deprovision(cfg).String())
	h.AppGone("")
	require.Equal(t, "OK", h.Deprovision(cfg).String())
	require.Equal(t, "OK", h.Deprovision(cfg).String(), "what is gone stays gone")

	h.Golden("testdata/life.trace")
}

func TestValues(t *testing.T) {
	cases := map[string]struct {
		reason    string
		planes    int
		operators float64
	}{
		"Unknown": {reason: "an unknown control plane is taken for a replicated one", planes: 0, operators: 2},
		"Single":  {reason: "two operators never fit on one machine", planes: 1, operators: 1},
		"Three":   {reason: "two operators fail over", planes: 3, operators: 2},
		"Five":    {reason: "more machines do not need more operators", planes: 5, operators: 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := guesttest.New(t, module, workload())
			h.Provision(config{"podCIDR": "10.1.0.0/16", "controlPlanes": c.planes})
			require.Equal(t, map[string]any{
				"k8sServiceHost": "203.0.113.7",
				"k8sServicePort": "6443",
				"ipam":           map[string]any{"operator": map[string]any{"clusterPoolIPv4PodCIDRList": []any{"10.1.0.0/16"}}},
				"operator":       map[string]any{"replicas": c.operators},
			}, h.AppValues(""), c.reason)
		})
	}
}

func TestChart(t *testing.T) {
	cases := map[string]struct {
		reason string
		config config
		want   [3]string
	}{
		"Upstream": {
			reason: "without a wish the chart comes from upstream",
			config: config{"podCIDR": "10.1.0.0/16"},
			want:   [3]string{"https://helm.cilium.io", "cilium", "1.18.2"},
		},
		"Mirror": {
			reason: "an air-gapped platform names its own registry",
			config: config{"podCIDR": "10.1.0.0/16", "repo": "oci://registry.example/charts", "chart": "cni", "version": "0.1.0"},
			want:   [3]string{"oci://registry.example/charts", "cni", "0.1.0"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := guesttest.New(t, module, workload())
			h.Provision(c.config)
			spec, ok := h.App("")
			require.True(t, ok)
			require.Equal(t, c.want, [3]string{spec.Repo, spec.Chart, spec.Version}, c.reason)
			require.Equal(t, "kube-system", spec.Namespace)
		})
	}
}

func TestRefused(t *testing.T) {
	cases := map[string]struct {
		reason  string
		config  any
		options []guesttest.Option
		want    string
		why     string
	}{
		"Home": {
			reason: "the host's own cluster has a CNI, and its address is not known",
			config: config{"podCIDR": "10.1.0.0/16"}, want: "Terminal remote_scope_required",
		},
		"NoCIDR": {
			reason: "there is no sensible default for pod addresses", why: "config.podCIDR is missing",
			config: config{}, options: []guesttest.Option{workload()}, want: "Terminal invalid_config",
		},
		"NotACIDR": {
			reason: "an address is no range", why: "config.podCIDR is no range of addresses: ",
			config: config{"podCIDR": "10.1.0.0"}, options: []guesttest.Option{workload()}, want: "Terminal invalid_config",
		},
		"Misspelt": {
			reason: "a spelling mistake must not pass for a default", why: "config.podCIDR is missing; config.podCidrs is unknown",
			config: map[string]any{"podCidrs": "10.1.0.0/16"}, options: []guesttest.Option{workload()}, want: "Terminal invalid_config",
		},
		"Mistyped": {
			reason: "a number is no range", why: "config.podCIDR is a number and must be a string",
			config: config{"podCIDR": 10}, options: []guesttest.Option{workload()}, want: "Terminal invalid_config",
		},
		"NotGranted": {
			reason:  "a grant without app_ensure is for the admin to extend",
			config:  config{"podCIDR": "10.1.0.0/16"},
			options: []guesttest.Option{workload(), guesttest.Without(abi.AppEnsure)}, want: "UserActionRequired not_granted",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := guesttest.New(t, module, c.options...)
			r := h.Provision(c.config)
			require.Equal(t, c.want, r.String(), c.reason)
			require.Contains(t, r.Why, c.why, c.reason)
			_, made := h.App("")
			require.False(t, made, "a refused call makes nothing")
		})
	}
}

func TestVerdictOfTheHostIsPassedOn(t *testing.T) {
	h := guesttest.New(t, module, workload())
	cfg := config{"podCIDR": "10.1.0.0/16"}
	h.Provision(cfg)
	h.SetApp("", abi.AppStatus{Phase: abi.AppBlocked, Disposition: abi.UserActionRequired, Reason: abi.ReasonApplicationStuck})
	require.Equal(t, "UserActionRequired application_stuck", h.Provision(cfg).String())

	h.Fail(abi.AppEnsure, abi.CodeUnavailable)
	r := h.Provision(cfg)
	require.Equal(t, "Retry unexpected", r.String())
	require.Contains(t, r.Why, "app_ensure: unavailable")
}

func TestRemovalNeedsNothing(t *testing.T) {
	cases := map[string]struct {
		reason  string
		config  any
		options []guesttest.Option
	}{
		"NeverInstalled": {reason: "what never existed is gone"},
		"BrokenConfig":   {reason: "a later mistake in the config must not block a removal", config: map[string]any{"podCIDR": 7, "x": true}},
		"Home":           {reason: "nor does a removal need a remote"},
		"ScopeGone": {
			reason:  "a cluster that is gone holds nothing",
			options: []guesttest.Option{workload(), guesttest.ScopeState(abi.ScopeGone), guesttest.Teardown(abi.Discard)},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := guesttest.New(t, module, c.options...)
			require.Equal(t, "OK", h.Deprovision(c.config).String(), c.reason)
		})
	}
}
