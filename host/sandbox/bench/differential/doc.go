// Package differential gives the same modules and the same inputs to extism/go-sdk and to
// the sandbox, and compares what comes of it: how the call ended, its code, its output,
// what error_set got, what was logged, and what the host was asked for.
//
// Every difference is in the table of differences_test.go with its reason and with what
// both hosts do. One that is not, or that is there and is no more, fails the test: the
// interface of Extism has no normative text, and this is how a change in either host is
// noticed.
package differential
