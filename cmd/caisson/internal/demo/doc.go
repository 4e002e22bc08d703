// Package demo is the show behind `make demo`: it brings up a platform on two control
// planes with the real operator, does to it what happens to a platform in its life, takes
// it down again, and fails unless it has seen every step happen.
//
// It uses what a user has: the CLI, the manifests in deploy/ and examples/platform/, and
// the API. It is also the end-to-end test that CI runs. Each chapter of the life is a file
// of its own and leaves the platform available, so that any of them can be left out; they
// share the waiting in life.go and the comparing in standing.go.
package demo
