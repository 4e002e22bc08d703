package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/guest-sdk/guesttest"
)

// config is what a node passes, as a person writes it.
type config = map[string]any

func workload() guesttest.Option { return guesttest.Remote("workload", "203.0.113.7", 6443) }

// balancer is a Service as a cluster shows it; ingress is what its status says.
func balancer(name, kind string, ingress ...map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Service",
		"metadata": map[string]any{"namespace": "ingress-nginx", "name": name},
		"spec":     map[string]any{"type": kind},
		"status":   map[string]any{"loadBalancer": map[string]any{"ingress": ingress}},
	}
}

func serviceRef(name string) abi.ObjectRef {
	return abi.ObjectRef{APIVersion: "v1", Kind: "Service", Namespace: "ingress-nginx", Name: name}
}

func TestLife(t *testing.T) {
	h := guesttest.New(t, module, workload())
	cfg := config{"replicas": 1}

	require.Equal(t, "Yield application_installing", h.Provision(cfg).String())
	h.PutObject("workload", balancer("controller", "LoadBalancer"))
	h.AppReady("")
	r := h.Provision(cfg)
	require.Equal(t, "Yield awaiting_address", r.String())
	require.Equal(t, 2*time.Second, r.RetryAfter)
	require.Empty(t, r.Facts)

	h.PutObject("workload", balancer("controller", "LoadBalancer", map[string]any{"ip": "198.51.100.9"}))
	r = h.Provision(cfg)
	require.Equal(t, "OK", r.String())
	require.JSONEq(t, `"198.51.100.9"`, string(r.Facts["ingressAddress"]))

	require.Equal(t, "Yield application_deleting", h.Deprovision(cfg).String())
	h.AppGone("")
	r = h.Deprovision(cfg)
	require.Equal(t, "Yield releasing_address", r.String(), "the load balancer outlives the release for a while")
	require.Equal(t, 2*time.Second, r.RetryAfter)
	h.DeleteObject("workload", serviceRef("controller"))
	require.Equal(t, "OK", h.Deprovision(cfg).String())

	h.Golden("testdata/life.trace")
}

func TestAddress(t *testing.T) {
	cases := map[string]struct {
		reason   string
		services []map[string]any
		want     string
		fact     string
	}{
		"None": {reason: "the chart's Service may come later", want: "Yield awaiting_address"},
		"OtherKinds": {
			reason:   "only load balancers have an address from outside",
			services: []map[string]any{balancer("a", "ClusterIP", map[string]any{"ip": "198.51.100.1"})},
			want:     "Yield awaiting_address",
		},
		"Empty": {
			reason:   "an entry without an address is none",
			services: []map[string]any{balancer("a", "LoadBalancer", map[string]any{})},
			want:     "Yield awaiting_address",
		},
		"Hostname": {
			reason:   "some clouds give names",
			services: []map[string]any{balancer("a", "LoadBalancer", map[string]any{"hostname": "lb.example"})},
			want:     "OK", fact: `"lb.example"`,
		},
		"First": {
			reason: "of several addresses the first counts, in the order of names",
			services: []map[string]any{
				balancer("b", "LoadBalancer", map[string]any{"ip": "198.51.100.2"}),
				balancer("a", "LoadBalancer", map[string]any{}, map[string]any{"ip": "198.51.100.1"}),
			},
			want: "OK", fact: `"198.51.100.1"`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := guesttest.New(t, module, workload())
			h.Provision(config{})
			h.AppReady("")
			for _, s := range c.services {
				h.PutObject("workload", s)
			}
			r := h.Provision(config{})
			require.Equal(t, c.want, r.String(), c.reason)
			require.Equal(t, c.fact, string(r.Facts["ingressAddress"]), c.reason)
		})
	}
}

func TestOtherNamespacesDoNotCount(t *testing.T) {
	h := guesttest.New(t, module, workload())
	h.Provision(config{})
	h.AppReady("")
	other := balancer("other", "LoadBalancer", map[string]any{"ip": "198.51.100.5"})
	other["metadata"] = map[string]any{"namespace": "shop", "name": "other"}
	h.PutObject("workload", other)
	require.Equal(t, "Yield awaiting_address", h.Provision(config{}).String())

	h.Deprovision(config{})
	h.AppGone("")
	require.Equal(t, "OK", h.Deprovision(config{}).String(), "somebody else's load balancer is not waited for")
}

func TestDeprovision(t *testing.T) {
	cases := map[string]struct {
		reason  string
		options []guesttest.Option
		fail    abi.ErrorCode
		want    string
	}{
		"Gone": {
			reason:  "there is no cluster to ask",
			options: []guesttest.Option{guesttest.ScopeState(abi.ScopeGone)}, want: "OK",
		},
		"Discard": {
			reason:  "a host that discards all the same is not made to wait",
			options: []guesttest.Option{guesttest.Teardown(abi.Discard)}, want: "OK",
		},
		"Unreachable": {
			reason: "an unreachable cluster is not an empty one",
			fail:   abi.CodeUnavailable, want: "Retry unexpected",
		},
		"Left": {
			reason: "a load balancer that is left is waited for",
			want:   "Yield releasing_address",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := guesttest.New(t, module, workload())
			h.PutObject("workload", balancer("controller", "LoadBalancer"))
			h.Fail(abi.KubeList, c.fail)
			require.Equal(t, c.want, h.Deprovision(config{}, c.options...).String(), c.reason)
		})
	}
}

func TestValues(t *testing.T) {
	for replicas, want := range map[int]float64{0: 2, 1: 1, 5: 5} {
		h := guesttest.New(t, module, workload())
		h.Provision(config{"replicas": replicas})
		require.Equal(t, map[string]any{"controller": map[string]any{
			"replicaCount": want, "service": map[string]any{"type": "LoadBalancer"},
		}}, h.AppValues(""))
		spec, _ := h.App("")
		require.Equal(t, "ingress-nginx", spec.Namespace)
		require.True(t, spec.CreateNamespace)
	}
}

func TestRequiresDrain(t *testing.T) {
	require.True(t, module.Manifest.RequiresDrain, "load balancers belong to the cloud, not to the cluster")
}
