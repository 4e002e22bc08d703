// Package wasmtest writes Wasm modules byte by byte, so that tests of the sandbox need
// no assembler and can write what no assembler would: modules that lie about their
// own sizes, and modules that attack whoever compiles or runs them.
package wasmtest
