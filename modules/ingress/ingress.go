// Package main is the module ingress: an ingress controller behind a load balancer. It
// waits for the address, tells later nodes, and does not call itself removed before the
// load balancer is.
package main

import (
	"cmp"
	"encoding/json"
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
	Replicas int `json:"replicas"`
	// Repo, Chart and Version override where the chart comes from.
	Repo    string `json:"repo"`
	Chart   string `json:"chart"`
	Version string `json:"version"`
}

// service is what the module reads of a Service.
type service struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Type string `json:"type"`
	} `json:"spec"`
	Status struct {
		LoadBalancer struct {
			Ingress []struct {
				IP       string `json:"ip"`
				Hostname string `json:"hostname"`
			} `json:"ingress"`
		} `json:"loadBalancer"`
	} `json:"status"`
}

var module = guest.Register(guest.Module[Config]{
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
	Provision:   provision,
	Deprovision: deprovision,
})

func provision(call *guest.Call, cfg Config) error {
	replicas := cfg.Replicas
	if replicas == 0 {
		replicas = 2
	}
	err := call.App("").Ensure(guest.AppSpec{
		Repo:            cmp.Or(cfg.Repo, "https://kubernetes.github.io/ingress-nginx"),
		Chart:           cmp.Or(cfg.Chart, "ingress-nginx"),
		Version:         cmp.Or(cfg.Version, "4.13.3"),
		Namespace:       namespace,
		CreateNamespace: true,
		Values: guest.Values{
			"controller": guest.Values{
				"replicaCount": replicas,
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
		for _, ingress := range b.Status.LoadBalancer.Ingress {
			if address := cmp.Or(ingress.IP, ingress.Hostname); address != "" {
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
	if call.Scope().State == abi.ScopeGone || call.Teardown() != abi.Drain {
		return nil
	}
	balancers, err := loadBalancers(call)
	if err != nil {
		return err
	}
	if len(balancers) > 0 {
		return guest.Yield(reasonReleasingAddress, "Service "+balancers[0].Metadata.Name+" is left").After(pollAfter)
	}
	return nil
}

// loadBalancers lists the Services of type LoadBalancer in the controller's namespace.
func loadBalancers(call *guest.Call) ([]service, error) {
	var services []service
	query := abi.KubeListRequest{ObjectRef: abi.ObjectRef{APIVersion: "v1", Kind: "Service", Namespace: namespace}}
	if err := call.Kube().List(query, &services); err != nil {
		return nil, err
	}
	balancers := services[:0]
	for _, s := range services {
		if s.Spec.Type == "LoadBalancer" {
			balancers = append(balancers, s)
		}
	}
	return balancers, nil
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
