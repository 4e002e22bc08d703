//go:build wasip1 && fresh

package main

//go:wasmimport extism:host/env input_length
func inputLength() uint64

// A module whose initialiser uses the functions of a call gets an instance for each call:
// that is how the benchmark asks for one.
var _ = inputLength()
