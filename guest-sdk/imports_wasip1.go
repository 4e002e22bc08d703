//go:build wasip1

package guest

import pdk "github.com/extism/go-pdk"

//go:wasmimport extism:host/user app_ensure
func importAppEnsure(request uint64) uint64

//go:wasmimport extism:host/user app_remove
func importAppRemove(request uint64) uint64

//go:wasmimport extism:host/user app_list
func importAppList(request uint64) uint64

//go:wasmimport extism:host/user kube_get
func importKubeGet(request uint64) uint64

//go:wasmimport extism:host/user kube_list
func importKubeList(request uint64) uint64

//go:wasmimport extism:host/user kube_apply
func importKubeApply(request uint64) uint64

//go:wasmimport extism:host/user kube_delete
func importKubeDelete(request uint64) uint64

//go:wasmimport extism:host/user secret_read
func importSecretRead(request uint64) uint64

//go:wasmimport extism:host/user event
func importEvent(request uint64) uint64

// One function each, called from one method each: a method that a module does not call
// is dropped by the linker and takes its import along.
func appEnsure(request []byte) []byte   { return pass(importAppEnsure, request) }
func appRemove(request []byte) []byte   { return pass(importAppRemove, request) }
func appList(request []byte) []byte     { return pass(importAppList, request) }
func kubeGet(request []byte) []byte     { return pass(importKubeGet, request) }
func kubeList(request []byte) []byte    { return pass(importKubeList, request) }
func kubeApply(request []byte) []byte   { return pass(importKubeApply, request) }
func kubeDelete(request []byte) []byte  { return pass(importKubeDelete, request) }
func secretRead(request []byte) []byte  { return pass(importSecretRead, request) }
func eventRecord(request []byte) []byte { return pass(importEvent, request) }

// pass moves a request into the host's memory and the response out of it. The memory of
// one call is the host's to clean up, so only the response, which can be large, is freed.
func pass(imported func(uint64) uint64, request []byte) []byte {
	in := pdk.AllocateBytes(request)
	out := pdk.FindMemory(imported(in.Offset()))
	response := out.ReadBytes()
	out.Free()
	return response
}

// hostLog sends a line at an Extism level; the numbers of [Level] are Extism's.
func hostLog(level Level, line string) { pdk.Log(pdk.LogLevel(level), line) }
