package serial_test

import (
	"context"
	"fmt"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/provisionertest"
	"github.com/caisson-dev/caisson/host/provisioner/serial"
)

func Example() {
	trace := &provisionertest.Trace{}
	cni := provisionertest.New("cni", trace).Up(provisioner.Yield(abi.ReasonApplicationInstalling, ""), nil)
	platform := serial.New("platform", cni, provisionertest.New("addons", trace))

	for range 2 {
		err := platform.Provision(context.Background())
		fmt.Println(provisioner.OutcomeOf(err).Class, trace.Calls())
	}
	fmt.Println(platform.Deprovision(context.Background()), trace.Calls())
	// Output:
	// Yield [P cni]
	// OK [P cni P addons]
	// <nil> [D addons D cni]
}
