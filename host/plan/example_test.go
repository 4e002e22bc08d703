package plan_test

import (
	"errors"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/plan"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// A Stack is checked before anything of it runs, and all that is wrong is told at once.
func ExampleBuild() {
	var stack v1alpha1.Stack
	err := yaml.Unmarshal([]byte(`
spec:
  root: all
  provisioners:
  - {name: all, serial: {children: [cni, addons]}}
  - {name: cni, module: {ref: cilium, config: {podCIDR: "${parameter.podCIDR}"}}}
  - {name: addons, concurrent: {children: [all, metrics]}}
`), &stack)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = plan.Build(&stack, plan.Dependencies{})
	fmt.Println(provisioner.OutcomeOf(err).Headline.Reason)
	var invalid *plan.InvalidError
	if errors.As(err, &invalid) {
		for _, finding := range invalid.Findings {
			fmt.Println(finding)
		}
	}
	// Output:
	// invalid_stack
	// provisioners[addons]: its child "metrics" is not one of the provisioners
	// provisioners[all]: it is its own descendant: all -> addons -> all
	// provisioners[cni].config.podCIDR: at character 1: undeclared reference to 'parameter' (in container '')
}
