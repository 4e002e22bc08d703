// Package plug runs the leaf in a process of its own with hashicorp/go-plugin over gRPC:
// what people take who want plug-ins in Go, and the baseline of the benchmarks.
//
// It is set up as its users set it up who care for speed: one process that stays, one
// connection each way that stays, a unix socket, and messages that are bytes. Host calls
// go back through go-plugin's broker.
package plug
