// Package abischema has no code: its tests hold the JSON Schemas of abi/schema against the
// conformance vectors and the examples of abi/SPEC.md. They stand here and not in abi,
// because they need a validator and abi needs nothing but the standard library.
package abischema
