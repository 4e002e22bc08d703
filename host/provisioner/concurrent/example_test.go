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

// What comes up independently may still have to go in order: an add-on that frees load
// balancers goes before the cluster that it runs on.
func Example_upConcurrentlyDownSerially() {
	trace := &provisionertest.Trace{}
	pair := concurrent.New("pair", concurrent.Options{Down: concurrent.Serial},
		provisionertest.New("cluster", trace),
		provisionertest.New("boot", trace).Down(provisioner.Yield(abi.ReasonApplicationDeleting, "1 load balancer left"), nil),
	)
	err := pair.Provision(context.Background())
	fmt.Println(err, len(trace.Calls()), "side by side")
	for range 2 {
		fmt.Println(provisioner.OutcomeOf(pair.Deprovision(context.Background())).Class, trace.Calls())
	}
	// Output:
	// <nil> 2 side by side
	// Yield [D boot]
	// OK [D boot D cluster]
}
