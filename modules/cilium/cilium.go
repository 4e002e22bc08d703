// Package main is the module cilium: the CNI of a remote cluster. It computes what the
// chart cannot know, the address of the cluster's API and the size of its control plane.
package main

import (
	"encoding/json"
	"net/netip"
	"strconv"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/guest-sdk"
)

// reasonRemoteScope is returned for a node that does not stand on a remote.
const reasonRemoteScope = "remote_scope_required"

// Config is what a node passes.
type Config struct {
	// PodCIDR is the range that pod addresses are taken from.
	PodCIDR string
	// ControlPlanes is the number of control-plane machines; 0 means 3.
	ControlPlanes int
	// Repo, Chart and Version say where the chart comes from.
	Repo, Chart, Version string
}

var module = guest.Register(guest.Lean[Config]{
	Manifest: abi.Manifest{
		Name:         "cilium",
		Version:      "0.1.0",
		Description:  "Installs Cilium as the CNI of a remote cluster, with values computed from the cluster's address.",
		Capabilities: []abi.Function{abi.AppEnsure, abi.AppRemove},
		Reasons: []abi.ReasonText{{
			Code:     reasonRemoteScope,
			Sentence: "Cilium is installed on remote clusters only; put the node below a remotecluster.",
		}},
		ConfigSchema: configSchema,
	},
	Config:    readConfig,
	Provision: provision,
	Deprovision: func(call *guest.Call, _ Config) error {
		return call.App("").Remove()
	},
})

func readConfig(in guest.Doc) Config {
	cidr := in.Get("podCIDR").Required()
	cfg := Config{
		PodCIDR:       cidr.String(),
		ControlPlanes: in.Get("controlPlanes").Int(),
		Repo:          in.Get("repo").StringOr("https://helm.cilium.io"),
		Chart:         in.Get("chart").StringOr("cilium"),
		Version:       in.Get("version").StringOr("1.18.2"),
	}
	if _, err := netip.ParsePrefix(cfg.PodCIDR); err != nil {
		cidr.Refuse("is no range of addresses: " + err.Error())
	}
	return cfg
}

func provision(call *guest.Call, cfg Config) error {
	scope := call.Scope()
	if !scope.Remote || scope.Host == "" {
		return guest.Terminal(reasonRemoteScope, "the scope is "+scope.ID)
	}
	// One operator must be enough where one machine is all there is: two of them never
	// share a node.
	operators := 2
	if cfg.ControlPlanes == 1 {
		operators = 1
	}
	return call.App("").Ensure(guest.AppSpec{
		Repo:      cfg.Repo,
		Chart:     cfg.Chart,
		Version:   cfg.Version,
		Namespace: "kube-system",
		Values: guest.Values{
			// Cilium replaces kube-proxy, so nothing routes the service address of the API
			// before it runs: it has to be told the real one.
			"k8sServiceHost": scope.Host,
			"k8sServicePort": strconv.Itoa(scope.Port),
			"ipam": guest.Values{
				"operator": guest.Values{"clusterPoolIPv4PodCIDRList": []string{cfg.PodCIDR}},
			},
			"operator": guest.Values{"replicas": operators},
		},
	})
}

// main does nothing: in WebAssembly the host calls the exports of package guest. It is
// here for every platform, so that the tests build.
func main() {}

var configSchema = json.RawMessage(`{
  "type": "object",
  "additionalProperties": false,
  "required": ["podCIDR"],
  "properties": {
    "podCIDR": {"type": "string", "description": "The range that pod addresses are taken from."},
    "controlPlanes": {"type": "integer", "minimum": 0, "description": "The number of control-plane machines; 0 means 3."},
    "repo": {"type": "string", "description": "The chart repository."},
    "chart": {"type": "string", "description": "The chart's name."},
    "version": {"type": "string", "description": "The chart's version."}
  }
}`)
