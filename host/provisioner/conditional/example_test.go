package conditional_test

import (
	"context"
	"fmt"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/conditional"
	"github.com/caisson-dev/caisson/host/provisioner/provisionertest"
)

func Example() {
	trace := &provisionertest.Trace{}
	missing := conditional.Unknown(provisioner.Yield(abi.ReasonFactsMissing, "facts.vendor"))
	decisions := []conditional.Decision{missing, conditional.True(), conditional.False()}
	next := 0
	when := func(context.Context) conditional.Decision {
		next++
		return decisions[next-1]
	}

	gpu := conditional.New("gpu", when, provisionertest.New("operator", trace))
	for range decisions {
		fmt.Println(provisioner.OutcomeOf(gpu.Provision(context.Background())).Class, trace.Calls())
	}
	// Output:
	// Yield []
	// OK [P operator]
	// OK [D operator]
}
