// Package demo is the show behind `make demo`: it brings up a platform on two control
// planes with the real operator, watches it become available, takes it down again, and
// fails unless it has seen every step happen.
//
// It uses what a user has: the CLI, the manifests in deploy/ and examples/platform/, and
// the API. It is also the end-to-end test that CI runs.
package demo
