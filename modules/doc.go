// Package modules is where the first-party modules live, one directory each: a README, the
// provisioner with its manifest, native tests with a golden trace, and a main that only
// exists for WebAssembly.
//
// They are written as a third party would write one: they import package guest and
// package abi, and nothing else of this project. The package itself is empty; its test
// builds each module and holds what came out against its manifest and the size budget.
package modules
