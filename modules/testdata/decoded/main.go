// Command decoded is a module whose config is decoded into a struct. The tests build it to
// see what that costs.
package main

import (
	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/guest-sdk"
)

// Config is what a node passes.
type Config struct {
	Size  int               `json:"size"`
	Names []string          `json:"names"`
	Tags  map[string]string `json:"tags"`
}

var _ = guest.Register(guest.Module[Config]{
	Manifest: abi.Manifest{Name: "decoded", Version: "0.1.0", Capabilities: []abi.Function{abi.AppEnsure, abi.AppRemove}},
	Provision: func(call *guest.Call, cfg Config) error {
		return call.App("").Ensure(guest.AppSpec{
			Repo: "oci://registry.example/charts", Chart: "decoded", Version: "1.0.0", Values: guest.Values{"config": cfg},
		})
	},
	Deprovision: func(call *guest.Call, _ Config) error { return call.App("").Remove() },
})

func main() {}
