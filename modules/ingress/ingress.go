// Package main is the module ingress: an ingress controller behind a load balancer. It
// waits for the address, tells later nodes, and does not call itself removed before the
// load balancer is.
package main

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/guest-sdk"
)

const (
	// namespace is where the controller runs. It is fixed, because the manifest asks for
	// the Services of exactly this one.
	namespace = "ingress-nginx"
	// factAddress is what later nodes know the address as.
	factAddress = "ingressAddress"
	// pollAfter is how soon to look for the address again. The host does not watch what a
	// module lists, and a cloud takes seconds to minutes for a load balancer.
	pollAfter = 2 * time.Second

	reasonAwaitingAddress  = "awaiting_address"
	reasonReleasingAddress = "releasing_address"
)

// Config is what a node passes.
type Config struct {
	// Replicas is the number of controllers; 0 means 2.
	Replicas int
	// Repo, Chart and Version say where the chart comes from.
	Repo, Chart, Version string
}

var module = guest.Register(guest.Lean[Config]{
	Manifest: abi.Manifest{
		Name:         "ingress",
		Version:      "0.1.0",
		Description:  "Installs an ingress controller behind a load balancer and publishes its address.",
		Capabilities: []abi.Function{abi.AppEnsure, abi.AppRemove, abi.KubeList},
		Kube: []abi.KubeRule{
			{Kinds: []string{"Service"}, Verbs: []string{"list"}, Namespaces: []string{namespace}},
		},
		Reasons: []abi.ReasonText{
			{Code: reasonAwaitingAddress, Sentence: "The load balancer of the ingress controller has no address yet."},
			{Code: reasonReleasingAddress, Sentence: "The load balancer of the ingress controller is being given back."},
		},
		ConfigSchema: configSchema,
		// A load balancer belongs to the cloud and outlives a cluster that is thrown away.
		RequiresDrain: true,
	},
	Config:      readConfig,
	Provision:   provision,
	Deprovision: deprovision,
})

func readConfig(in guest.Doc) Config {
	return Config{
		Replicas: cmp.Or(in.Get("replicas").Int(), 2),
		Repo:     in.Get("repo").StringOr("https://kubernetes.github.io/ingress-nginx"),
		Chart:    in.Get("chart").StringOr("ingress-nginx"),
		Version:  in.Get("version").StringOr("4.13.3"),
	}
}

func provision(call *guest.Call, cfg Config) error {
	err := call.App("").Ensure(guest.AppSpec{
		Repo:            cfg.Repo,
		Chart:           cfg.Chart,
		Version:         cfg.Version,
		Namespace:       namespace,
		CreateNamespace: true,
		Values: guest.Values{
			"controller": guest.Values{
				"replicaCount": cfg.Replicas,
				"service":      guest.Values{"type": "LoadBalancer"},
			},
		},
	})
	if err != nil {
		return err
	}
	balancers, err := loadBalancers(call)
	if err != nil {
		return err
	}
	for _, b := range balancers {
		for _, ingress := range b.Get("status", "loadBalancer", "ingress").Items() {
			if address := ingress.Get("ip").StringOr(ingress.Get("hostname").String()); address != "" {
				return call.Publish(factAddress, address)
			}
		}
	}
	return guest.Yield(reasonAwaitingAddress, "no address on any load balancer in "+namespace).After(pollAfter)
}

func deprovision(call *guest.Call, _ Config) error {
	if err := call.App("").Remove(); err != nil {
		return err
	}
	// What is gone takes its load balancers along, and what goes anyway is not waited for.
	// A policy of a later host is taken for Drain.
	if call.Scope().State == abi.ScopeGone || call.Teardown() == abi.Discard || call.Teardown() == abi.Orphan {
		return nil
	}
	balancers, err := loadBalancers(call)
	if err != nil {
		return err
	}
	if len(balancers) > 0 {
		return guest.Yield(reasonReleasingAddress, "Service "+balancers[0].Get("metadata", "name").String()+" is left").After(pollAfter)
	}
	return nil
}

// loadBalancers lists the Services of type LoadBalancer in the controller's namespace.
func loadBalancers(call *guest.Call) ([]guest.Doc, error) {
	query := abi.KubeListRequest{ObjectRef: abi.ObjectRef{APIVersion: "v1", Kind: "Service", Namespace: namespace}}
	services, err := call.Kube().ListDocs(query)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(services, func(s guest.Doc) bool {
		return s.Get("spec", "type").String() != "LoadBalancer"
	}), nil
}

// main does nothing: in WebAssembly the host calls the exports of package guest. It is
// here for every platform, so that the tests build.
func main() {}

var configSchema = json.RawMessage(`{
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "replicas": {"type": "integer", "minimum": 0, "description": "The number of controllers; 0 means 2."},
    "repo": {"type": "string", "description": "The chart repository."},
    "chart": {"type": "string", "description": "The chart's name."},
    "version": {"type": "string", "description": "The chart's version."}
  }
}`)
