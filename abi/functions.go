package abi

// Function names a host function. It is at once the name of the import in
// [ImportUser] and the name of the capability that a manifest must declare and an
// admin must grant. All have the Wasm type (i64) -> i64: a memory handle of a JSON
// request in, a memory handle of a JSON response out.
type Function string

// The host functions of version 1. There are no others.
const (
	AppEnsure  Function = "app_ensure"
	AppRemove  Function = "app_remove"
	AppList    Function = "app_list"
	KubeGet    Function = "kube_get"
	KubeList   Function = "kube_list"
	KubeApply  Function = "kube_apply"
	KubeDelete Function = "kube_delete"
	SecretRead Function = "secret_read"
	Event      Function = "event"
)

// Functions returns every host function of this version, in the order of SPEC.md.
func Functions() []Function {
	return []Function{AppEnsure, AppRemove, AppList, KubeGet, KubeList, KubeApply, KubeDelete, SecretRead, Event}
}

// Known reports whether f is a host function of this version.
func (f Function) Known() bool {
	for _, known := range Functions() {
		if f == known {
			return true
		}
	}
	return false
}
