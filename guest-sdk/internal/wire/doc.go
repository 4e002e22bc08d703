// Package wire reads and writes the JSON of package abi without reflection.
//
// Inside of a Go guest encoding/json is most of what a call costs, and a third of what a
// module weighs. This package reads a message in one pass ([Parse]) into a list of its
// values, and decodes out of that list what somebody wants to know: the documents in a
// message (config, facts, state, objects) are never read again. What it accepts, and what
// it makes of it, is what encoding/json does with the types of package abi, to the last
// duplicate key; what it writes is the same bytes. Tests compare the two on every input
// that a fuzzer finds.
//
// parser.go, tree.go, value.go, string.go and write.go are JSON alone; decode.go reads it
// into variables; input.go, answer.go, request.go and output.go know the messages.
package wire
