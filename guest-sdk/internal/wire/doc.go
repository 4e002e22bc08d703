// Package wire reads and writes the JSON of package abi without reflection.
//
// Inside of a Go guest encoding/json is most of what a call costs, and a third of what a
// module weighs. This package reads a message in one pass, leaves the documents in it raw
// (config, facts, state, objects), and makes strings without escapes part of one copy of
// the message. What it accepts, and what it makes of it, is what encoding/json does with
// the types of package abi, to the last duplicate key; what it writes is the same bytes.
// Tests compare the two on every input that a fuzzer finds.
//
// [Reader] and the functions of write.go are JSON alone; input.go, answer.go, request.go and
// output.go know the messages.
package wire
