// Package schema derives the JSON Schemas of the messages of package abi from its Go
// types: structure by reflection, descriptions and lists of values from its source.
//
// The result is committed in abi/schema, for authors who do not write Go. `make generate`
// writes it; a test fails when it is not up to date. rules.go holds what a Go type cannot
// say.
package schema
