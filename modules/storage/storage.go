// Package main is the module storage: a CSI driver whose cloud configuration lives in a
// Secret. The module never sees the configuration; it passes a handle on.
package main

import (
	"cmp"
	"encoding/json"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/guest-sdk"
)

// digestAnnotation rolls the driver's pods when the cloud configuration changes: a CSI
// driver reads it once, at its start.
const digestAnnotation = "caisson.dev/config-digest"

// SecretKey names the Secret with the cloud configuration.
type SecretKey struct {
	// Scope is the cluster that the Secret is on: home, which is the default, or current,
	// which is the one that the driver is installed on.
	Scope abi.KubeScope `json:"scope"`
	// Namespace of the Secret; empty means that of the Stack, which only works at home.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Key in the Secret; empty means cloud.conf.
	Key string `json:"key"`
}

// Config is what a node passes.
type Config struct {
	CloudConfig SecretKey `json:"cloudConfig"`
	// StorageClass is the name of the StorageClass; empty means standard.
	StorageClass string `json:"storageClass"`
	// Repo, Chart and Version override where the chart comes from.
	Repo    string `json:"repo"`
	Chart   string `json:"chart"`
	Version string `json:"version"`
}

var module = guest.Register(guest.Module[Config]{
	Manifest: abi.Manifest{
		Name:         "storage",
		Version:      "0.1.0",
		Description:  "Installs a CSI driver with a cloud configuration from a Secret, which it passes on unseen.",
		Capabilities: []abi.Function{abi.AppEnsure, abi.AppRemove, abi.SecretRead},
		ConfigSchema: configSchema,
	},
	Provision: provision,
	Deprovision: func(call *guest.Call, _ Config) error {
		return call.App("").Remove()
	},
})

func provision(call *guest.Call, cfg Config) error {
	source := cfg.CloudConfig
	if source.Name == "" {
		return guest.Terminal(abi.ReasonInvalidConfig, "cloudConfig.name is empty")
	}
	from := cmp.Or(source.Scope, abi.ScopeHome)
	if from != abi.ScopeHome && from != abi.ScopeCurrent {
		return guest.Terminal(abi.ReasonInvalidConfig, "cloudConfig.scope is neither home nor current")
	}
	secret, err := call.Secret(abi.SecretReadRequest{
		Scope: from, Namespace: source.Namespace, Name: source.Name, Key: cmp.Or(source.Key, "cloud.conf"),
	})
	if err != nil {
		return err
	}
	return call.App("").Ensure(guest.AppSpec{
		Repo:      cmp.Or(cfg.Repo, "https://kubernetes.github.io/cloud-provider-openstack"),
		Chart:     cmp.Or(cfg.Chart, "openstack-cinder-csi"),
		Version:   cmp.Or(cfg.Version, "2.34.0"),
		Namespace: "kube-system",
		Values: guest.Values{
			"secret":         guest.Values{"cloudConfig": secret.Handle},
			"podAnnotations": guest.Values{digestAnnotation: secret.Digest},
			"storageClass":   guest.Values{"name": cmp.Or(cfg.StorageClass, "standard")},
		},
	})
}

// main does nothing: in WebAssembly the host calls the exports of package guest. It is
// here for every platform, so that the tests build.
func main() {}

var configSchema = json.RawMessage(`{
  "type": "object",
  "additionalProperties": false,
  "required": ["cloudConfig"],
  "properties": {
    "cloudConfig": {
      "type": "object",
      "additionalProperties": false,
      "required": ["name"],
      "properties": {
        "scope": {"enum": ["home", "current"], "description": "The cluster that the Secret is on; home when absent."},
        "namespace": {"type": "string", "description": "The Secret's namespace; empty means that of the Stack."},
        "name": {"type": "string", "description": "The Secret's name."},
        "key": {"type": "string", "description": "The key in the Secret; cloud.conf when absent."}
      }
    },
    "storageClass": {"type": "string", "description": "The name of the StorageClass; standard when absent."},
    "repo": {"type": "string", "description": "The chart repository."},
    "chart": {"type": "string", "description": "The chart's name."},
    "version": {"type": "string", "description": "The chart's version."}
  }
}`)
