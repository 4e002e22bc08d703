// Package guest is what the author of a module imports: it turns a config struct, a
// manifest and two functions into a WebAssembly module that Caisson can run.
//
//	type Config struct {
//		Replicas int `json:"replicas"`
//	}
//
//	var module = guest.Register(guest.Module[Config]{
//		Manifest:    abi.Manifest{Name: "hello", Version: "1.0.0", Capabilities: []abi.Function{abi.AppEnsure, abi.AppRemove}},
//		Provision:   func(call *guest.Call, cfg Config) error { return call.App("").Ensure(guest.AppSpec{…}) },
//		Deprovision: func(call *guest.Call, cfg Config) error { return call.App("").Remove() },
//	})
//
//	func main() {}
//
// Build it with GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared. The exports, the
// memory and the JSON of the contract (package abi and its SPEC.md) are the SDK's.
//
// # Lean modules
//
// A [Lean] module reads its config through a [Doc] instead of having it decoded into a
// struct, and Kubernetes objects, facts and state likewise. That keeps encoding/json out of
// WebAssembly, where it is twenty times slower than it is natively and most of what a call
// costs, and makes the file a fifth smaller. The messages of the contract go through a
// codec of the SDK's own in both kinds of module.
//
// # How it fits
//
// A handler returns nil when the desired state has been observed, and otherwise an
// error of [Yield], [Retry], [UserActionRequired] or [Terminal]; most are passed on from
// the methods of [Call], which already carry the host's verdict. Everything but the
// bindings to the host compiles natively, so that modules are tested with go test and
// package guesttest. Only the host functions whose methods a module really calls end up
// in its import section; the manifest must declare each of them.
//
// A panic is a trap: the host reports it as a fault of the module and calls again.
package guest
