// Command keeper is a module that installs one application. It draws a token the first
// time, keeps it in its state, and passes it on, so that a state that is lost or doubled
// shows in what is installed.
package main

import (
	"crypto/rand"
	"encoding/json"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/guest-sdk"
)

// Config is what a node passes.
type Config struct {
	Repo      string `json:"repo"`
	Namespace string `json:"namespace"`
	Value     string `json:"value"`
	// Remember asks for the token, Secret for the key "key" of a Secret at home.
	Remember bool   `json:"remember"`
	Secret   string `json:"secret"`
}

// memory is the state.
type memory struct {
	Token string `json:"token"`
}

var _ = guest.Register(guest.Module[Config]{
	Manifest: abi.Manifest{
		Name: "keeper", Version: "0.1.0",
		Description:  "Installs one application with what it was told, what it remembers, and what it must not see.",
		Capabilities: []abi.Function{abi.AppEnsure, abi.AppRemove, abi.SecretRead},
		ConfigSchema: json.RawMessage(`{"type": "object"}`),
	},
	Provision: provision,
	Deprovision: func(call *guest.Call, _ Config) error {
		return call.App("").Remove()
	},
})

func provision(call *guest.Call, cfg Config) error {
	values := guest.Values{"value": cfg.Value}
	if cfg.Remember {
		var state memory
		found, err := call.State(&state)
		if err != nil {
			return err
		}
		if !found {
			state.Token = "token-" + rand.Text()
		}
		if err := call.SetState(state); err != nil {
			return err
		}
		values["token"] = state.Token
		if err := call.Publish("remembers", true); err != nil {
			return err
		}
	}
	if cfg.Secret != "" {
		secret, err := call.Secret(abi.SecretReadRequest{Scope: abi.ScopeHome, Name: cfg.Secret, Key: "key"})
		if err != nil {
			return err
		}
		values["secret"] = secret.Handle
	}
	return call.App("").Ensure(guest.AppSpec{
		Repo: cfg.Repo, Chart: "note", Version: "1.0.0", Namespace: cfg.Namespace, Values: values,
	})
}

func main() {}
