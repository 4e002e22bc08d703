//go:build !wasip1

package guest

import (
	"github.com/caisson-dev/caisson/abi"
)

// Outside of WebAssembly there is nothing to import: a [Host] answers, and without one
// every host function is unsupported.
func appEnsure([]byte) []byte   { return unsupported(abi.AppEnsure) }
func appRemove([]byte) []byte   { return unsupported(abi.AppRemove) }
func appList([]byte) []byte     { return unsupported(abi.AppList) }
func kubeGet([]byte) []byte     { return unsupported(abi.KubeGet) }
func kubeList([]byte) []byte    { return unsupported(abi.KubeList) }
func kubeApply([]byte) []byte   { return unsupported(abi.KubeApply) }
func kubeDelete([]byte) []byte  { return unsupported(abi.KubeDelete) }
func secretRead([]byte) []byte  { return unsupported(abi.SecretRead) }
func eventRecord([]byte) []byte { return unsupported(abi.Event) }

func unsupported(f abi.Function) []byte {
	return []byte(`{"error":{"code":"` + string(abi.CodeUnsupported) + `","message":"` + string(f) + ` needs a host"}}`)
}

// hostLog drops the line: without a host nobody reads it.
func hostLog(Level, string) {}
