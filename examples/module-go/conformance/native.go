//go:build !wasip1

package main

// main does nothing: the module is for Wasm alone. It is here so that what looks at every
// package of the repository finds one.
func main() {}
