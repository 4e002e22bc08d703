//go:build wasip1

package guest

import (
	"errors"

	"github.com/caisson-dev/caisson/abi"
	pdk "github.com/extism/go-pdk"
)

// exportDescribe answers with the manifest.
//
//go:wasmexport describe
func exportDescribe() int32 {
	out, err := describe(registered)
	if err != nil {
		pdk.SetError(err)
		return int32(abi.Retry)
	}
	pdk.Output(out)
	return int32(abi.OK)
}

//go:wasmexport provision
func exportProvision() int32 { return answer(abi.ExportProvision) }

//go:wasmexport deprovision
func exportDeprovision() int32 { return answer(abi.ExportDeprovision) }

// answer runs the registered module on the input that the host has set.
func answer(operation string) int32 {
	if registered == nil {
		pdk.SetError(errors.New("no module is registered; see guest.Register"))
		return int32(abi.Retry)
	}
	d, out := Run(registered, operation, pdk.Input(), nil)
	pdk.Output(out)
	return int32(d)
}
