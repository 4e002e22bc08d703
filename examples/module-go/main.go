// Package main is an example of a module in Go: it installs one chart, counts how often it
// had to ask in its state, and publishes a fact once everything is ready.
package main

import (
	"encoding/json"
	"errors"
	"strconv"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/guest-sdk"
)

// Config is what a node passes.
type Config struct {
	// Repo, Chart and Version say where the chart comes from.
	Repo    string `json:"repo"`
	Chart   string `json:"chart"`
	Version string `json:"version"`
	// Values go to the chart as they are.
	Values map[string]json.RawMessage `json:"values"`
}

// asked is the state: how often the chart was not ready yet.
type asked struct {
	Asked int `json:"asked"`
}

var module = guest.Register(guest.Module[Config]{
	Manifest: abi.Manifest{
		Name: "lighthouse", Version: "1.0.0", Description: "Installs a chart, written in Go.",
		Capabilities: []abi.Function{abi.AppEnsure, abi.AppRemove},
	},
	Provision:   provision,
	Deprovision: func(call *guest.Call, _ Config) error { return call.App("").Remove() },
})

func provision(call *guest.Call, cfg Config) error {
	if cfg.Repo == "" || cfg.Chart == "" || cfg.Version == "" {
		return guest.Terminal(abi.ReasonInvalidConfig, "repo, chart and version are needed")
	}
	values := guest.Values{}
	for name, value := range cfg.Values {
		values[name] = value
	}
	// A state of another shape is an old one, and counting begins anew.
	var state asked
	if _, err := call.State(&state); err != nil {
		state = asked{}
	}
	state.Asked++
	err := call.App("").Ensure(guest.AppSpec{
		Repo: cfg.Repo, Chart: cfg.Chart, Version: cfg.Version, Namespace: "lighthouse", CreateNamespace: true, Values: values,
	})
	if err != nil {
		return errors.Join(err, call.SetState(state))
	}
	call.Log().Info("ready", "asked", strconv.Itoa(state.Asked))
	call.DropState()
	return call.Publish("lighthouse", "lighthouse")
}

// main does nothing: in WebAssembly the host calls the exports of package guest.
func main() {}
