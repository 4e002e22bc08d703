// Package oracle runs modules with extism/go-sdk, Extism's own host for Go: what the
// differential test compares with, and a baseline of the benchmarks. It is used as its
// documentation says: compiled once, one instance that serves call after call.
package oracle
