package leaf

import (
	"errors"
	"fmt"

	"github.com/caisson-dev/caisson/abi"
	guest "github.com/caisson-dev/caisson/guest-sdk"
)

// Config is what a node passes. Items are what makes an envelope large.
type Config struct {
	// Calls is how many objects the module reads.
	Calls int `json:"calls"`
	// Items are summed up.
	Items []Item `json:"items"`
}

// Item is one entry of a list, as values of a chart have them.
type Item struct {
	Name     string `json:"name"`
	Image    string `json:"image"`
	Replicas int    `json:"replicas"`
	Enabled  bool   `json:"enabled"`
}

// State counts the calls of a node.
type State struct {
	Count int `json:"count"`
}

// object is what the module reads of a ConfigMap.
type object struct {
	Data struct {
		Address string `json:"address"`
	} `json:"data"`
}

// New returns the module: it decodes its config and its state, reads as many objects as
// it is told, and publishes what it found.
func New() guest.Module[Config] {
	return guest.Module[Config]{
		Manifest: abi.Manifest{
			Name: "leaf", Version: "1.0.0", Description: "Does what a typical leaf does.",
			Capabilities: []abi.Function{abi.KubeGet},
			Kube:         []abi.KubeRule{{Kinds: []string{"ConfigMap"}, Verbs: []string{"get"}}},
		},
		Provision:   provision,
		Deprovision: func(*guest.Call, Config) error { return nil },
	}
}

func provision(call *guest.Call, config Config) error {
	var state State
	if _, err := call.State(&state); err != nil {
		return err
	}
	state.Count++
	replicas := 0
	for _, item := range config.Items {
		if item.Enabled {
			replicas += item.Replicas
		}
	}
	addresses := make([]string, 0, config.Calls)
	for i := range config.Calls {
		var found object
		ref := abi.ObjectRef{APIVersion: "v1", Kind: "ConfigMap", Namespace: "platform", Name: fmt.Sprintf("peer-%d", i)}
		if err := call.Kube().Get(ref, &found); err != nil {
			return err
		}
		addresses = append(addresses, found.Data.Address)
	}
	return errors.Join(call.Publish("replicas", replicas), call.Publish("addresses", addresses), call.SetState(state))
}
