//go:build wasip1

package main

import (
	"github.com/caisson-dev/caisson/abi"
	pdk "github.com/extism/go-pdk"
)

//go:wasmimport extism:host/user app_ensure
func appEnsure(request uint64) uint64

//go:wasmimport extism:host/user app_remove
func appRemove(request uint64) uint64

//go:wasmimport extism:host/user app_list
func appList(request uint64) uint64

//go:wasmimport extism:host/user kube_get
func kubeGet(request uint64) uint64

//go:wasmimport extism:host/user kube_list
func kubeList(request uint64) uint64

//go:wasmimport extism:host/user kube_apply
func kubeApply(request uint64) uint64

//go:wasmimport extism:host/user kube_delete
func kubeDelete(request uint64) uint64

//go:wasmimport extism:host/user secret_read
func secretRead(request uint64) uint64

//go:wasmimport extism:host/user event
func event(request uint64) uint64

// ask calls a host function and returns its response.
func ask(f abi.Function, request []byte) string {
	in := pdk.AllocateBytes(request)
	offset := in.Offset()
	switch f {
	case abi.AppEnsure:
		offset = appEnsure(offset)
	case abi.AppRemove:
		offset = appRemove(offset)
	case abi.AppList:
		offset = appList(offset)
	case abi.KubeGet:
		offset = kubeGet(offset)
	case abi.KubeList:
		offset = kubeList(offset)
	case abi.KubeApply:
		offset = kubeApply(offset)
	case abi.KubeDelete:
		offset = kubeDelete(offset)
	case abi.SecretRead:
		offset = secretRead(offset)
	case abi.Event:
		offset = event(offset)
	default:
		fail("there is no function " + string(f))
	}
	response := pdk.FindMemory(offset)
	return string(response.ReadBytes())
}
