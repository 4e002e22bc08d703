package capability_test

import (
	"errors"
	"fmt"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/capability"
)

func ExampleCheck() {
	manifest := &abi.Manifest{
		Name:         "ingress",
		Capabilities: []abi.Function{abi.AppEnsure, abi.KubeList},
		Kube:         []abi.KubeRule{{Kinds: []string{"Service"}, Verbs: []string{"list"}}},
	}
	err := capability.Check(manifest, capability.Grant{Capabilities: []abi.Function{abi.AppEnsure}})
	var missing *capability.NotGrantedError
	if errors.As(err, &missing) {
		fmt.Println(missing)
		fmt.Print(missing.Remedy())
	}
	// Output:
	// module ingress declares what its grant does not allow: capabilities kube_list; list on Service (core) in every namespace
	// grant:
	//   capabilities:
	//   - kube_list
	//   kube:
	//   - apiGroup: ""
	//     kinds: ["Service"]
	//     verbs: ["list"]
	//     namespaces: ["*"]
}
