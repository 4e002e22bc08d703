package remotecluster_test

import (
	"context"
	"fmt"

	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/provisionertest"
	"github.com/caisson-dev/caisson/host/provisioner/remotecluster"
	"github.com/caisson-dev/caisson/host/provisioner/serial"
	"github.com/caisson-dev/caisson/host/scope"
)

func Example() {
	w := newWorld(pending(), ready())
	workload := remotecluster.New(remotecluster.Options{
		Remote: w.resolver, Clusters: w.driver, Applications: w.driver, Clients: w.clients,
		Ownership: remotecluster.Owned,
	})
	tree := remotecluster.Around(serial.New("all",
		workload.On("network", provisionertest.New("cni", w.trace)),
		workload.On("rest", provisionertest.New("addons", w.trace)),
	), workload)

	ctx := scope.NewContext(context.Background(), scope.NewHome(owner(), nil, nil))
	for range 2 {
		fmt.Println(provisioner.OutcomeOf(tree.Provision(ctx)).Class, w.trace.Calls())
	}
	fmt.Println(provisioner.OutcomeOf(tree.Deprovision(ctx)).Class, w.trace.Calls())
	// Output:
	// Yield []
	// OK [register workload P cni P addons]
	// OK [D addons D cni deregister workload]
}
