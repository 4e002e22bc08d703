// Package main is the module storage: a CSI driver whose cloud configuration lives in a
// Secret. The module never sees the configuration; it passes a handle on.
package main

import (
	"encoding/json"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/guest-sdk"
)

// digestAnnotation rolls the driver's pods when the cloud configuration changes: a CSI
// driver reads it once, at its start.
const digestAnnotation = "caisson.dev/config-digest"

// Config is what a node passes.
type Config struct {
	// CloudConfig names the Secret with the cloud configuration, and the key in it.
	CloudConfig abi.SecretReadRequest
	// StorageClass is the name of the StorageClass.
	StorageClass string
	// Repo, Chart and Version say where the chart comes from.
	Repo, Chart, Version string
}

var module = guest.Register(guest.Lean[Config]{
	Manifest: abi.Manifest{
		Name:         "storage",
		Version:      "0.1.0",
		Description:  "Installs a CSI driver with a cloud configuration from a Secret, which it passes on unseen.",
		Capabilities: []abi.Function{abi.AppEnsure, abi.AppRemove, abi.SecretRead},
		ConfigSchema: configSchema,
	},
	Config:    readConfig,
	Provision: provision,
	Deprovision: func(call *guest.Call, _ Config) error {
		return call.App("").Remove()
	},
})

func readConfig(in guest.Doc) Config {
	source := in.Get("cloudConfig")
	name := source.Get("name")
	cfg := Config{
		CloudConfig: abi.SecretReadRequest{
			Scope:     abi.KubeScope(source.Get("scope").OneOf(string(abi.ScopeHome), string(abi.ScopeCurrent))),
			Namespace: source.Get("namespace").String(),
			Name:      name.String(),
			Key:       source.Get("key").StringOr("cloud.conf"),
		},
		StorageClass: in.Get("storageClass").StringOr("standard"),
		Repo:         in.Get("repo").StringOr("https://kubernetes.github.io/cloud-provider-openstack"),
		Chart:        in.Get("chart").StringOr("openstack-cinder-csi"),
		Version:      in.Get("version").StringOr("2.34.0"),
	}
	if cfg.CloudConfig.Name == "" {
		name.Refuse("is missing")
	}
	return cfg
}

func provision(call *guest.Call, cfg Config) error {
	secret, err := call.Secret(cfg.CloudConfig)
	if err != nil {
		return err
	}
	return call.App("").Ensure(guest.AppSpec{
		Repo:      cfg.Repo,
		Chart:     cfg.Chart,
		Version:   cfg.Version,
		Namespace: "kube-system",
		Values: guest.Values{
			"secret":         guest.Values{"cloudConfig": secret.Handle},
			"podAnnotations": guest.Values{digestAnnotation: secret.Digest},
			"storageClass":   guest.Values{"name": cfg.StorageClass},
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
