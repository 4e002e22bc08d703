// Package main is the module greeter: it leaves a text in a ConfigMap of its owner's
// namespace.
package main

import (
	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/guest-sdk"
)

const (
	// name is that of the ConfigMap.
	name = "greeting"

	reasonNoText   = "no_text"
	reasonRemoving = "removing"
)

// Config is what a leaf passes.
type Config struct {
	// Text is what is to be read.
	Text string `json:"text"`
}

// configMap is what the module writes of one.
type configMap struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metadata          `json:"metadata"`
	Data       map[string]string `json:"data"`
}

type metadata struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

var module = guest.Register(guest.Module[Config]{
	Manifest: abi.Manifest{
		Name:         "greeter",
		Version:      "0.1.0",
		Description:  "Leaves a text for the owner's team to read.",
		Capabilities: []abi.Function{abi.KubeApply, abi.KubeDelete},
		Kube:         []abi.KubeRule{{Kinds: []string{"ConfigMap"}, Verbs: []string{"apply", "delete"}}},
		Reasons: []abi.ReasonText{
			{Code: reasonNoText, Sentence: "The greeting is empty."},
			{Code: reasonRemoving, Sentence: "The greeting is being removed."},
		},
	},
	Provision:   provision,
	Deprovision: deprovision,
})

func provision(call *guest.Call, cfg Config) error {
	if cfg.Text == "" {
		return guest.Terminal(reasonNoText, "text is empty")
	}
	return call.Kube().Apply("", configMap{
		APIVersion: "v1", Kind: "ConfigMap",
		Metadata: metadata{Name: name, Namespace: call.Owner().Namespace},
		Data:     map[string]string{"text": cfg.Text},
	}, nil)
}

func deprovision(call *guest.Call, _ Config) error {
	gone, err := call.Kube().Delete(abi.KubeDeleteRequest{ObjectRef: abi.ObjectRef{
		APIVersion: "v1", Kind: "ConfigMap", Name: name, Namespace: call.Owner().Namespace,
	}})
	if err != nil || gone {
		return err
	}
	return guest.Yield(reasonRemoving, "the ConfigMap is going")
}

// main does nothing: in WebAssembly the host calls the exports of package guest.
func main() {}
