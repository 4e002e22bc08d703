package lean

import (
	"errors"
	"fmt"

	"github.com/caisson-dev/caisson/abi"
	guest "github.com/caisson-dev/caisson/guest-sdk"
)

// New returns the same module as package leaf does: it reads documents instead of decoding
// them.
func New() guest.Lean[Config] {
	return guest.Lean[Config]{
		Manifest: abi.Manifest{
			Name: "leaf", Version: "1.0.0", Description: "Does what a typical leaf does.",
			Capabilities: []abi.Function{abi.KubeGet},
			Kube:         []abi.KubeRule{{Kinds: []string{"ConfigMap"}, Verbs: []string{"get"}}},
		},
		Config: readConfig, Provision: provision, Deprovision: func(*guest.Call, Config) error { return nil },
	}
}

// Config is what a node passes.
type Config struct {
	Calls int
	Items []Item
}

// Item is one entry of a list.
type Item struct {
	Name, Image string
	Replicas    int
	Enabled     bool
}

func readConfig(in guest.Doc) Config {
	config := Config{Calls: in.Get("calls").Int()}
	for _, item := range in.Get("items").Items() {
		config.Items = append(config.Items, Item{
			Name: item.Get("name").String(), Image: item.Get("image").String(), Replicas: item.Get("replicas").Int(), Enabled: item.Get("enabled").Bool(),
		})
	}
	return config
}

func provision(call *guest.Call, config Config) error {
	replicas := 0
	for _, item := range config.Items {
		if item.Enabled {
			replicas += item.Replicas
		}
	}
	addresses := make([]any, 0, config.Calls)
	for i := range config.Calls {
		found, err := call.Kube().GetDoc(abi.ObjectRef{APIVersion: "v1", Kind: "ConfigMap", Namespace: "platform", Name: fmt.Sprintf("peer-%d", i)})
		if err != nil {
			return err
		}
		addresses = append(addresses, found.Get("data", "address").String())
	}
	count := call.StateDoc().Get("count").Int() + 1
	return errors.Join(call.Publish("replicas", replicas), call.Publish("addresses", addresses), call.SetState(guest.Values{"count": count}))
}
