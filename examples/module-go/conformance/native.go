//go:build !wasip1

// Command conformance is the guest of the conformance suite.
package main

// main does nothing: the module is for Wasm alone. It is here so that what looks at every
// package of the repository finds one.
func main() {}
