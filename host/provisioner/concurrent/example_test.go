package concurrent_test

import (
	"context"
	"fmt"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/concurrent"
	"github.com/caisson-dev/caisson/host/provisioner/provisionertest"
)

func Example() {
	addons := concurrent.New("addons", concurrent.Options{Limit: 4},
		provisionertest.New("metrics", nil).Up(provisioner.Yield(abi.ReasonApplicationInstalling, "1 of 2 replicas")),
		provisionertest.New("ingress", nil),
		provisionertest.New("storage", nil).Up(provisioner.Terminal(abi.ReasonInvalidConfig, "unknown class")),
	)
	outcome := provisioner.OutcomeOf(addons.Provision(context.Background()))
	fmt.Println("schedule:", outcome.Class)
	fmt.Println("surface:", outcome.Headline.Disposition, outcome.Headline.Reason, "at", outcome.Headline.Path)
	// Output:
	// schedule: Yield
	// surface: Terminal invalid_config at 2
}
