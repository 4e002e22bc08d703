package module_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/module"
	"github.com/caisson-dev/caisson/host/scope"
)

// A leaf runs whatever its runtime runs: host/sandbox for Wasm, and here a guest in Go.
// What the guest returns is its disposition, and what users read is the sentence that its
// manifest has for the reason.
func Example() {
	guest := answers(int32(abi.UserActionRequired), `{"reason": "quota_exceeded", "why": "3 of 3 load balancers"}`)
	leaf := module.New(module.Options{
		Node:   abi.Node{Name: "cni", Path: "all/cni"},
		ID:     scope.ResourceIdentifier{Owner: scope.Owner{Kind: "Stack", Namespace: "team", Name: "s", UID: "u"}, Path: "all/cni", Name: "cni"},
		Driver: &driver{},
		Config: func(context.Context) (json.RawMessage, error) {
			return json.RawMessage(`{"podCIDR": "10.0.0.0/16"}`), nil
		},
		Instance: func(context.Context) (*module.Instance, error) {
			return &module.Instance{Name: "cilium", Digest: "sha256:1", Runtime: guest, Manifest: abi.Manifest{
				ABI: abi.Version, Name: "cilium", Version: "1.0.0",
				Reasons: []abi.ReasonText{{Code: "quota_exceeded", Sentence: "The cloud's quota is used up; raise it."}},
			}}, nil
		},
	})

	ctx := scope.NewContext(context.Background(), scope.NewHome(scope.Owner{UID: "u"}, nil, nil))
	outcome := provisioner.OutcomeOf(leaf.Provision(ctx))
	fmt.Println(outcome.Class, outcome.Parks())
	fmt.Println(outcome.Headline.Sentence)
	// Output:
	// UserActionRequired true
	// The cloud's quota is used up; raise it.
}
